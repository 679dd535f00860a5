#include "session/run_shapes.h"

#include <algorithm>
#include <cstring>

#include "core/half.h"
#include "kernels/sequence.h"

namespace ullage::session {
namespace {

const ops::BoundedShape kNothing;

template <class T>
T Load(const void* data, int64_t i) {
  T v;
  std::memcpy(&v, static_cast<const char*>(data) + static_cast<size_t>(i) * sizeof(T), sizeof(T));
  return v;
}

}  // namespace

const TensorView* RunShapeContext::view(int i) const {
  return i >= 0 && static_cast<size_t>(i) < inputs_.size() ? inputs_[static_cast<size_t>(i)].view : nullptr;
}

TensorView RunShapeContext::Readable(int i) const {
  const RunInput& input = inputs_[static_cast<size_t>(i)];
  TensorView readable = *input.view;
  if (!input.on_host)
    readable.data = input.constant ? const_cast<std::byte*>(input.constant->bytes) : nullptr;
  return readable;
}

graph::TypeKind RunShapeContext::kind(int i) const {
  return view(i) ? inputs_[static_cast<size_t>(i)].kind : graph::TypeKind::kTensor;
}

ops::Bound RunShapeContext::length(int i) const {
  if (kind(i) == graph::TypeKind::kTensor) return {};
  return ops::Bound::Exactly(kernels::Sequence(*view(i)).size());
}

const ops::BoundedShape& RunShapeContext::element(int i, int64_t k) const {
  if (kind(i) == graph::TypeKind::kTensor) return shape(i);
  slots_.element = ops::BoundedShape::Of(kernels::Sequence(*view(i)).at(k).shape);
  return slots_.element;
}

const ops::BoundedShape& RunShapeContext::shape(int i) const {
  if (kind(i) != graph::TypeKind::kTensor) {
    // Shape bounds of any element; nothing fits an empty sequence.
    const kernels::Sequence sequence(*view(i));
    ops::BoundedShape& all = slots_.unions[static_cast<size_t>(i) % slots_.unions.size()];
    all = {};
    all.max_elements = 0;
    for (int64_t k = 0; k < sequence.size(); ++k) {
      const auto next = ops::BoundedShape::Of(sequence.at(k).shape);
      const int64_t most = std::max(all.max_elements, next.ElementsUpper());
      if (k == 0) {
        all = next;
      } else if (all.rank == next.rank) {
        for (int d = 0; d < all.rank; ++d) all[d] = math().Union(all[d], next[d]);
      } else {
        all.rank = -1;
      }
      all.max_elements = most;
    }
    return all;
  }
  return view(i) ? *inputs_[static_cast<size_t>(i)].shape : kNothing;
}

DType RunShapeContext::dtype(int i) const {
  return view(i) ? view(i)->dtype : DType::kUndefined;
}

const ops::BoundedValues* RunShapeContext::values(int i) const {
  if (!view(i) || kind(i) != graph::TypeKind::kTensor) return nullptr;
  const TensorView v = Readable(i);
  if (!IsInteger(v.dtype) && v.dtype != DType::kBool) return nullptr;
  const int64_t n = v.shape.elements();
  if (n > ops::BoundedValues::kMax || (n > 0 && !v.data)) return nullptr;
  for (size_t s = 0; s < used_; ++s)
    if (slot_input_[s] == i) return &slots_.slots[s];
  if (used_ == slots_.slots.size()) return nullptr;
  slot_input_[used_] = i;
  ops::BoundedValues& out = slots_.slots[used_++];
  out.count = static_cast<int>(n);
  for (int64_t k = 0; k < n; ++k) out.v[static_cast<size_t>(k)] = ops::Bound::Exactly(IntAt(v, k));
  return &out;
}

const graph::Constant* RunShapeContext::constant(int i) const {
  return view(i) ? inputs_[static_cast<size_t>(i)].constant : nullptr;
}

int RunShapeContext::doubles(int i, std::span<double> out) const {
  if (!view(i)) return -1;
  const TensorView v = Readable(i);
  const int64_t n = v.shape.elements();
  if (n > static_cast<int64_t>(out.size()) || (n > 0 && !v.data)) return -1;
  for (int64_t k = 0; k < n; ++k) {
    double& d = out[static_cast<size_t>(k)];
    switch (v.dtype) {
      case DType::kFloat:
        d = Load<float>(v.data, k);
        break;
      case DType::kDouble:
        d = Load<double>(v.data, k);
        break;
      case DType::kFloat16:
        d = HalfToFloat(Load<uint16_t>(v.data, k));
        break;
      case DType::kBFloat16:
        d = BFloat16ToFloat(Load<uint16_t>(v.data, k));
        break;
      case DType::kString:
        return -1;
      default:
        d = static_cast<double>(IntAt(v, k));
        break;
    }
  }
  return static_cast<int>(n);
}

std::vector<ops::ValueFacts> RunShapeContext::RunSubgraph(const graph::Graph&,
                                                          std::span<const ops::ValueFacts>) {
  Unsupported("control flow is run by the executor, not by its rule");
}

void RunShapeContext::Set(int o, DType dtype, const ops::BoundedShape& shape) {
  if (o < 0 || static_cast<size_t>(o) >= results_.size()) return;
  results_[static_cast<size_t>(o)] = {true, dtype, shape, graph::TypeKind::kTensor, {}};
}

void RunShapeContext::SetKind(int o, graph::TypeKind kind, const ops::Bound& length) {
  if (o < 0 || static_cast<size_t>(o) >= results_.size()) return;
  results_[static_cast<size_t>(o)].kind = kind;
  results_[static_cast<size_t>(o)].length = length;
}

}  // namespace ullage::session
