/// Values in files, and how a session sees them.
#pragma once

#include <cstddef>
#include <memory>

#include "onnx/tensor_io.h"
#include "ops/shape_context.h"

namespace ullage::cli {

/// A value as an input of a session: a view of the tensor, or of a flat copy of the sequence or optional,
/// which this owns. The HostValue must outlive it.
class InputValue {
 public:
  /// `kind` and `dtype` are those of the graph's input. Throws kInvalidInput naming `name` when the value has
  /// another type, kUnsupported for sequences of strings.
  InputValue(onnx::HostValue& value, graph::TypeKind kind, DType dtype, const std::string& name);

  const TensorView& view() const { return view_; }
  /// Exact facts: type, shape, and of a sequence the union over its elements.
  const ops::ValueFacts& facts() const { return facts_; }

 private:
  TensorView view_;
  ops::ValueFacts facts_;
  std::unique_ptr<std::byte[]> memory_;
};

/// A copy of a session's result.
onnx::HostValue ToHostValue(const std::string& name, graph::TypeKind kind, const TensorView& view);

}  // namespace ullage::cli
