/// Takes tensors out of a GGUF file for an importer: by name, with the shape that is expected, each noted as
/// used.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/gguf_file.h"

namespace ullage::gguf {

class Weights {
 public:
  /// Without `may_read` vectors are constants without contents.
  Weights(std::shared_ptr<const GgufFile> file, bool may_read);

  bool Has(std::string_view name) const { return file_->FindTensor(name) != nullptr; }
  /// A matrix [rows, columns] of any type, as a view. Throws kInvalidModel when it is missing or of another
  /// shape.
  graph::ConstantPtr Matrix(const std::string& name, int64_t rows, int64_t columns);
  /// Rows [first, first + count) of such a matrix.
  graph::ConstantPtr Rows(const std::string& name, int64_t rows, int64_t columns, int64_t first,
                          int64_t count);
  /// A float32 vector: a view, or converted when it is stored as float16 or bfloat16. Without its data only
  /// type and shape are known.
  graph::ConstantPtr Vector(const std::string& name, int64_t size);
  /// Throws kInvalidModel naming the tensors that nobody took.
  void CheckAllUsed() const;

 private:
  const TensorInfo& Take(const std::string& name, const Shape& expected);

  std::shared_ptr<const GgufFile> file_;
  bool may_read_;
  std::vector<bool> used_;  // by position in the directory
};

}  // namespace ullage::gguf
