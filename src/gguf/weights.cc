#include "gguf/weights.h"

#include <cstring>

#include "core/error.h"
#include "graph/absent.h"

namespace ullage::gguf {
namespace {

/// Tensors of old converters that repeat what the metadata say.
bool IsRedundant(std::string_view name) {
  return name.ends_with(".attn_rot_embd.weight");
}

}  // namespace

Weights::Weights(std::shared_ptr<const GgufFile> file, bool may_read)
    : file_(std::move(file)), may_read_(may_read), used_(file_->tensors().size()) {}

const TensorInfo& Weights::Take(const std::string& name, const Shape& expected) {
  const TensorInfo* t = file_->FindTensor(name);
  if (!t) Throw(Code::kInvalidModel, file_->path(), ": tensor ", name, " is missing");
  if (!(t->shape == expected))
    Throw(Code::kInvalidModel, file_->path(), ": tensor ", name, " has shape ", t->shape.ToString(),
          ", expected ", expected.ToString());
  used_[static_cast<size_t>(t - file_->tensors().data())] = true;
  return *t;
}

graph::ConstantPtr Weights::Matrix(const std::string& name, int64_t rows, int64_t columns) {
  return file_->ConstantOf(Take(name, {rows, columns}));
}

graph::ConstantPtr Weights::Rows(const std::string& name, int64_t rows, int64_t columns, int64_t first,
                                 int64_t count) {
  return file_->RowsOf(Take(name, {rows, columns}), first, count);
}

graph::ConstantPtr Weights::Vector(const std::string& name, int64_t size) {
  const TensorInfo& t = Take(name, {size});
  auto stored = file_->ConstantOf(t);
  if (stored->dtype == DType::kFloat) return stored;
  if (!t.type->is_dense())
    Throw(Code::kUnsupported, file_->path(), ": tensor ", name, ": a vector of type ", t.type->name,
          " is not supported; expected f32, f16 or bf16");
  if (!stored->available() || !may_read_)
    return graph::MakeAbsent(
        DType::kFloat, {size},
        stored->available() ? StrCat(file_->path(), ": tensor ", name, " is not read") : stored->absent);
  const auto numbers = stored->AsDoubles();
  const std::vector<float> floats(numbers.begin(), numbers.end());
  return graph::MakeFloats({size}, floats);
}

void Weights::CheckAllUsed() const {
  constexpr int kShown = 5;
  std::string names;
  int unused = 0;
  for (size_t i = 0; i < used_.size(); ++i) {
    const std::string_view name = file_->tensors()[i].name;
    if (used_[i] || IsRedundant(name)) continue;
    if (++unused <= kShown) names += (names.empty() ? "" : ", ") + Printable(name);
  }
  if (unused == 0) return;
  if (unused > kShown) names += ", ...";
  Throw(Code::kInvalidModel, file_->path(), ": ", unused, " tensors are not part of architecture ",
        Printable(file_->architecture()), " as it is known here: ", names);
}

}  // namespace ullage::gguf
