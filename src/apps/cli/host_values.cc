#include "apps/cli/host_values.h"

#include <algorithm>
#include <cstring>

#include "core/checked.h"
#include "core/error.h"
#include "kernels/sequence.h"

namespace ullage::cli {

using graph::TypeKind;
using kernels::Sequence;

namespace {

onnx::HostTensor ToHostTensor(const TensorView& view) {
  onnx::HostTensor t;
  t.dtype = view.dtype;
  t.shape = view.shape;
  if (view.dtype == DType::kString) {
    t.strings.assign(view.as<std::string>(), view.as<std::string>() + view.elements());
  } else {
    t.bytes.resize(view.bytes());
    if (!t.bytes.empty()) std::memcpy(t.bytes.data(), view.data, t.bytes.size());
  }
  return t;
}

}  // namespace

InputValue::InputValue(onnx::HostValue& value, TypeKind kind, DType dtype, const std::string& name) {
  const bool optional = kind == TypeKind::kOptional || kind == TypeKind::kOptionalSequence;
  const bool missing = optional && !value.present;
  const bool sequence = kind == TypeKind::kSequence || kind == TypeKind::kOptionalSequence;
  const TypeKind found = value.kind == TypeKind::kOptional && value.present ? value.inner : value.kind;
  if (!missing && found != (sequence ? TypeKind::kSequence : TypeKind::kTensor))
    Throw(Code::kInvalidInput, "input ", name, ": expected ", sequence ? "a sequence" : "a tensor",
          ", found something else");
  for (const auto& tensor : value.tensors)
    if (tensor.dtype != dtype)
      Throw(Code::kInvalidInput, "input ", name, ": expected type ", NameOf(dtype), ", found ",
            NameOf(tensor.dtype));
  facts_.dtype = dtype;
  facts_.kind = kind;
  if (kind == TypeKind::kTensor) {
    view_ = value.tensors.at(0).view();
    facts_.shape = ops::BoundedShape::Of(view_.shape);
    return;
  }
  if (BitsOf(dtype) == 0) Throw(Code::kUnsupported, "input ", name, ": sequences of ", NameOf(dtype));
  int64_t largest = 0;
  for (const auto& tensor : value.tensors)
    largest = std::max(largest, static_cast<int64_t>(tensor.bytes.size()));
  const auto count = static_cast<int64_t>(value.tensors.size());
  const int64_t bytes = Sequence::Bytes(count, largest);
  if (bytes < 0) Throw(Code::kInvalidInput, "input ", name, " is too large");
  constexpr size_t kAlignment = 64;
  memory_ = std::make_unique<std::byte[]>(static_cast<size_t>(bytes) + kAlignment);
  const auto at = AlignUp<uintptr_t>(reinterpret_cast<uintptr_t>(memory_.get()), kAlignment);
  Sequence flat = Sequence::Format(reinterpret_cast<void*>(at), dtype, count, largest);
  facts_.shape.max_elements = 0;
  for (int64_t k = 0; k < count; ++k) {
    const TensorView element = value.tensors[static_cast<size_t>(k)].view();
    flat.Append(element);
    const auto shape = ops::BoundedShape::Of(element.shape);
    const int64_t most = std::max(facts_.shape.max_elements, shape.ElementsUpper());
    if (k == 0) {
      facts_.shape = shape;
    } else if (shape.rank == facts_.shape.rank) {
      for (int d = 0; d < shape.rank; ++d)
        facts_.shape[d] = ops::BoundMath().Union(facts_.shape[d], shape[d]);
    } else {
      facts_.shape.rank = -1;
    }
    facts_.shape.max_elements = most;
  }
  flat.set_present(!missing);
  facts_.length = ops::Bound::Exactly(count);
  view_ = {flat.data(), dtype, Shape{}, 0};
}

onnx::HostValue ToHostValue(const std::string& name, TypeKind kind, const TensorView& view) {
  onnx::HostValue value;
  value.name = name;
  if (kind == TypeKind::kTensor) {
    value.tensors.push_back(ToHostTensor(view));
    value.tensors[0].name = name;
    return value;
  }
  const Sequence flat(view);
  value.kind = kind == TypeKind::kSequence ? TypeKind::kSequence : TypeKind::kOptional;
  value.inner = kind == TypeKind::kOptional ? TypeKind::kTensor : TypeKind::kSequence;
  value.present = flat.present() && (kind != TypeKind::kOptional || flat.size() > 0);
  for (int64_t k = 0; k < flat.size(); ++k) value.tensors.push_back(ToHostTensor(flat.at(k)));
  return value;
}

}  // namespace ullage::cli
