#include "session/frame.h"

#include <algorithm>

#include "core/error.h"

namespace ullage::session {

using graph::kNone;
using graph::ValueId;

Frame::Frame(const Program& program, const DeviceConstants* constants) : program_(&program) {
  const size_t n = program.value_count();
  values_.resize(n);
  shapes_.assign(n, ops::BoundedShape::Scalar());
  external_.assign(n, 0);
  rooms_.assign(n, 0);
  versions_.assign(n, 1);
  stamps_.assign(program.steps().size(), 0);
  arenas_.reserve(program.device_count());
  for (size_t i = 0; i < n; ++i) {
    const auto v = static_cast<ValueId>(i);
    const auto* constant = program.place(v) == Place::kConstant ? program.constant(v) : nullptr;
    if (!constant) continue;
    values_[i].dtype = constant->dtype;
    values_[i].shape = constant->shape;
    values_[i].data =
        program.device(v) == 0 ? const_cast<std::byte*>(constant->bytes) : constants->at({&program, v});
    shapes_[i] = ops::BoundedShape::Of(constant->shape);
  }
  bodies_.resize(program.steps().size());
  loops_.resize(program.steps().size());
  for (size_t s = 0; s < program.steps().size(); ++s)
    for (const auto& body : program.steps()[s].bodies)
      bodies_[s].push_back(std::make_unique<Frame>(*body.second, constants));
  for (size_t s = 0; s < program.steps().size(); ++s) {
    const Step& step = program.steps()[s];
    if (step.bodies.empty() || step.kind == Step::Kind::kIf) continue;
    const auto& body = step.bodies[0].second->graph();
    LoopState& state = loops_[s];
    state.carried.resize(body.inputs.size());
    state.rooms.resize(2 * body.inputs.size());
    state.memory.resize(2 * body.inputs.size());
    state.shapes.resize(body.outputs.size());
    state.opened.resize(body.outputs.size());
    state.strides.resize(body.outputs.size());
    state.stacks.resize(body.outputs.size());
  }
}

Frame::~Frame() = default;

void Frame::Bind(const Plan& plan, std::span<std::byte* const> arenas) {
  if (plan_ == &plan && std::equal(arenas.begin(), arenas.end(), arenas_.begin(), arenas_.end())) return;
  plan_ = &plan;
  arenas_.assign(arenas.begin(), arenas.end());
  for (size_t i = 0; i < values_.size(); ++i) {
    const auto v = static_cast<ValueId>(i);
    const Place place = program_->place(v);
    if (place == Place::kConstant || place == Place::kInput) continue;
    values_[i].dtype = plan.dtypes[i];
    if (external_[i]) continue;
    values_[i].data = PlannedPlace(v);
  }
  for (auto& stamp : stamps_) stamp = 0;
  for (size_t s = 0; s < bodies_.size(); ++s)
    for (size_t b = 0; b < bodies_[s].size(); ++b)
      if (plan.bodies[s][b]) bodies_[s][b]->Bind(*plan.bodies[s][b], arenas);
}

void Frame::MakeEvents(const Plan& plan, std::span<DeviceQueue> queues) {
  events_.resize(program_->steps().size());
  for (size_t s = 0; s < plan.sync.steps().size(); ++s) {
    const StepSync& sync = plan.sync.steps()[s];
    if (sync.records && !events_[s])
      events_[s] = queues[static_cast<size_t>((sync.stream - 1) / 2)].device->CreateEvent();
  }
  for (size_t s = 0; s < bodies_.size(); ++s)
    for (size_t b = 0; b < bodies_[s].size(); ++b)
      if (plan.bodies[s][b]) bodies_[s][b]->MakeEvents(*plan.bodies[s][b], queues);
}

std::byte* Frame::PlannedPlace(ValueId v) const {
  const int64_t offset = plan_ ? plan_->offsets[static_cast<size_t>(v)] : Plan::kNoOffset;
  if (offset == Plan::kNoOffset) return nullptr;
  return arenas_[static_cast<size_t>(program_->device(v))] + offset;
}

void Frame::SetShape(ValueId v, const Shape& shape) {
  TensorView& view = value(v);
  if (view.shape == shape) return;
  view.shape = shape;
  shapes_[static_cast<size_t>(v)] = ops::BoundedShape::Of(shape);
  ++versions_[static_cast<size_t>(v)];
}

void Frame::Show(ValueId v, const TensorView& view) {
  SetShape(v, view.shape);
  value(v) = view;
}

Frame::Room Frame::RoomOf(ValueId v) const {
  if (v == kNone) return {};
  const auto i = static_cast<size_t>(v);
  if (external_[i]) return {static_cast<std::byte*>(values_[i].data), rooms_[i]};
  std::byte* const place = PlannedPlace(v);
  if (!place) return {};
  return {place, plan_->bytes[i]};
}

void Frame::SetExternal(ValueId v, const TensorView& view, int64_t room) {
  TensorView& mine = value(v);
  SetShape(v, view.shape);
  mine = view;
  external_[static_cast<size_t>(v)] = 1;
  rooms_[static_cast<size_t>(v)] = room;
}

void Frame::ClearExternal(ValueId v) {
  external_[static_cast<size_t>(v)] = 0;
  TensorView& mine = value(v);
  mine.capacity = 0;
  mine.data = PlannedPlace(v);
}

void Frame::Drop(ValueId v) noexcept {
  for (auto& d : dynamic_)
    if (d.first == v) {
      value(v).data = nullptr;
      std::swap(d, dynamic_.back());
      dynamic_.pop_back();
      return;
    }
}

void Frame::ReleaseDynamic() noexcept {
  for (auto& d : dynamic_) value(d.first).data = nullptr;
  dynamic_.clear();
  for (auto& state : loops_) {
    for (auto& memory : state.memory) memory = {};
    for (auto& stack : state.stacks) stack = {};
  }
  for (auto& step : bodies_)
    for (auto& body : step) body->ReleaseDynamic();
}

}  // namespace ullage::session
