/// TensorProto and SparseTensorProto: from the wire to constants.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/mapped_file.h"
#include "graph/constant.h"
#include "onnx/wire.h"

namespace ullage::onnx {

/// Tensors of fewer bytes own aligned memory even where they could be views.
inline constexpr size_t kSmallTensor = 4096;

/// The external data files of one model: opened once each, locations checked. Not thread-safe.
class ExternalFiles {
 public:
  /// Locations are relative to `folder` (empty: the current one).
  explicit ExternalFiles(std::string folder) : folder_(std::move(folder)) {}

  struct Result {
    std::shared_ptr<const MappedFile> file;  ///< null when it cannot be read
    std::string path;
    std::string problem;  ///< why `file` is null
  };
  /// Throws kInvalidModel, beginning with `where`, for a location that must not be followed.
  const Result& Open(std::string_view location, const std::string& where);

 private:
  std::string folder_;
  std::map<std::string, Result, std::less<>> files_;
};

/// A TensorProto whose header has been read and checked: type, shape (>= 0, elements and bytes do not
/// overflow) and the one place of the data. The data have not been touched.
struct TensorPb {
  std::string_view name;
  DType dtype = DType::kUndefined;
  Shape shape;
  int64_t elements = 0;
  size_t size_bytes = 0;  ///< 0 for strings

  bool external = false;
  std::string_view location;
  uint64_t external_offset = 0;
  std::optional<uint64_t> external_length;

  std::optional<std::string_view> raw;
  Message message;  ///< to read typed fields again

  std::string Where() const;  ///< "model.onnx: tensor weight"
};

/// Reads the header; throws source.code for everything wrong with it.
TensorPb ParseTensor(Message message);

struct TensorContext {
  ExternalFiles* external = nullptr;  ///< null: external data are refused
  bool require_data = true;
};

/// The constant of a tensor. `value_name` is the name of the value it becomes, for messages and for values
/// stated by names. May be absent (see Constant) only when !require_data and the data are external.
graph::ConstantPtr MakeTensor(const TensorPb& tensor, std::string_view value_name,
                              const TensorContext& context);

/// Decodes the typed fields, or copies the raw ones, of a tensor of a fixed-size type to `out` (size_bytes).
void DecodeTensor(const TensorPb& tensor, std::byte* out);
/// The contents of a tensor of strings.
std::vector<std::string> DecodeStrings(const TensorPb& tensor);

/// A constant of strings; `strings` are as many as the shape says.
graph::ConstantPtr MakeStrings(const Shape& shape, std::vector<std::string> strings);

/// A sparse tensor made dense. `name`: that of its values tensor. Refuses dense sizes that are out of
/// proportion to what the file holds.
struct SparseTensor {
  std::string_view name;
  graph::ConstantPtr constant;
};
SparseTensor MakeSparseTensor(Message message, const TensorContext& context);

}  // namespace ullage::onnx
