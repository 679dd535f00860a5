/// The life of a session, from plan to reserved and filled memory.
#include <algorithm>
#include <cstring>
#include <filesystem>

#include "core/checked.h"
#include "core/error.h"
#include "kernels/queued_prepack.h"
#include "session/initializer.h"
#include "session/prepacked_cache.h"

namespace ullage::session {

void Initializer::ReadRunOptions() {
  const OptionBag& options = s.spec_.options;
  for (const char* key :
       {"session.use_device_allocator_for_initializers", "session.enable_static_workspace_preallocation"})
    if (!options.Bool(key))
      Throw(Code::kUnsupported, "option ", key, ": it is always so; only 1 is possible");
  for (const char* key :
       {"ep.cpu.arena.extend_strategy", "ep.cpu.arena.initial_chunk_size_bytes",
        "ep.cpu.arena.initial_growth_chunk_size_bytes", "ep.cpu.arena.max_dead_bytes_per_chunk",
        "ep.cpu.arena.max_mem", "ep.cpu.arena.max_power_of_two_extend_bytes",
        "memory.enable_memory_arena_shrinkage"})
    if (s.pre_allocated_ && options.Has(key))
      Degrade(StrCat("option ", key, " has no effect: with pre-allocated buffers there is no arena"));
  const std::string devices = options.Str("memory.enable_memory_arena_shrinkage");
  for (std::string_view left = devices; !left.empty();) {
    const size_t end = std::min(left.find(';'), left.size());
    const std::string_view device = left.substr(0, end);
    if (device != "cpu:0" && device != "cpu")
      Throw(Code::kUsage, "option memory.enable_memory_arena_shrinkage: expected \"cpu:0\", found \"", device,
            "\"");
    s.shrink_arena_ = !s.pre_allocated_;
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  const std::string file = options.Str("session.collect_node_memory_stats_to_file");
  s.collect_stats_ = s.spec_.collect_node_stats || !file.empty();
  if (file.empty()) return;
  const std::string path = (std::filesystem::path(s.spec_.model_folder) / file).string();
  try {
    memory::WriteNodeStats(path, {}, false);  // now, rather than when all work is done
  } catch (const Error& error) {
    Throw(Code::kUsage, "option session.collect_node_memory_stats_to_file: ", error.message());
  }
  s.stats_path_ = path;
}

void Initializer::FindPrepacked() {
  s.team_ = std::make_unique<ThreadTeam>(s.threads_);
  const std::string folder = s.spec_.options.Str("session.prepacked_cache");
  if (folder.empty() || s.prepacked_bytes_ == 0) return;
  PrepackedKey key;
  for (const auto& b : s.blocks_)
    if (b.device == 0) key.AddBlock(b.offset, b.bytes, b.layout, b.sources);
  cache_key = key.text();
  cache_path = key.PathIn(folder);
  s.prepacked_file_ =
      OpenPrepacked(cache_path, cache_key, static_cast<size_t>(s.prepacked_bytes_), *s.team_, &packed);
  if (packed) s.prepacked_cache_ = "mapped";
}

void Initializer::Reserve() {
  s.allocator_ = std::make_unique<memory::HostAllocator>(s.spec_.cpu_limit, "cpu");
  // All of it, before any of it is taken.
  const int64_t wanted =
      CheckedAdd(packed ? 0 : s.prepacked_bytes_, s.pre_allocated_ ? s.kv_bytes_ + s.arena_bytes_ : 0);
  if (const int64_t available = memory::AvailableHostBytes(); wanted > available)
    Throw(Code::kDoesNotFit, "cannot reserve ", wanted, " bytes of host memory: only ", available,
          " are available");
  memory::RegionOptions options;
  options.huge_pages = s.spec_.options.Bool("session.use_huge_pages");
  options.touch = false;  // packing and copying write weights; the team touches the rest
  if (!packed) s.prepacked_region_ = memory::HostRegion(static_cast<size_t>(s.prepacked_bytes_), options);
  LoadWeights(options);
  s.allocator_->Charge(s.prepacked_bytes_, memory::Tag::kPrepacked);
  s.allocator_->Charge(widened.staging(), memory::Tag::kStaging);
  s.kv_region_ = memory::HostRegion(static_cast<size_t>(s.kv_bytes_), options);
  s.allocator_->Charge(s.kv_bytes_, memory::Tag::kKv);
  const OptionBag& given = s.spec_.options;
  const bool lock = s.pre_allocated_ && given.Bool("session.lock_execution_buffers");
  const bool strict_lock =
      lock && given.Has("session.lock_execution_buffers") && given.Bool("session.strict");
  if (s.pre_allocated_ && !MakeResident(s.kv_region_, *s.team_, lock) && strict_lock)
    Throw(Code::kDoesNotFit, LockPages({s.kv_region_.data(), s.kv_region_.size()}, "caches"));
  for (const auto& e : s.spec_.extra) s.allocator_->Charge(e.bytes, e.tag);
  ReserveOnDevices();
  for (auto& state : s.states_) {
    if (state.device == 0) {
      state.data = s.kv_region_.data() + state.offset;
      state.other = state.shared ? state.data : s.kv_region_.data() + state.offset_other;
    } else {
      const auto& regions = s.shares_[static_cast<size_t>(state.device - 1)]->kv_regions;
      state.data = DeviceShare::At(regions, state.place);
      state.other = state.shared ? state.data : DeviceShare::At(regions, state.place_other);
    }
  }

  FramePool::Spec frames;
  frames.program = s.program_.get();
  frames.constants = &s.device_constants_;
  for (const auto& share : s.shares_) frames.devices.push_back({&share->memory, share->frame_bytes});
  for (const auto& p : s.profiles_) frames.plans.push_back(p.plan.get());
  frames.team = s.team_.get();
  frames.prepacked = &s.prepacked_;
  frames.allocator = s.allocator_.get();
  frames.resident = s.pre_allocated_;
  frames.lock = lock;
  frames.require_lock = strict_lock;
  int64_t extra = 0;
  for (const auto& e : s.spec_.extra) extra += e.tag == memory::Tag::kWorkspace ? e.bytes : 0;
  const int64_t workspace = s.host_plan().tags[memory::Tag::kWorkspace] - extra;
  frames.bytes.Add(memory::Tag::kWorkspace, workspace);
  frames.bytes.Add(memory::Tag::kActivations, s.arena_bytes_ - workspace);
  frames.region = options;
  frames.concurrency = s.pre_allocated_     ? Concurrency::kRefuse
                       : !s.states_.empty() ? Concurrency::kWait
                                            : Concurrency::kShare;
  if (!s.pre_allocated_) {
    memory::RegionOptions region;
    region.huge_pages = options.huge_pages;
    region.touch = false;
    s.arena_ = std::make_unique<memory::BfcArena>(*s.allocator_,
                                                  memory::ArenaOptions::From(s.spec_.options, "cpu"), region);
  }
  frames.dynamic = s.arena_.get();
  frames.input_count = s.graph().inputs.size();
  s.frames_ = std::make_unique<FramePool>(frames);
  s.allocations_at_start_ = s.allocator_->allocations();
  for (const auto& share : s.shares_) share->reservations_at_start = share->memory.reservations();
}

void Initializer::ReserveOnDevices() {
  for (size_t d = 0; d < s.shares_.size(); ++d) {
    DeviceShare& share = *s.shares_[d];
    memory::TagBytes overhead;
    overhead[memory::Tag::kOverhead] = s.plans_[d].tags[memory::Tag::kOverhead];
    share.memory.Charge(overhead);
    share.Reserve();
  }
  for (const auto& [value, known] : on_device) {
    const DeviceShare& share = *s.shares_[static_cast<size_t>(value.first->device(value.second) - 1)];
    s.device_constants_[value] =
        known ? DeviceShare::At(share.weight_regions, share.constants[known - 1].place) : nullptr;
  }
}

void Initializer::PrepareKernels(const Streams& streams) {
  EachStep(*s.program_, [&](Program&, Step& step) {
    if (!step.kernel || step.device == 0) return;
    std::vector<const std::byte*> blocks;
    for (int b : step.prepacked) blocks.push_back(s.prepacked_.blocks[static_cast<size_t>(b)]);
    step.kernel->Prepare(blocks, streams[static_cast<size_t>(step.device - 1)].get());
  });
  for (const auto& stream : streams) stream->Finish();
}

/// Something that was asked for and cannot be done.
void Initializer::Degrade(const std::string& what) {
  if (s.spec_.options.Bool("session.strict")) Throw(Code::kDoesNotFit, what);
  s.warnings_.push_back(what);
}

/// Before there are frames, which keep where constants lie.
void Initializer::LoadWeights(const memory::RegionOptions& region) {
  for (const auto& w : s.weights_->weights()) s.allocator_->Charge(w.bytes, memory::Tag::kWeights);
  s.weights_->Load(region, *s.team_);
  if (ParseResidency(s.host_plan().weights_resident).locked) LockWeights();
}

/// Before anything is packed, so that a lack shows early.
void Initializer::LockWeights() {
  std::string failure = s.weights_->Lock();
  const std::byte* prepacked = packed ? packed : s.prepacked_region_.data();
  if (failure.empty() && prepacked)
    failure = LockPages({prepacked, static_cast<size_t>(s.prepacked_bytes_)}, "prepacked weights");
  if (!failure.empty()) Degrade(failure);
}

/// Large blocks by the whole team, one after the other; then the others, each by one of its threads, the
/// largest first: packing only reads the model and writes its block.
void Initializer::PackBlocks(std::byte* region) {
  constexpr size_t kLarge = size_t{8} << 20;
  std::vector<const Session::Block*> small;
  for (const auto& block : s.blocks_) {
    if (block.device != 0) continue;
    if (block.bytes < kLarge)
      small.push_back(&block);
    else
      block.step->kernel->Prepack(block.index, region + block.offset, *s.team_);
  }
  std::stable_sort(small.begin(), small.end(),
                   [](const auto* a, const auto* b) { return a->bytes > b->bytes; });
  s.team_->Run(static_cast<int64_t>(small.size()), [&](int64_t i, int) {
    const Session::Block& block = *small[static_cast<size_t>(i)];
    ThreadTeam alone(1);
    block.step->kernel->Prepack(block.index, region + block.offset, alone);
  });
}

void Initializer::PackOnDevices(const Streams& streams, bool queued) {
  for (size_t i = 0; i < s.blocks_.size(); ++i) {
    const auto& block = s.blocks_[i];
    if (block.device == 0) continue;
    auto* const kernel = block.step->kernel.get();
    auto* const target = const_cast<std::byte*>(s.prepacked_.blocks[i]);
    // What is converted for one block is gone after it: nothing may read it later.
    auto* const in_queue =
        widened.has_any(block.sources) ? nullptr : dynamic_cast<kernels::QueuedPrepack*>(kernel);
    if ((in_queue != nullptr) != queued) continue;
    if (in_queue)
      in_queue->PrepackIn(*streams[static_cast<size_t>(block.device - 1)], block.index, target);
    else
      widened.With(block.sources, [&] { kernel->Prepack(block.index, target, *s.team_); });
  }
}

void Initializer::Prepack() {
  std::byte* region = s.prepacked_region_.data();
  for (const auto& block : s.blocks_)
    s.prepacked_.blocks.push_back(
        block.device == 0
            ? (packed ? packed : region) + block.offset
            : DeviceShare::At(s.shares_[static_cast<size_t>(block.device - 1)]->prepacked_regions,
                              block.place));
  Streams streams;
  for (const auto& share : s.shares_) streams.push_back(share->memory.device().CreateStream());
  widened.FillKept();
  PackOnDevices(streams, true);  // what queues do while the host packs its own
  if (!packed) PackBlocks(region);
  PackOnDevices(streams, false);
  for (const auto& share : s.shares_) share->FillConstants(widened);
  for (const auto& stream : streams) stream->Finish();
  PrepareKernels(streams);
  if (!packed && !cache_path.empty()) {
    const int64_t limit = s.spec_.options.Size("session.prepacked_cache_limit");
    if (s.prepacked_bytes_ > limit) {
      s.prepacked_cache_ = StrCat("more than session.prepacked_cache_limit: ", s.prepacked_bytes_, " bytes");
    } else {
      s.prepacked_cache_ =
          WritePrepacked(cache_path, cache_key, {region, static_cast<size_t>(s.prepacked_bytes_)}, *s.team_)
              .value_or("written");
      PrunePrepacked(cache_path, limit);
    }
  }
  s.ResetStates();
}

}  // namespace ullage::session
