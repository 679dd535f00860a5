#include <algorithm>
#include <cstring>

#include "core/checked.h"
#include "core/error.h"
#include "session/frame.h"
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
    if (shape.elements() > now.shape.elements())
      Throw(Code::kRuntime, "result ", frame_.program().graph().value(v).name, " has shape ",
            shape.ToString(), ", more than the bound ", now.shape.ToString());
    frame_.SetShape(v, shape);
  }
  void* GetPreallocatedWorkspace(int slot, size_t* bytes) override {
    for (const Slot& s : slots_)
      if (s.id == slot) {
        if (bytes) *bytes = s.bytes;
        return s.memory.get();
      }
    const auto found = frame_.plan_->workspace.GetOffset(static_cast<int64_t>(index_), slot);
    if (bytes) *bytes = found ? found->size : 0;
    return found ? frame_.arena_ + frame_.plan_->workspace_shift + found->offset : nullptr;
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

void Executor::Run(Frame& frame, const std::atomic<bool>* stop) {
  const size_t steps = frame.program().steps().size();
  for (size_t s = 0; s < steps; ++s) {
    if (stop && stop->load(std::memory_order_relaxed)) throw Error(Code::kInterrupted, "interrupted");
    RunStep(frame, s);
    for (ValueId v : frame.plan_->last_reads[s]) frame.Drop(v);
  }
}

void Executor::RunStep(Frame& frame, size_t index) {
  const Step& step = frame.program().steps()[index];
  try {
    switch (step.kind) {
      case Step::Kind::kKernel:
        RunKernel(frame, index);
        break;
      case Step::Kind::kView:
        RunView(frame, index);
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
    }
    if (stats && step.kind != Step::Kind::kKernel) stats->Record(frame, index, 0, 0);
  } catch (const Error& error) {
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
  if (stats) stats->Record(frame, index, context.temp_sum(), context.temp_peak());
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
      if (v != kNone && !frame.value(v).data) Place(frame, v, frame.program().graph().node(step.node));
    return;
  }
  const graph::Graph& graph = frame.program().graph();
  const graph::Node& node = graph.node(step.node);
  constexpr size_t kInline = 32;
  std::array<RunInput, kInline> few;
  std::vector<RunInput> many;
  RunInput* inputs = few.data();
  if (step.inputs.size() > kInline) {
    many.resize(step.inputs.size());
    inputs = many.data();
  }
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    const ValueId v = step.inputs[i];
    inputs[i] = v == kNone
                    ? RunInput{}
                    : RunInput{&frame.value(v), &frame.shapes_[static_cast<size_t>(v)], graph.ConstantOf(v)};
  }
  const size_t outputs = std::min<size_t>(step.outputs.size(), rule_results_.size());
  for (size_t o = 0; o < outputs; ++o) rule_results_[o].set = false;
  RunShapeContext context(node, {inputs, step.inputs.size()}, rule_values_, {rule_results_.data(), outputs});
  step.op->rule(context);
  bool exact = true;
  for (size_t o = 0; o < outputs; ++o) {
    const ValueId v = step.outputs[o];
    if (v == kNone) continue;
    const auto& result = rule_results_[o];
    if (!result.set || !result.shape.known_rank())
      Throw(Code::kRuntime, "the shape of ", graph.value(v).name, " is not known");
    Shape shape;
    for (int d = 0; d < result.shape.rank; ++d) {
      const auto& bound = result.shape[d];
      if (!bound.bounded()) Throw(Code::kRuntime, "nothing bounds the size of ", graph.value(v).name);
      exact = exact && bound.exact();
      shape.push_back(bound.upper);
    }
    frame.SetShape(v, shape);
    frame.value(v).dtype = result.dtype;
    Place(frame, v, node);
  }
  frame.stamps_[index] = exact ? stamp : 0;
}

void Executor::Place(Frame& frame, ValueId v, const graph::Node& node) {
  TensorView& view = frame.value(v);
  const size_t i = static_cast<size_t>(v);
  const int64_t bytes = static_cast<int64_t>(view.bytes());
  if (frame.external_[i]) return;
  if (frame.plan_->offsets[i] != Plan::kNoOffset) {
    if (bytes > frame.plan_->bytes[i])
      Throw(Code::kRuntime, "node ", node.name, ": result ", frame.program().graph().value(v).name,
            " of shape ", view.shape.ToString(), " takes ", bytes, " bytes, planned were ",
            frame.plan_->bytes[i]);
    return;
  }
  if (!arena_)
    Throw(Code::kRuntime, "node ", node.name, ": the size of ", frame.program().graph().value(v).name,
          " is not bounded");
  frame.Drop(v);
  const size_t wanted = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  view.data = arena_->Allocate(wanted, kValueAlignment, memory::Tag::kActivations);
  frame.dynamic_.push_back({v, ArenaBlock(view.data, FreeTo{arena_})});
}

void Executor::RunView(Frame& frame, size_t index) {
  const Step& step = frame.program().steps()[index];
  const ValueId out = step.outputs[0];
  if (out == kNone) return;
  // Place() must not look for planned memory: the view has none of its own, unless it is written to given
  // memory.
  const TensorView& source = frame.value(step.inputs[static_cast<size_t>(step.op->view_of)]);
  const bool external = frame.external_[static_cast<size_t>(out)] != 0;
  void* const given = frame.value(out).data;
  frame.external_[static_cast<size_t>(out)] = 1;
  InferShapes(frame, index);
  frame.external_[static_cast<size_t>(out)] = external;
  TensorView& view = frame.value(out);
  if (external) {
    view.data = given;
    if (given != source.data && view.bytes() > 0) std::memcpy(given, source.data, view.bytes());
  } else {
    view.data = source.data;
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

Frame& Executor::RunBody(Frame& frame, size_t index, size_t b) {
  const Step& step = frame.program().steps()[index];
  const graph::Graph& outer = frame.program().graph();
  const graph::Node& node = outer.node(step.node);
  Frame& body = *frame.bodies_[index][b];
  const graph::Graph& inner = body.program().graph();
  for (size_t c = 0; c < inner.capture_values.size(); ++c)
    for (ValueId v : node.captures)
      if (outer.value(v).name == inner.capture_names[c])
        body.SetExternal(inner.capture_values[c], frame.value(v));
  Run(body);
  return body;
}

void Executor::RunIf(Frame& frame, size_t index) {
  const Step& step = frame.program().steps()[index];
  const char* wanted = IntAt(frame.value(step.inputs[0]), 0) != 0 ? "then_branch" : "else_branch";
  for (size_t b = 0; b < step.bodies.size(); ++b) {
    if (step.bodies[b].first != wanted) continue;
    if (!frame.plan_->bodies[index][b]) break;
    Frame& body = RunBody(frame, index, b);
    for (size_t o = 0; o < step.outputs.size(); ++o) {
      const ValueId v = step.outputs[o];
      if (v == kNone) continue;
      const TensorView& result = body.value(body.program().graph().outputs[o]);
      frame.SetShape(v, result.shape);
      TensorView& view = frame.value(v);
      view.dtype = result.dtype;
      Place(frame, v, frame.program().graph().node(step.node));
      if (view.bytes() > 0) std::memcpy(view.data, result.data, view.bytes());
    }
    return;
  }
  Throw(Code::kRuntime, "the ", wanted, " was proved not to be taken, but the condition asks for it");
}

void Executor::RunLoop(Frame&, size_t) {
  Throw(Code::kUnsupported, "Loop is not supported");
}

void Executor::RunScan(Frame&, size_t) {
  Throw(Code::kUnsupported, "Scan is not supported");
}

}  // namespace ullage::session
