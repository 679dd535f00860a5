#include <algorithm>
#include <cstring>

#include "core/checked.h"
#include "core/error.h"
#include "kernels/sequence.h"
#include "session/frame.h"
#include "session/parts.h"
#include "session/run_stats.h"

namespace ullage::session {

using graph::kNone;
using graph::ValueId;

constexpr size_t kValueAlignment = 64;

/// What a kernel sees of its step.
class StepContext final : public kernels::KernelContext {
 public:
  StepContext(Executor& executor, Frame& frame, size_t index)
      : executor_(executor), frame_(frame), step_(frame.program().steps()[index]), index_(index) {}
  ~StepContext() override = default;

  const TensorView* input(int i) const override {
    const ValueId v =
        static_cast<size_t>(i) < step_.inputs.size() ? step_.inputs[static_cast<size_t>(i)] : kNone;
    return v == kNone ? nullptr : &frame_.value(v);
  }
  TensorView* output(int i) override {
    const ValueId v =
        static_cast<size_t>(i) < step_.outputs.size() ? step_.outputs[static_cast<size_t>(i)] : kNone;
    return v == kNone ? nullptr : &frame_.value(v);
  }
  void SetOutputShape(int i, const Shape& shape) override {
    const ValueId v = step_.outputs[static_cast<size_t>(i)];
    if (v == kNone) return;
    const TensorView& now = frame_.value(v);
    if (step_.late && !now.data) {
      frame_.SetShape(v, shape);
      executor_.Place(frame_, v, SizeOf(graph::TypeKind::kTensor, now));
      return;
    }
    if (shape.elements() > now.shape.elements())
      Throw(Code::kRuntime, "result ", frame_.program().name(v), " has shape ", shape.ToString(),
            ", more than the bound ", now.shape.ToString());
    frame_.SetShape(v, shape);
  }
  void* GetPreallocatedWorkspace(int slot, size_t* bytes) override {
    for (const Slot& s : slots_)
      if (s.id == slot) {
        if (bytes) *bytes = s.bytes;
        return s.memory.get();
      }
    for (auto device = static_cast<size_t>(step_.device);; device = 0) {  // slots on the host are the others
      const Plan::Arena& arena = frame_.plan_->arenas[device];
      const auto found = arena.workspace.GetOffset(static_cast<int64_t>(index_), slot);
      if (bytes) *bytes = found ? found->size : 0;
      if (found) return frame_.arenas_[device] + arena.shift + found->offset;
      if (device == 0) return nullptr;
    }
  }
  void* GetScratchBuffer(size_t bytes, size_t alignment) override {
    if (!executor_.arena_)
      Throw(Code::kRuntime, "a kernel wants ", bytes, " bytes of scratch that it did not declare");
    Count(bytes, alignment);
    scratch_.push_back(Take(bytes, alignment));
    return scratch_.back().get();
  }
  const std::byte* prepacked(int index) const override {
    return executor_.prepacked_.blocks[static_cast<size_t>(step_.prepacked[static_cast<size_t>(index)])];
  }
  ThreadTeam& threads() override { return executor_.threads_; }
  providers::Stream* stream() override {
    return step_.device == 0 ? nullptr
                             : executor_.queues_[static_cast<size_t>(step_.device - 1)].compute.get();
  }

  /// Declares the workspace for the shapes at hand. With `take`, the slots come from the arena; without, they
  /// are counted only.
  void DeclareNow(bool take) {
    std::vector<ops::ValueFacts> in, out;
    const auto facts = [&](const std::vector<ValueId>& values, std::vector<ops::ValueFacts>* list) {
      for (ValueId v : values) {
        ops::ValueFacts f;
        if (v != kNone) {
          f.dtype = frame_.value(v).dtype;
          f.shape = frame_.shapes_[static_cast<size_t>(v)];
        }
        list->push_back(std::move(f));
      }
    };
    facts(step_.inputs, &in);
    facts(step_.outputs, &out);
    std::vector<memory::WorkspaceRequirement> needs;
    step_.kernel->DeclareWorkspaceRequirements({in, out, executor_.threads_.size()}, needs);
    for (const auto& need : needs) {
      if (need.status != memory::WorkspaceStatus::kKnown || need.size_bytes == 0) continue;
      const size_t alignment = need.alignment ? need.alignment : memory::kDefaultWorkspaceAlignment;
      Count(need.size_bytes, alignment);
      if (take) slots_.push_back({need.slot_id, need.size_bytes, Take(need.size_bytes, alignment)});
    }
  }
  int64_t temp_sum() const { return temp_sum_; }
  int64_t temp_peak() const { return temp_peak_; }

 private:
  struct Slot {
    int id;
    size_t bytes;
    ArenaBlock memory;
  };

  ArenaBlock Take(size_t bytes, size_t alignment) {
    memory::Allocator* const arena = executor_.arena_;
    if (!arena) Throw(Code::kRuntime, "nothing bounded the ", bytes, " bytes of scratch that a kernel needs");
    return {arena->Allocate(bytes, alignment, memory::Tag::kWorkspace), FreeTo{arena}};
  }
  void Count(size_t bytes, size_t alignment) {
    temp_sum_ += static_cast<int64_t>(bytes);
    temp_peak_ += static_cast<int64_t>(AlignUp(bytes, alignment));
  }

  Executor& executor_;
  Frame& frame_;
  const Step& step_;
  size_t index_;
  std::vector<Slot> slots_;          // of this call only
  std::vector<ArenaBlock> scratch_;  // of this call only
  int64_t temp_sum_ = 0, temp_peak_ = 0;
};

/// Tells the devices that a Run begins, and that it ended.
class RunOnDevices {
 public:
  explicit RunOnDevices(std::span<DeviceQueue> queues) : queues_(queues) {
    for (DeviceQueue& queue : queues_) queue.device->BeginRun();
  }
  ~RunOnDevices() {
    for (DeviceQueue& queue : queues_) queue.device->EndRun();
  }
  RunOnDevices(const RunOnDevices&) = delete;
  RunOnDevices& operator=(const RunOnDevices&) = delete;

 private:
  std::span<DeviceQueue> queues_;
};

void Executor::Run(Frame& frame, const std::atomic<bool>* stop) {
  stop_ = stop;
  const RunOnDevices scope(queues_);
  try {
    RunSteps(frame);
  } catch (...) {
    for (DeviceQueue& queue : queues_) {  // what was put in still uses the frame's memory
      try {
        queue.Finish();
      } catch (const Error&) {  // the first error counts
      }
    }
    throw;
  }
}

void Executor::FinishQueues() {
  for (DeviceQueue& queue : queues_) queue.Finish();
}

void Executor::RunSteps(Frame& frame) {
  size_t s = 0;
  for (const Plan::Tiles& tiles : frame.plan_->tiles) {
    RunSteps(frame, s, static_cast<size_t>(tiles.first));
    RunTiles(frame, tiles);
    if (stats) RecordTiles(frame, tiles);
    s = static_cast<size_t>(tiles.last);
  }
  RunSteps(frame, s, frame.program().steps().size());
  if (!frame.plan_->sync.empty()) FinishQueues();  // the results are there, and the memory is free
}

void Executor::RunSteps(Frame& frame, size_t first, size_t last) {
  for (size_t s = first; s < last; ++s) {
    if (stop_ && stop_->load(std::memory_order_relaxed)) throw Error(Code::kInterrupted, "interrupted");
    RunInOrder(frame, s);
    if (in_tile_) continue;
    for (ValueId v : frame.plan_->last_reads[s]) frame.Drop(v);
  }
}

void Executor::RunInOrder(Frame& frame, size_t index) {
  const SyncPlan& plan = frame.plan_->sync;
  if (plan.empty()) {
    RunStep(frame, index);
    return;
  }
  const StepSync& sync = plan.steps()[index];
  for (int32_t w : sync.awaited) frame.events_[static_cast<size_t>(w)]->Wait();
  if (sync.alone) FinishQueues();
  if (sync.stream == 0) {
    RunStep(frame, index);
  } else {
    providers::Stream& stream = queues_[static_cast<size_t>((sync.stream - 1) / 2)].stream(sync.stream);
    for (int32_t w : sync.waits) stream.Wait(*frame.events_[static_cast<size_t>(w)]);
    RunStep(frame, index);
    if (sync.records) frame.events_[index]->Record(stream);
    stream.Flush();
  }
}

namespace {

/// Shows a value's rows from `data` on.
TensorView Rows(const TensorView& whole, std::byte* data, int64_t rows) {
  TensorView part = whole;
  const int rank = whole.shape.rank();
  for (int d = 0; d + 2 < rank; ++d) part.shape[d] = 1;
  part.shape[rank - 2] = rows;
  part.data = data;
  return part;
}

}  // namespace

void Executor::RunTiles(Frame& frame, const Plan::Tiles& tiles) {
  const auto first = static_cast<size_t>(tiles.first), last = static_cast<size_t>(tiles.last);
  const TensorView lead = frame.value(tiles.outside[0].value);  // an input
  const int rank = lead.shape.rank();
  const int64_t rows = lead.shape.elements(0, rank - 1);
  if (rows <= tiles.rows && rows == lead.shape[rank - 2]) return RunSteps(frame, first, last);
  /// The whole values come back, whatever happens.
  struct Whole {
    Frame& frame;
    const Plan::Tiles& tiles;
    bool& in_tile;
    std::array<TensorView, Plan::kMaxOutside> views;
    ~Whole() {
      in_tile = false;
      for (size_t i = 0; i < tiles.outside.size(); ++i) frame.Show(tiles.outside[i].value, views[i]);
    }
  } whole{frame, tiles, in_tile_, {}};
  for (size_t i = 0; i < tiles.outside.size(); ++i) {
    const auto& outside = tiles.outside[i];
    TensorView& view = whole.views[i];
    view = frame.value(outside.value);
    if (!outside.written) continue;
    view.shape = lead.shape;
    view.shape[rank - 1] = outside.row_bytes / static_cast<int64_t>(BytesOf(view.dtype, 1));
  }
  in_tile_ = true;
  for (int64_t at = 0; at < rows; at += tiles.rows) {
    const int64_t some = std::min(tiles.rows, rows - at);
    for (size_t i = 0; i < tiles.outside.size(); ++i) {
      auto* const data = static_cast<std::byte*>(whole.views[i].data) + at * tiles.outside[i].row_bytes;
      frame.Show(tiles.outside[i].value, Rows(whole.views[i], data, some));
    }
    RunSteps(frame, first, last);
  }
}

void Executor::RecordTiles(Frame& frame, const Plan::Tiles& tiles) {
  for (auto s = static_cast<size_t>(tiles.first); s < static_cast<size_t>(tiles.last); ++s)
    if (const auto it = tile_temps_.find(s); it != tile_temps_.end())
      stats->Record(frame, s, it->second.first, it->second.second);
  tile_temps_.clear();
}

void Executor::RunStep(Frame& frame, size_t index) {
  const Step& step = frame.program().steps()[index];
  try {
    switch (step.kind) {
      case Step::Kind::kKernel:
      case Step::Kind::kFused:
        RunKernel(frame, index);
        break;
      case Step::Kind::kView:
        RunView(frame, index);
        break;
      case Step::Kind::kParts:
        RunParts(frame, index);
        break;
      case Step::Kind::kSelect:
        RunSelect(frame, index);
        break;
      case Step::Kind::kIf:
        RunIf(frame, index);
        break;
      case Step::Kind::kLoop:
        RunLoop(frame, index);
        break;
      case Step::Kind::kScan:
        RunScan(frame, index);
        break;
      case Step::Kind::kSequenceMap:
        RunSequenceMap(frame, index);
        break;
      case Step::Kind::kCopy:
        RunCopy(frame, index);
        break;
    }
    if (stats && !step.kernel && step.kind != Step::Kind::kCopy) stats->Record(frame, index, 0, 0);
  } catch (const Error& error) {
    if (step.node == kNone) throw;
    const graph::Node& node = frame.program().graph().node(step.node);
    if (error.message().find(node.name) != std::string::npos || error.code() == Code::kInterrupted) throw;
    throw Error(error.code(), StrCat("node ", node.name, " (", node.OpName(), "): ", error.message()),
                error.details_json());
  }
}

void Executor::RunKernel(Frame& frame, size_t index) {
  InferShapes(frame, index);
  StepContext context(*this, frame, index);
  const bool open = frame.plan_->open_workspace[index] != 0;
  if (open || stats) context.DeclareNow(open);
  frame.program().steps()[index].kernel->Compute(context);
  if (!stats) return;
  if (in_tile_)
    tile_temps_[index] = {context.temp_sum(), context.temp_peak()};
  else
    stats->Record(frame, index, context.temp_sum(), context.temp_peak());
}

void Executor::InferShapes(Frame& frame, size_t index) {
  const Step& step = frame.program().steps()[index];
  uint64_t stamp = 1;
  for (ValueId v : step.inputs)
    if (v != kNone) stamp += frame.versions_[static_cast<size_t>(v)];
  if (frame.stamps_[index] == stamp && !step.reads_values) {
    // Shapes stand, but a result whose size depends on data may have shrunk in the last run, and one without
    // a plan has lost its memory: those kernels' rules read values or are bounded, so only memory can be
    // missing here.
    for (ValueId v : step.outputs)
      if (v != kNone && !frame.value(v).data)
        Place(frame, v, SizeOf(graph::TypeKind::kTensor, frame.value(v)));
    return;
  }
  bool exact = true;
  if (step.members.empty())
    exact = ApplyRule(frame, step.node, *step.op, step.inputs, step.outputs, step.late);
  for (const auto& m : step.members)
    exact = ApplyRule(frame, m.node, *m.op, m.inputs, m.outputs, false) && exact;
  frame.stamps_[index] = exact ? stamp : 0;
}

bool Executor::ApplyRule(Frame& frame, graph::NodeId id, const ops::OpInfo& op,
                         std::span<const ValueId> values, std::span<const ValueId> made, bool late) {
  const graph::Node& node = frame.program().graph().node(id);
  constexpr size_t kInline = 32;
  std::array<RunInput, kInline> few;
  std::vector<RunInput> many;
  RunInput* inputs = few.data();
  if (values.size() > kInline) {
    many.resize(values.size());
    inputs = many.data();
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const ValueId v = values[i];
    if (v == kNone) {
      inputs[i] = {};
      continue;
    }
    const Program& program = frame.program();
    inputs[i] = {&frame.value(v), &frame.shapes_[static_cast<size_t>(v)], program.constant(v),
                 program.kind(v), program.device(v) == 0};
  }
  const size_t outputs = std::min<size_t>(made.size(), rule_results_.size());
  for (size_t o = 0; o < outputs; ++o) rule_results_[o].set = false;
  RunShapeContext context(node, {inputs, values.size()}, rule_values_, {rule_results_.data(), outputs});
  op.rule(context);
  bool exact = true;
  for (size_t o = 0; o < outputs; ++o) {
    const ValueId v = made[o];
    if (v == kNone) continue;
    const auto& result = rule_results_[o];
    if (result.set && result.kind != graph::TypeKind::kTensor) {
      PlaceSequence(frame, v, result);
      exact = false;
      continue;
    }
    if (!result.set || !result.shape.known_rank())
      Throw(Code::kRuntime, "the shape of ", frame.program().name(v), " is not known");
    bool open = false;
    for (int d = 0; d < result.shape.rank; ++d) open = open || !result.shape[d].bounded();
    if (late && open) {
      frame.value(v).dtype = result.dtype;
      frame.value(v).data = nullptr;
      exact = false;
      continue;
    }
    Shape shape;
    for (int d = 0; d < result.shape.rank; ++d) {
      const auto& bound = result.shape[d];
      if (!bound.bounded()) Throw(Code::kRuntime, "nothing bounds the size of ", frame.program().name(v));
      exact = exact && bound.exact();
      shape.push_back(bound.upper);
    }
    frame.SetShape(v, shape);
    frame.value(v).dtype = result.dtype;
    Place(frame, v, SizeOf(graph::TypeKind::kTensor, frame.value(v)));
  }
  return exact;
}

void Executor::PlaceSequence(Frame& frame, ValueId v, const RunShapeContext::Result& result) {
  const int64_t elements = result.shape.ElementsUpper();
  int64_t room = -1;
  if (result.length.bounded() && elements != ops::kUnbounded)
    room = elements == 0 ? 0 : static_cast<int64_t>(BytesOf(result.dtype, elements));
  const int64_t bytes = room < 0 ? -1 : kernels::Sequence::Bytes(result.length.upper, room);
  if (bytes < 0) Throw(Code::kRuntime, "nothing bounds the size of ", frame.program().name(v));
  frame.SetShape(v, {});
  frame.Touch(v);
  TensorView& view = frame.value(v);
  view.dtype = result.dtype;
  Place(frame, v, bytes);
  kernels::Sequence::Format(view.data, result.dtype, result.length.upper, room);
}

void* Executor::Allocate(int64_t bytes, const TensorView& view, Dynamic& block) {
  if (!arena_) Throw(Code::kRuntime, "a value of ", bytes, " bytes has no planned memory");
  if (view.dtype == DType::kString) {
    block.strings.assign(static_cast<size_t>(view.elements()), {});
    return block.strings.data();
  }
  const size_t wanted = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  block.memory =
      ArenaBlock(arena_->Allocate(wanted, kValueAlignment, memory::Tag::kActivations), FreeTo{arena_});
  return block.memory.get();
}

void Executor::Place(Frame& frame, ValueId v, int64_t bytes) {
  TensorView& view = frame.value(v);
  const size_t i = static_cast<size_t>(v);
  const session::Place place = frame.program().place(v);
  if (!frame.external_[i] && (place == session::Place::kView || place == session::Place::kNone)) return;
  const auto name = [&] { return frame.program().name(v); };
  const bool planned = frame.plan_->offsets[i] != Plan::kNoOffset;
  if (frame.external_[i] || planned) {
    const int64_t room = frame.external_[i] ? frame.rooms_[i] : frame.plan_->bytes[i];
    if (bytes > room)
      Throw(Code::kRuntime, "result ", name(), " of shape ", view.shape.ToString(), " takes ", bytes,
            " bytes, planned were ", room);
    return;
  }
  if (!arena_) Throw(Code::kRuntime, "the size of ", name(), " is not bounded");
  frame.Drop(v);
  Dynamic taken;
  view.data = Allocate(bytes, view, taken);
  frame.dynamic_.emplace_back(v, std::move(taken));
}

void Executor::RunView(Frame& frame, size_t index) {
  const Step& step = frame.program().steps()[index];
  const ValueId out = step.outputs[0];
  if (out == kNone) return;
  const TensorView& source = frame.value(step.inputs[static_cast<size_t>(step.op->view_of)]);
  const graph::TypeKind kind = frame.program().kind(out);
  const bool external = frame.external_[static_cast<size_t>(out)] != 0;
  void* const given = frame.value(out).data;
  if (kind == graph::TypeKind::kTensor) {
    InferShapes(frame, index);
  } else {
    frame.value(out).dtype = source.dtype;
    frame.Touch(out);
    if (external) Place(frame, out, SizeOf(kind, source));
  }
  TensorView& view = frame.value(out);
  view.data = external ? given : source.data;
  TensorView from = view;
  from.data = source.data;
  CopyWithin(step.device, kind, from, view);
}

void Executor::RunCopy(Frame& frame, size_t index) {
  const Step& step = frame.program().steps()[index];
  const ValueId out = step.outputs[0];
  const TensorView& source = frame.value(step.inputs[0]);
  frame.SetShape(out, source.shape);
  frame.value(out).dtype = source.dtype;
  const int64_t bytes = SizeOf(graph::TypeKind::kTensor, source);
  Place(frame, out, bytes);
  if (bytes == 0) return;
  DeviceQueue& queue = queues_[static_cast<size_t>(step.device - 1)];
  const providers::Copy copy{source.as<std::byte>(), static_cast<std::byte*>(frame.value(out).data), bytes};
  queue.device->Run({&copy, 1}, queue.copy.get());
}

void Executor::CopyWithin(int device, graph::TypeKind kind, const TensorView& from, const TensorView& to) {
  if (device == 0) {
    CopyValue(kind, from, to);
    return;
  }
  if (from.data == to.data || from.bytes() == 0) return;
  DeviceQueue& queue = queues_[static_cast<size_t>(device - 1)];
  const providers::Copy copy{from.as<std::byte>(), static_cast<std::byte*>(to.data),
                             static_cast<int64_t>(from.bytes())};
  queue.device->Run({&copy, 1}, queue.compute.get());
}

void Executor::RunParts(Frame& frame, size_t index) {
  const Step& step = frame.program().steps()[index];
  const graph::Graph& graph = frame.program().graph();
  const graph::Node& node = graph.node(step.node);
  InferShapes(frame, index);
  const TensorView& source = frame.value(step.inputs[0]);
  const int axis = step.parts_axis;
  const int64_t row = source.shape.elements(axis + 1, source.shape.rank());
  int64_t at = 0;  // along the axis
  if (node.op == "Slice") {
    at = step.inputs.size() > 1 ? IntAt(frame.value(step.inputs[1]), 0) : node.IntsView("starts")[0];
    if (at < 0) at += source.shape[axis];
    at = std::clamp<int64_t>(at, 0, source.shape[axis]);
  }
  for (const ValueId out : step.outputs) {
    TensorView& view = frame.value(out);
    auto* const data = static_cast<std::byte*>(source.data) + BytesOf(source.dtype, at * row);
    if (!frame.external_[static_cast<size_t>(out)]) {
      view.data = data;
    } else {
      TensorView part = view;
      part.data = data;
      CopyWithin(step.device, graph::TypeKind::kTensor, part, view);
    }
    at += view.shape[axis];
  }
}

void Executor::RunSelect(Frame& frame, size_t index) {
  const Step& step = frame.program().steps()[index];
  const bool condition = IntAt(frame.value(step.inputs[0]), 0) != 0;
  const TensorView chosen = frame.value(step.inputs[condition ? 1 : 2]);
  const ValueId out = step.outputs[0];
  frame.SetShape(out, chosen.shape);
  TensorView& view = frame.value(out);
  view.dtype = chosen.dtype;
  view.data = chosen.data;
}

int64_t SizeOf(graph::TypeKind kind, const TensorView& view) {
  if (kind != graph::TypeKind::kTensor) return kernels::Sequence(view).bytes();
  if (view.dtype == DType::kString) return view.elements() * static_cast<int64_t>(sizeof(std::string));
  return static_cast<int64_t>(view.bytes());
}

void CopyValue(graph::TypeKind kind, const TensorView& from, const TensorView& to) {
  if (from.data == to.data) return;
  if (kind == graph::TypeKind::kTensor && from.dtype == DType::kString) {
    std::copy_n(from.as<std::string>(), from.elements(), static_cast<std::string*>(to.data));
    return;
  }
  const int64_t bytes = SizeOf(kind, from);
  if (bytes > 0) std::memcpy(to.data, from.data, static_cast<size_t>(bytes));
}

}  // namespace ullage::session
