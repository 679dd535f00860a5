#include "memory/arena.h"

#include <algorithm>
#include <bit>

#include "core/checked.h"
#include "core/error.h"
#include "core/options.h"

namespace ullage::memory {
namespace {

constexpr int64_t kUnit = 256;
constexpr int64_t kMaxBytes = int64_t{1} << 62;

}  // namespace

ArenaOptions ArenaOptions::From(const OptionBag& options, std::string_view provider) {
  ArenaOptions out;
  const auto key = [&](std::string_view name) { return StrCat("ep.", provider, ".arena.", name); };
  const int64_t strategy = options.Int(key("extend_strategy"));
  if (strategy != 0 && strategy != 1)
    Throw(Code::kUsage, "option ", key("extend_strategy"),
          ": expected 0 (next power of two) or 1 (same as requested), found ", strategy);
  out.extend_strategy = static_cast<Extend>(strategy);
  out.initial_chunk_size_bytes = options.Size(key("initial_chunk_size_bytes"));
  out.initial_growth_chunk_size_bytes = options.Size(key("initial_growth_chunk_size_bytes"));
  out.max_power_of_two_extend_bytes = options.Size(key("max_power_of_two_extend_bytes"));
  out.max_dead_bytes_per_chunk = options.Size(key("max_dead_bytes_per_chunk"));
  out.max_mem = options.Size(key("max_mem"));
  return out;
}

BfcArena::BfcArena(HostAllocator& host, const ArenaOptions& options, const RegionOptions& region)
    : host_(host), options_(options), region_options_(region) {
  next_region_bytes_ = std::clamp<int64_t>(options_.initial_chunk_size_bytes, kUnit, kMaxBytes);
  stats_.bytes_limit = options_.max_mem;
}

BfcArena::~BfcArena() {
  host_.Discharge(stats_.total_allocated_bytes, Tag::kActivations);
}

void BfcArena::AddRegion(int64_t bytes) {
  if (options_.max_mem > 0 && bytes > options_.max_mem - stats_.total_allocated_bytes)
    Throw(Code::kDoesNotFit, "the arena has no room for ", bytes, " bytes: it may take ", options_.max_mem,
          " and holds ", stats_.total_allocated_bytes, ", ", stats_.bytes_in_use, " of them in use");
  host_.Charge(bytes, Tag::kActivations);
  try {
    auto region = std::make_unique<HostRegion>(static_cast<size_t>(bytes), region_options_);
    std::byte* const start = region->data();
    chunks_.emplace(start, Chunk{bytes, 0, Tag::kActivations, region.get()});
    free_.emplace(bytes, start);
    regions_.emplace(start, std::move(region));
  } catch (...) {
    host_.Discharge(bytes, Tag::kActivations);
    throw;
  }
  stats_.total_allocated_bytes += bytes;
  ++stats_.num_arena_extensions;
}

BfcArena::Chunks::iterator BfcArena::Extend(int64_t bytes) {
  int64_t wanted = bytes;
  if (options_.extend_strategy == ArenaOptions::Extend::kNextPowerOfTwo || regions_.empty())
    wanted = std::max(bytes, AlignUp<int64_t>(next_region_bytes_, kUnit));
  try {
    AddRegion(wanted);
  } catch (const Error& error) {
    // Room for growth is welcome, not needed.
    if (error.code() != Code::kDoesNotFit || wanted == bytes) throw;
    wanted = bytes;
    AddRegion(wanted);
  }
  const int64_t most = std::max<int64_t>(options_.max_power_of_two_extend_bytes, kUnit);
  next_region_bytes_ = std::min(
      most, std::max(options_.initial_growth_chunk_size_bytes,
                     static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::min(wanted, most)))) * 2));
  return chunks_.find(free_.lower_bound({bytes, nullptr})->second);
}

void BfcArena::Cut(Chunks::iterator chunk, int64_t size) {
  const int64_t rest = chunk->second.size - size;
  if (rest < kUnit || (rest <= options_.max_dead_bytes_per_chunk && chunk->second.size < 2 * size)) return;
  std::byte* const second = chunk->first + size;
  chunks_.emplace(second, Chunk{rest, 0, Tag::kActivations, chunk->second.region});
  free_.emplace(rest, second);
  chunk->second.size = size;
}

void* BfcArena::Allocate(size_t bytes, size_t alignment, Tag tag) {
  if (!std::has_single_bit(alignment)) Throw(Code::kUsage, "alignment ", alignment, " is no power of two");
  if (bytes == 0) return nullptr;
  // Chunks start at multiples of the unit in regions that start at pages; more is made room for.
  const size_t slack = alignment > kUnit ? alignment - kUnit : 0;
  if (bytes > kMaxBytes || slack > kMaxBytes)
    Throw(Code::kDoesNotFit, "the arena has no room for ", bytes, " bytes at multiples of ", alignment);
  const int64_t size = AlignUp<int64_t>(static_cast<int64_t>(bytes + slack), kUnit);
  const std::lock_guard lock(mutex_);
  const auto fit = free_.lower_bound({size, nullptr});
  const Chunks::iterator chunk = fit != free_.end() ? chunks_.find(fit->second) : Extend(size);
  std::byte* const start = chunk->first;
  auto* const pointer =
      reinterpret_cast<std::byte*>(AlignUp<uintptr_t>(reinterpret_cast<uintptr_t>(start), alignment));
  handed_out_.emplace(pointer, start);
  free_.erase({chunk->second.size, start});
  Cut(chunk, size);
  chunk->second.requested = static_cast<int64_t>(bytes);
  chunk->second.tag = tag;
  stats_.bytes_in_use += chunk->second.size;
  stats_.max_bytes_in_use = std::max(stats_.max_bytes_in_use, stats_.bytes_in_use);
  stats_.max_alloc_size = std::max(stats_.max_alloc_size, static_cast<int64_t>(bytes));
  ++stats_.num_allocs;
  current_.Add(tag, static_cast<int64_t>(bytes));
  peak_.RaiseTo(current_);
  return pointer;
}

void BfcArena::Free(void* pointer) {
  if (pointer == nullptr) return;
  const std::lock_guard lock(mutex_);
  const auto found = handed_out_.find(pointer);
  if (found == handed_out_.end()) Throw(Code::kRuntime, "freed a pointer that is not of the arena");
  auto chunk = chunks_.find(found->second);
  handed_out_.erase(found);
  stats_.bytes_in_use -= chunk->second.size;
  current_.Add(chunk->second.tag, -chunk->second.requested);
  chunk->second.requested = 0;
  const auto absorb = [&](Chunks::iterator into, Chunks::iterator from) {
    into->second.size += from->second.size;
    chunks_.erase(from);
  };
  const auto is_free_in = [&](Chunks::iterator c) {
    return c->second.requested == 0 && c->second.region == chunk->second.region;
  };
  if (const auto next = std::next(chunk); next != chunks_.end() && is_free_in(next)) {
    free_.erase({next->second.size, next->first});
    absorb(chunk, next);
  }
  if (chunk != chunks_.begin())
    if (const auto before = std::prev(chunk); is_free_in(before)) {
      free_.erase({before->second.size, before->first});
      absorb(before, chunk);
      chunk = before;
    }
  free_.emplace(chunk->second.size, chunk->first);
}

int64_t BfcArena::Shrink() {
  const std::lock_guard lock(mutex_);
  int64_t given_back = 0;
  for (auto it = regions_.begin(); it != regions_.end();) {
    const auto chunk = chunks_.find(it->first);
    const auto bytes = static_cast<int64_t>(it->second->size());
    if (chunk->second.requested > 0 || chunk->second.size != bytes) {
      ++it;
      continue;
    }
    free_.erase({bytes, chunk->first});
    chunks_.erase(chunk);
    it = regions_.erase(it);
    host_.Discharge(bytes, Tag::kActivations);
    given_back += bytes;
  }
  if (given_back > 0) {
    stats_.total_allocated_bytes -= given_back;
    ++stats_.num_arena_shrinkages;
    next_region_bytes_ = std::clamp<int64_t>(options_.initial_growth_chunk_size_bytes, kUnit, kMaxBytes);
  }
  return given_back;
}

TagBytes BfcArena::current() const {
  const std::lock_guard lock(mutex_);
  return current_;
}

TagBytes BfcArena::peak() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

int64_t BfcArena::peak_total() const {
  const std::lock_guard lock(mutex_);
  return stats_.max_bytes_in_use;
}

int64_t BfcArena::allocations() const {
  const std::lock_guard lock(mutex_);
  return stats_.num_allocs;
}

ArenaStats BfcArena::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void BfcArena::CheckInvariants() const {
  const std::lock_guard lock(mutex_);
  const auto require = [](bool holds, const char* what) {
    if (!holds) Throw(Code::kRuntime, "arena: ", what);
  };
  size_t free_chunks = 0;
  int64_t in_use = 0, total = 0;
  auto chunk = chunks_.begin();
  for (const auto& [start, region] : regions_) {
    std::byte* at = start;
    bool last_free = false;
    for (; chunk != chunks_.end() && chunk->second.region == region.get(); ++chunk) {
      require(chunk->first == at, "chunks leave a gap or overlap");
      require(chunk->second.size > 0 && chunk->second.size % kUnit == 0, "a chunk of odd size");
      const bool is_free = chunk->second.requested == 0;
      require(!(is_free && last_free), "two free neighbours");
      require(free_.count({chunk->second.size, chunk->first}) == (is_free ? 1u : 0u),
              "the free list is wrong");
      free_chunks += is_free;
      in_use += is_free ? 0 : chunk->second.size;
      last_free = is_free;
      at += chunk->second.size;
    }
    require(at == start + region->size(), "chunks do not cover the region");
    total += static_cast<int64_t>(region->size());
  }
  require(chunk == chunks_.end(), "a chunk outside of all regions");
  require(free_chunks == free_.size(), "the free list has strangers");
  require(in_use == stats_.bytes_in_use && total == stats_.total_allocated_bytes, "the sums are wrong");
}

}  // namespace ullage::memory
