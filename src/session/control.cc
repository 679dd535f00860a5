/// Steps with sub-graphs: If, Loop, Scan and SequenceMap.
#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "kernels/sequence.h"
#include "session/frame.h"

namespace ullage::session {

using graph::kNone;
using graph::TypeKind;
using graph::ValueId;
using kernels::Sequence;

namespace {

int64_t Normal(int64_t axis, int rank) {
  const int64_t at = axis < 0 ? axis + rank : axis;
  if (at < 0 || at >= rank) Throw(Code::kInvalidModel, "axis ", axis, " of a tensor of rank ", rank);
  return at;
}

int64_t AxisAt(std::span<const int64_t> list, size_t k) {
  return k < list.size() ? list[k] : 0;
}

/// One slice of a tensor along an axis.
TensorView SliceShape(const TensorView& in, int axis) {
  TensorView slice;
  slice.dtype = in.dtype;
  for (int d = 0; d < in.shape.rank(); ++d)
    if (d != axis) slice.shape.push_back(in.shape[d]);
  return slice;
}

/// The slice at `index`, in place where the axis is the first, else copied to `room`.
TensorView Slice(const TensorView& in, int axis, int64_t index, std::byte* room) {
  TensorView slice = SliceShape(in, axis);
  const int64_t outer = in.shape.elements(0, axis), length = in.shape[axis];
  const size_t inner = BytesOf(in.dtype, in.shape.elements(axis + 1, in.shape.rank()));
  const std::byte* from = in.as<std::byte>() + static_cast<size_t>(index) * inner;
  if (axis == 0) {
    slice.data = const_cast<std::byte*>(from);
    return slice;
  }
  slice.data = room;
  for (int64_t o = 0; o < outer && inner > 0; ++o)
    std::memcpy(room + static_cast<size_t>(o) * inner, from + static_cast<size_t>(o * length) * inner, inner);
  return slice;
}

/// Writes `slice` at `index` of the axis of `out`.
void PutSlice(const TensorView& slice, TensorView& out, int axis, int64_t index) {
  const int64_t outer = out.shape.elements(0, axis), length = out.shape[axis];
  const size_t inner = BytesOf(out.dtype, out.shape.elements(axis + 1, out.shape.rank()));
  std::byte* to = out.as<std::byte>() + static_cast<size_t>(index) * inner;
  for (int64_t o = 0; o < outer && inner > 0; ++o)
    std::memcpy(to + static_cast<size_t>(o * length) * inner,
                slice.as<std::byte>() + static_cast<size_t>(o) * inner, inner);
}

Shape WithAxis(const Shape& shape, int64_t axis, int64_t length) {
  Shape r;
  for (int d = 0, k = 0; d <= shape.rank(); ++d) r.push_back(d == axis ? length : shape[k++]);
  return r;
}

}  // namespace

Frame& Executor::BodyOf(Frame& frame, size_t index, size_t b) {
  if (!frame.plan_->bodies[index][b])
    Throw(Code::kRuntime, "the sub-graph ", frame.program().steps()[index].bodies[b].first,
          " was proved not to run, but the data ask for it");
  Frame& body = *frame.bodies_[index][b];
  const graph::Graph& outer = frame.program().graph();
  const graph::Graph& inner = body.program().graph();
  for (size_t c = 0; c < inner.capture_values.size(); ++c)
    for (ValueId v : outer.node(frame.program().steps()[index].node).captures)
      if (outer.value(v).name == inner.capture_names[c])
        body.SetExternal(inner.capture_values[c], frame.value(v));
  return body;
}

void Executor::Direct(Frame& body, ValueId v, const Frame::Room& room) {
  const auto place = body.program().place(v);
  if (place != session::Place::kPlanned && place != session::Place::kView) return;
  if (!room.data) {
    if (body.external_[static_cast<size_t>(v)]) body.ClearExternal(v);  // of an earlier run
    return;
  }
  TensorView view = body.value(v);
  view.data = room.data;
  view.capacity = 0;
  body.SetExternal(v, view, room.bytes);
}

void Executor::Hand(Frame& frame, ValueId v, TypeKind kind, const TensorView& result) {
  if (v == kNone) return;
  frame.SetShape(v, result.shape);
  TensorView& view = frame.value(v);
  view.dtype = result.dtype;
  frame.Touch(v);
  Place(frame, v, SizeOf(kind, result));
  CopyValue(kind, result, view);
}

void Executor::RunIf(Frame& frame, size_t index) {
  const Step& step = frame.program().steps()[index];
  const TensorView& condition = frame.value(step.inputs[0]);
  if (condition.elements() != 1)
    Throw(Code::kInvalidInput, "the condition has shape ", condition.shape.ToString());
  const char* wanted = IntAt(condition, 0) != 0 ? "then_branch" : "else_branch";
  for (size_t b = 0; b < step.bodies.size(); ++b) {
    if (step.bodies[b].first != wanted) continue;
    Frame& body = BodyOf(frame, index, b);
    const auto& results = body.program().outputs();
    for (size_t o = 0; o < step.outputs.size(); ++o) Direct(body, results[o], frame.RoomOf(step.outputs[o]));
    RunSteps(body);
    for (size_t o = 0; o < step.outputs.size(); ++o)
      Hand(frame, step.outputs[o], body.program().kind(results[o]), body.value(results[o]));
    return;
  }
  for (const auto& [key, reason] : step.refused)
    if (key == wanted)
      Throw(Code::kInvalidInput, "the inputs ask for the ", wanted, ", which is not valid for these shapes (",
            reason, ")");
  Throw(Code::kRuntime, "the ", wanted, " was proved not to be taken, but the condition asks for it");
}

void Executor::Carry(Frame& frame, size_t index, Frame& body, size_t i, ValueId result, int64_t round) {
  auto& state = frame.loops_[index];
  const TypeKind kind = body.program().kind(result);
  const TensorView made = body.value(result);
  TensorView& current = state.carried[i];
  current = made;
  const Frame::Room& room = state.rooms[2 * i + static_cast<size_t>(round & 1)];
  if (room.data) {
    current.data = room.data;
    if (SizeOf(kind, made) > room.bytes)
      Throw(Code::kRuntime, "a carried value takes ", SizeOf(kind, made), " bytes, planned were ",
            room.bytes);
  } else {
    Dynamic& memory = state.memory[2 * i + static_cast<size_t>(round & 1)];
    current.data = Allocate(SizeOf(kind, made), made, memory);
  }
  CopyValue(kind, made, current);
}

void Executor::FindRooms(Frame& frame, size_t index, size_t carried) {
  auto& state = frame.loops_[index];
  const auto& buffers = frame.plan_->step_buffers[index];
  for (size_t k = 0; k < buffers.size(); ++k) {
    const bool placed = buffers[k].offset != Plan::kNoOffset;
    state.rooms[k] = {placed ? frame.arenas_[0] + buffers[k].offset : nullptr, buffers[k].bytes};
  }
  // The first of a pair may be the step's own result.
  const Step& step = frame.program().steps()[index];
  if (step.kind == Step::Kind::kLoop)
    for (size_t i = 0; i < std::min(carried, step.outputs.size()); ++i)
      if (state.rooms[2 * i + 1].data && !state.rooms[2 * i].data)
        state.rooms[2 * i] = frame.RoomOf(step.outputs[i]);
}

void Executor::RunLoop(Frame& frame, size_t index) {
  const Step& step = frame.program().steps()[index];
  const auto given = [&](size_t i) { return i < step.inputs.size() && step.inputs[i] != kNone; };
  const int64_t most = given(0) ? IntAt(frame.value(step.inputs[0]), 0) : INT64_MAX;
  bool goes_on = !given(1) || IntAt(frame.value(step.inputs[1]), 0) != 0;
  const size_t carried = step.inputs.size() > 2 ? step.inputs.size() - 2 : 0;
  const bool runs = goes_on && most > 0;
  auto& state = frame.loops_[index];
  for (size_t i = 0; i < carried; ++i) {
    if (!given(2 + i)) Throw(Code::kInvalidModel, "the initial value ", i, " is missing");
    state.carried[i] = frame.value(step.inputs[2 + i]);
  }
  const Program& inner = *step.bodies[0].second;
  const auto& results = inner.outputs();
  const size_t scans = results.size() - 1 - carried;
  FindRooms(frame, index, carried);
  int64_t round = 0;
  if (runs) {
    Frame& body = BodyOf(frame, index, 0);
    for (; goes_on && round < most; ++round) {
      state.number = round;
      state.condition = 1;
      body.SetExternal(inner.graph().inputs[0], {&state.number, DType::kInt64, Shape{}, 0});
      body.SetExternal(inner.graph().inputs[1], {&state.condition, DType::kBool, Shape{}, 0});
      for (size_t i = 0; i < carried; ++i) {
        body.SetExternal(inner.graph().inputs[2 + i], state.carried[i]);
        body.Touch(inner.graph().inputs[2 + i]);
      }
      for (size_t i = 0; i < carried; ++i) {
        Direct(body, results[1 + i], state.rooms[2 * i + static_cast<size_t>(round & 1)]);
      }
      RunSteps(body);
      goes_on = IntAt(body.value(results[0]), 0) != 0;
      for (size_t i = 0; i < carried; ++i) Carry(frame, index, body, i, results[1 + i], round);
      for (size_t s = 0; s < scans; ++s) {
        const ValueId out = carried + s < step.outputs.size() ? step.outputs[carried + s] : kNone;
        if (out != kNone) Stack(frame, index, s, out, round, body.value(results[1 + carried + s]));
      }
    }
  }
  for (size_t i = 0; i < carried && i < step.outputs.size(); ++i)
    Hand(frame, step.outputs[i], frame.program().kind(step.outputs[i]), state.carried[i]);
  for (size_t s = 0; s < scans && carried + s < step.outputs.size(); ++s) {
    const ValueId out = step.outputs[carried + s];
    if (out == kNone) continue;
    TensorView stacked{nullptr, inner.dtype(results[1 + carried + s]),
                       WithAxis(round > 0 ? state.shapes[s] : step.stacked[s], 0, round), 0};
    const Frame::Room room = frame.RoomOf(out);
    stacked.data = room.data ? room.data : static_cast<std::byte*>(state.stacks[s].memory.get());
    Hand(frame, out, TypeKind::kTensor, stacked);
  }
}

void Executor::Stack(Frame& frame, size_t index, size_t s, ValueId out, int64_t round,
                     const TensorView& slice) {
  auto& state = frame.loops_[index];
  if (BitsOf(slice.dtype) < 8 || frame.program().kind(out) != TypeKind::kTensor)
    Throw(Code::kUnsupported, "scan outputs of type ", NameOf(slice.dtype));
  if (round == 0) state.shapes[s] = slice.shape;
  if (!(slice.shape == state.shapes[s]))
    Throw(Code::kInvalidInput, "the slices of ", frame.program().graph().value(out).name, " have shapes ",
          state.shapes[s].ToString(), " and ", slice.shape.ToString());
  const size_t bytes = slice.bytes(), at = static_cast<size_t>(round) * bytes;
  const Frame::Room room = frame.RoomOf(out);
  if (room.data) {
    if (static_cast<int64_t>(at + bytes) > room.bytes)
      Throw(Code::kRuntime, "the slices of ", frame.program().graph().value(out).name, " take ", at + bytes,
            " bytes, planned were ", room.bytes);
    if (bytes > 0) std::memcpy(room.data + at, slice.data, bytes);
    return;
  }
  auto& stack = state.stacks[s];
  if (!stack.memory || at + bytes > stack.room) {
    Dynamic larger;
    const size_t wanted = std::max(at + bytes, 2 * stack.room);
    void* const data = Allocate(static_cast<int64_t>(wanted), {nullptr, DType::kUInt8, {}, 0}, larger);
    if (at > 0) std::memcpy(data, stack.memory.get(), at);
    stack.memory = std::move(larger.memory);
    stack.room = wanted;
  }
  if (bytes > 0) std::memcpy(static_cast<std::byte*>(stack.memory.get()) + at, slice.data, bytes);
}

void Executor::RunScan(Frame& frame, size_t index) {
  const Step& step = frame.program().steps()[index];
  const graph::Node& node = frame.program().graph().node(step.node);
  const bool batched = node.opset > 0 && node.opset < 9;
  const size_t first = batched ? 1 : 0;
  const auto scanned = static_cast<size_t>(node.RequiredInt("num_scan_inputs"));
  const size_t states = step.inputs.size() - first - scanned;
  const auto in_axes = node.IntsView("scan_input_axes"), out_axes = node.IntsView("scan_output_axes");
  const auto in_ways = node.IntsView(batched ? "directions" : "scan_input_directions");
  const auto out_ways = node.IntsView("scan_output_directions");
  const auto input = [&](size_t i) -> const TensorView& { return frame.value(step.inputs[first + i]); };
  auto& state = frame.loops_[index];
  const Program& inner = *step.bodies[0].second;
  const auto& results = inner.outputs();
  FindRooms(frame, index, states);

  const int64_t batch = batched ? input(0).shape[0] : 1;
  int64_t longest = 0;
  for (size_t k = 0; k < scanned; ++k) {
    const TensorView& in = input(states + k);
    const int axis = batched ? 1 : static_cast<int>(Normal(AxisAt(in_axes, k), in.shape.rank()));
    if (k > 0 && in.shape[axis] != longest)
      Throw(Code::kInvalidInput, "the scanned inputs have ", longest, " and ", in.shape[axis], " slices");
    longest = in.shape[axis];
  }
  // Sets shape and memory of result o; `element` is the shape of one slice or state.
  const auto open = [&](size_t o, const Shape& element) {
    Shape shape = element;
    if (o >= states) shape = WithAxis(shape, Normal(AxisAt(out_axes, o - states), shape.rank() + 1), longest);
    if (batched) shape = WithAxis(shape, 0, batch);
    frame.SetShape(step.outputs[o], shape);
    TensorView& view = frame.value(step.outputs[o]);
    view.dtype = inner.dtype(results[o]);
    if (BitsOf(view.dtype) < 8) Throw(Code::kUnsupported, "a scan over ", NameOf(view.dtype));
    Place(frame, step.outputs[o], static_cast<int64_t>(view.bytes()));
    if (batched && view.bytes() > 0) std::memset(view.data, 0, view.bytes());
    state.opened[o] = 1;
  };
  // The part of result o that belongs to batch b.
  const auto part_of = [&](size_t o, int64_t b) {
    TensorView& view = frame.value(step.outputs[o]);
    return batched ? Slice(view, 0, b, nullptr) : view;
  };
  std::fill(state.opened.begin(), state.opened.end(), uint8_t{0});
  const auto wanted = [&](size_t o) { return o < step.outputs.size() && step.outputs[o] != kNone; };
  for (int64_t b = 0; b < batch; ++b) {
    int64_t length = longest;
    if (batched && step.inputs[0] != kNone) length = IntAt(frame.value(step.inputs[0]), b);
    if (length < 0 || length > longest)
      Throw(Code::kInvalidInput, "sequence length ", length, " of ", longest);
    for (size_t i = 0; i < states; ++i)
      state.carried[i] = batched ? Slice(input(i), 0, b, nullptr) : input(i);
    for (int64_t round = 0; round < length; ++round) {
      Frame& body = BodyOf(frame, index, 0);
      for (size_t i = 0; i < states; ++i) {
        body.SetExternal(inner.graph().inputs[i], state.carried[i]);
        body.Touch(inner.graph().inputs[i]);
      }
      for (size_t k = 0; k < scanned; ++k) {
        const TensorView whole = batched ? Slice(input(states + k), 0, b, nullptr) : input(states + k);
        const int axis = batched ? 0 : static_cast<int>(Normal(AxisAt(in_axes, k), whole.shape.rank()));
        const int64_t at = AxisAt(in_ways, k) != 0 ? length - 1 - round : round;
        std::byte* room = nullptr;
        if (axis != 0) {
          const TensorView slice = SliceShape(whole, axis);
          room = state.rooms[2 * states + k].data;
          if (!room)
            room = static_cast<std::byte*>(
                Allocate(SizeOf(TypeKind::kTensor, slice), slice, state.memory[2 * states + k]));
        }
        body.SetExternal(inner.graph().inputs[states + k], Slice(whole, axis, at, room));
        body.Touch(inner.graph().inputs[states + k]);
      }
      for (size_t i = 0; i < states; ++i) {
        Direct(body, results[i], state.rooms[2 * i + static_cast<size_t>(round & 1)]);
      }
      RunSteps(body);
      for (size_t i = 0; i < states; ++i) Carry(frame, index, body, i, results[i], round);
      for (size_t k = 0; states + k < results.size(); ++k) {
        const size_t o = states + k;
        if (!wanted(o)) continue;
        const TensorView& slice = body.value(results[o]);
        if (!state.opened[o]) {
          open(o, slice.shape);
          state.shapes[k] = slice.shape;
        }
        if (!(slice.shape == state.shapes[k]))
          Throw(Code::kInvalidInput, "slices of shapes ", state.shapes[k].ToString(), " and ",
                slice.shape.ToString(), " in result ", o);
        TensorView part = part_of(o, b);
        const auto axis = static_cast<int>(Normal(AxisAt(out_axes, k), part.shape.rank()));
        PutSlice(slice, part, axis, !batched && AxisAt(out_ways, k) != 0 ? length - 1 - round : round);
      }
    }
    for (size_t i = 0; i < states; ++i) {
      if (!wanted(i)) continue;
      if (!state.opened[i]) open(i, state.carried[i].shape);
      TensorView part = part_of(i, b);
      CopyValue(TypeKind::kTensor, state.carried[i], part);
    }
  }
  for (size_t o = 0; o < step.outputs.size(); ++o)
    if (wanted(o) && !state.opened[o])
      open(o, o < states ? SliceShape(input(o), 0).shape : step.stacked[o - states]);
}

void Executor::RunSequenceMap(Frame& frame, size_t index) {
  const Step& step = frame.program().steps()[index];
  const Program& inner = *step.bodies[0].second;
  const auto& results = inner.outputs();
  const int64_t count = Sequence(frame.value(step.inputs[0])).size();
  const auto is_sequence = [&](size_t i) {
    return frame.program().kind(step.inputs[i]) != TypeKind::kTensor;
  };
  for (size_t i = 1; i < step.inputs.size(); ++i)
    if (is_sequence(i) && Sequence(frame.value(step.inputs[i])).size() != count)
      Throw(Code::kInvalidInput, "the sequences have ", count, " and ",
            Sequence(frame.value(step.inputs[i])).size(), " elements");
  auto& state = frame.loops_[index];
  for (size_t o = 0; o < step.outputs.size(); ++o) {
    if (step.outputs[o] == kNone) continue;
    TensorView& out = frame.value(step.outputs[o]);
    out.dtype = inner.dtype(results[o]);
    frame.Touch(step.outputs[o]);
    frame.SetShape(step.outputs[o], {});
    // Where nothing bounds the elements, room is made as they come.
    state.strides[o] = std::max<int64_t>(step.element_bytes[o], 0);
    Place(frame, step.outputs[o], Sequence::Bytes(count, state.strides[o]));
    Sequence::Format(out.data, out.dtype, count, state.strides[o]);
  }
  for (int64_t k = 0; k < count; ++k) {
    Frame& body = BodyOf(frame, index, 0);
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const TensorView& in = frame.value(step.inputs[i]);
      body.SetExternal(inner.graph().inputs[i], is_sequence(i) ? Sequence(in).at(k) : in);
      body.Touch(inner.graph().inputs[i]);
    }
    RunSteps(body);
    for (size_t o = 0; o < step.outputs.size(); ++o) {
      if (step.outputs[o] == kNone) continue;
      const TensorView& made = body.value(results[o]);
      TensorView& out = frame.value(step.outputs[o]);
      const int64_t bytes = SizeOf(TypeKind::kTensor, made);
      if (step.element_bytes[o] < 0 && bytes > state.strides[o]) {
        state.strides[o] = std::max(bytes, 2 * state.strides[o]);
        Dynamic larger;
        const auto bigger = Sequence::Bytes(count, state.strides[o]);
        const Sequence old(out);
        Sequence grown = Sequence::Format(Allocate(bigger, {nullptr, DType::kUInt8, {}, 0}, larger),
                                          out.dtype, count, state.strides[o]);
        grown.Append(old, 0, old.size());
        Place(frame, step.outputs[o], bigger);
        CopyValue(TypeKind::kSequence, {grown.data(), out.dtype, {}, 0}, out);
      }
      Sequence(out).Append(made);
    }
  }
}

}  // namespace ullage::session
