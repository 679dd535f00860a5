/// The host's side of the ABI as the rest of the plugin uses it: failures as exceptions, nodes and tensors as
/// values. Exceptions never leave the plugin: every function of a table runs its work through Guard().
#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <string>
#include <vector>

#include "ullage/plugin/abi.h"

namespace ullage_opencl {

/// Numbers of onnx.TensorProto.DataType.
enum DType : int32_t {
  kNone = 0,
  kFloat = 1,
  kUInt8 = 2,
  kInt8 = 3,
  kUInt16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kUInt32 = 12,
  kUInt64 = 13,
  kBFloat16 = 16,
  kUInt4 = 21,
  kInt4 = 22,
  kUInt2 = 25,
  kInt2 = 26,
};
/// Bytes of an element; 0 for types that share bytes, strings and unknown ones.
int64_t SizeOf(int32_t dtype);
inline constexpr uint64_t Bit(int32_t dtype) {
  return uint64_t{1} << dtype;
}
inline constexpr uint64_t kFloats = Bit(kFloat) | Bit(kFloat16) | Bit(kBFloat16);
inline constexpr uint64_t kAnyType = ~uint64_t{0};
inline constexpr uint64_t kIndices = Bit(kInt32) | Bit(kInt64);

/// Set once, by the plugin's entry.
const ullage_host_api& Host();
void SetHost(const ullage_host_api* host);

struct Failure {
  ullage_code code;
  std::string text;
};
[[noreturn]] void Fail(ullage_code code, std::string text);
/// What the host refused, on its way back to it.
struct HostFailure {
  ullage_status* status;
};
/// Throws HostFailure.
void Check(ullage_status* status);

template <class Work>
ullage_status* Guard(const Work& work) {
  try {
    work();
    return nullptr;
  } catch (const HostFailure& f) {
    return f.status;
  } catch (const Failure& f) {
    return Host().create_status(f.code, f.text.c_str());
  } catch (const std::exception& e) {
    return Host().create_status(ULLAGE_FAILED, e.what());
  }
}

/// What is known of an input or output before it is computed.
struct ValueFacts {
  bool present = false, known = false, constant = false;
  int32_t dtype = kNone;
  std::vector<int64_t> lower, upper;  ///< empty unless known; an upper end of -1: none

  static ValueFacts Of(const ullage_value_info& info);
  int rank() const { return known ? static_cast<int>(upper.size()) : -1; }
  /// The dimension where it is fixed; else -1.
  int64_t Fixed(size_t axis) const;
  /// Largest number of elements; -1: unknown.
  int64_t UpperElements() const;
};

struct Facts {
  std::vector<ValueFacts> inputs, outputs;
  const ValueFacts& in(size_t i) const;
  const ValueFacts& out(size_t i) const;
};

/// A node with its attributes.
class Node {
 public:
  explicit Node(const ullage_node* node) : node_(node) {}
  std::string name() const { return Host().node_name(node_); }
  std::string op() const { return Host().node_op(node_); }
  std::string domain() const { return Host().node_domain(node_); }
  int32_t opset() const { return Host().node_opset(node_); }
  Facts facts() const;
  bool has_input(size_t i) const;
  bool has_output(size_t i) const;

  int64_t Int(const char* key, int64_t otherwise) const;
  float Float(const char* key, float otherwise) const;
  std::string Str(const char* key, const char* otherwise) const;
  std::vector<int64_t> Ints(const char* key) const;
  std::vector<float> Floats(const char* key) const;
  std::vector<std::string> Strings(const char* key) const;
  bool HasFloat(const char* key) const;

  /// An attribute that is a tensor of one element: its type and its bytes, least significant first; kNone:
  /// absent.
  int32_t Scalar(const char* key, uint64_t* bits) const;
  /// A constant's bytes in host memory; null where they are not there (planning).
  const uint8_t* Constant(size_t i, uint64_t* bytes) const;
  /// GGUF's name of a constant's block type, or "".
  std::string BlockType(size_t i) const;

  [[noreturn]] void Unsupported(const std::string& why) const;
  [[noreturn]] void Invalid(const std::string& why) const;

 private:
  const ullage_node* node_;
};

inline constexpr int kMaxRank = 8;

/// A tensor as compute sees it: in a buffer of the device, or at a pointer.
struct Tensor {
  int32_t dtype = kNone;
  int rank = 0;
  std::array<int64_t, kMaxRank> dims{};
  int64_t capacity = 0;
  ullage_buffer* buffer = nullptr;
  uint64_t offset = 0;
  void* pointer = nullptr;

  int64_t elements() const { return elements(0, rank); }
  int64_t elements(int first, int last) const;
  int64_t bytes() const { return elements() * SizeOf(dtype); }
  int64_t back(int i = 1) const { return dims[static_cast<size_t>(rank - i)]; }
  int64_t operator[](int i) const { return dims[static_cast<size_t>(i)]; }
  /// Rows that a cache [batch, heads, rows, size] has room for.
  int64_t rows() const { return capacity ? capacity : dims[2]; }
  /// Integers of a tensor in host memory.
  std::vector<int64_t> HostInts() const;
  std::string ToString() const;
};

inline int Axis(int64_t axis, int rank) {
  const int64_t a = axis < 0 ? axis + rank : axis;
  if (a < 0 || a > rank || (a == rank && rank > 0))
    Fail(ULLAGE_INVALID_ARGUMENT, "axis " + std::to_string(axis) + " of " + std::to_string(rank));
  return static_cast<int>(a);
}

/// -1 where a factor is; throws where it does not fit.
int64_t Product(std::initializer_list<int64_t> factors);

}  // namespace ullage_opencl
