/// Tensors in files: ONNX protobuf messages (TensorProto, SequenceProto, OptionalProto) and NumPy arrays, and
/// the folders of them that `ullage infer` reads and writes. All functions are re-entrant.
///
/// Files are input: everything wrong with them is kInvalidInput naming the file; kUnsupported for forms that
/// have no counterpart here (sequences of sequences, maps, object arrays).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "ullage/tensor.h"

namespace ullage::onnx {

/// A tensor with memory of its own: `bytes` (dense, row-major, types below a byte packed low bits first), or
/// `strings` when dtype is kString.
struct HostTensor {
  std::string name;
  DType dtype = DType::kUndefined;
  Shape shape;
  std::vector<std::byte> bytes;
  std::vector<std::string> strings;

  /// A view of this tensor's data; for kString the data are std::string objects.
  TensorView view();
};

/// A tensor (`tensors` holds it), a sequence (any number of tensors), or an optional of either.
struct HostValue {
  std::string name;
  graph::TypeKind kind = graph::TypeKind::kTensor;
  /// Optionals only: whether there is a value, and of which kind (kTensor or kSequence).
  bool present = true;
  graph::TypeKind inner = graph::TypeKind::kTensor;
  std::vector<HostTensor> tensors;
};

enum class FileForm { kProtobuf, kNumpy };

// -- protobuf; `name` stands for the file in messages --

HostTensor ParseTensorProto(std::span<const std::byte> bytes, const std::string& name);
/// The message type is that of `kind`: the files do not say.
HostValue ParseValueProto(std::span<const std::byte> bytes, graph::TypeKind kind, const std::string& name);
/// Throws kRuntime when the message would exceed the 2 GiB that protobuf allows.
std::string SerializeTensorProto(const HostTensor& tensor);
std::string SerializeValueProto(const HostValue& value);

HostValue ReadValueProto(const std::string& path, graph::TypeKind kind);
void WriteValueProto(const std::string& path, const HostValue& value);

// -- NumPy .npy, versions 1.0 to 3.0, C and Fortran order, little endian --

/// Unicode and byte strings become kString. Structured, object, big-endian and other foreign types are
/// refused.
HostTensor ParseNpy(std::span<const std::byte> bytes, const std::string& name);
/// False for element types that numpy lacks (bfloat16, float8, types below a byte).
bool NumpyHas(DType dtype);
/// Throws kUnsupported for element types that numpy lacks, and for strings that hold NUL at the end or no
/// UTF-8.
std::string SerializeNpy(const HostTensor& tensor);

HostTensor ReadNpy(const std::string& path);
void WriteNpy(const std::string& path, const HostTensor& tensor);

// -- folders --

/// A tensor's name as a file name: every byte outside A-Za-z0-9._- is written %XX.
std::string EscapeName(std::string_view name);
/// The inverse (either case of hexadecimal digits); throws kInvalidInput on a broken escape.
std::string UnescapeName(std::string_view escaped);

struct InputsFolder {
  FileForm form = FileForm::kProtobuf;
  std::vector<HostValue> values;  ///< in the order of graph.inputs, named as they are
};
/// Reads `input_0.pb`, ... or `NAME.npy` for the inputs of the graph; other files are ignored, except .npy
/// files that no input is named after. Inputs with a default may be left out: they are then not in `values`.
InputsFolder ReadInputsFolder(const std::string& dir, const graph::Graph& graph);
/// Writes `output_0.pb`, ... or `NAME.npy`; makes the folder when missing.
void WriteOutputsFolder(const std::string& dir, FileForm form, std::span<const HostValue> outputs);

}  // namespace ullage::onnx
