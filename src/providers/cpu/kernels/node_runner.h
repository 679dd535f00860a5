/// Runs one node in a test: its shape rule, its kernel, its prepacked weights and its workspace, without a
/// session. Every workspace block and output is followed by guard bytes, and a kernel that asks for scratch
/// it did not declare is found out.
#pragma once

#include <bit>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/half.h"
#include "ops/test_context.h"
#include "providers/device.h"
#include "providers/provider.h"

namespace ullage::cpu {

struct TestTensor {
  DType dtype = DType::kUndefined;
  Shape shape;
  std::vector<std::byte> bytes;

  template <class T>
  static TestTensor Of(DType dtype, const Shape& shape, const std::vector<T>& values) {
    TestTensor t{dtype, shape, std::vector<std::byte>(values.size() * sizeof(T))};
    if (!values.empty()) std::memcpy(t.bytes.data(), values.data(), t.bytes.size());
    return t;
  }
  static TestTensor Floats(const Shape& shape, const std::vector<float>& values,
                           DType dtype = DType::kFloat) {
    if (dtype == DType::kFloat) return Of(dtype, shape, values);
    std::vector<uint16_t> half;
    for (float v : values) half.push_back(dtype == DType::kFloat16 ? FloatToHalf(v) : FloatToBFloat16(v));
    return Of(dtype, shape, half);
  }
  static TestTensor Int64(const Shape& shape, const std::vector<int64_t>& values) {
    return Of(DType::kInt64, shape, values);
  }
  static TestTensor Int32(const Shape& shape, const std::vector<int32_t>& values) {
    return Of(DType::kInt32, shape, values);
  }
  static TestTensor Bytes(const Shape& shape, const std::vector<uint8_t>& values,
                          DType dtype = DType::kUInt8) {
    return Of(dtype, shape, values);
  }
  /// Floats of any of the three types.
  std::vector<float> AsFloats() const {
    std::vector<float> out;
    const size_t element = dtype == DType::kFloat ? 4 : 2;
    for (size_t i = 0; i + element <= bytes.size(); i += element) {
      uint32_t bits = 0;
      std::memcpy(&bits, bytes.data() + i, element);
      const auto half = static_cast<uint16_t>(bits);
      out.push_back(dtype == DType::kFloat     ? std::bit_cast<float>(bits)
                    : dtype == DType::kFloat16 ? HalfToFloat(half)
                                               : BFloat16ToFloat(half));
    }
    return out;
  }
  template <class T>
  std::vector<T> As() const {
    std::vector<T> out(bytes.size() / sizeof(T));
    if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
  }
};

class NodeRunner {
 public:
  NodeRunner(std::string_view domain, std::string_view op, int opset)
      : domain_(domain), op_(op), opset_(opset) {}

  NodeRunner& Attr(const std::string& key, graph::Attribute value) {
    attributes_[key] = std::move(value);
    return *this;
  }
  NodeRunner& Input(std::optional<TestTensor> tensor, bool constant = false) {
    inputs_.push_back({std::move(tensor), constant, {}, {}, 0});
    return *this;
  }
  /// The last input is a constant of `shape` whose bytes are GGUF blocks of that type ("q4_k").
  NodeRunner& Blocks(const std::string& type, const Shape& shape) {
    inputs_.back().block_type = type;
    inputs_.back().tensor->shape = shape;
    return *this;
  }
  /// Workspace is declared for this shape as upper end of the last input's.
  NodeRunner& UpTo(const Shape& shape) {
    inputs_.back().bound = shape;
    return *this;
  }
  /// Workspace is declared for contents of the last input (integers) anywhere in [0, most].
  NodeRunner& ValuesUpTo(int64_t most) {
    inputs_.back().most = most;
    return *this;
  }
  /// The last input is a cache with room for `rows` rows that output `output` appends to in place.
  NodeRunner& Cache(int64_t rows, int output) {
    inputs_.back().capacity = rows;
    in_place_.emplace_back(static_cast<int>(inputs_.size()) - 1, output);
    return *this;
  }
  NodeRunner& Outputs(std::vector<bool> wanted) {
    wanted_ = std::move(wanted);
    return *this;
  }
  NodeRunner& Threads(int threads) {
    threads_ = threads;
    return *this;
  }
  /// On a device instead of the host: everything lies in regions of its own, guards included, but for what
  /// the kernel's definition or the operator's rule keeps on the host. All three outlive Run().
  NodeRunner& On(const providers::Provider& provider, providers::OpenDevice& device,
                 providers::Stream& queue) {
    provider_ = &provider;
    device_ = &device;
    queue_ = &queue;
    return *this;
  }
  int inputs() const { return static_cast<int>(inputs_.size()); }
  /// Outputs by index; those that are not wanted are empty. Throws what rules and kernels throw.
  std::vector<TestTensor> Run();
  /// GetScratchBuffer() calls of the last Run().
  int scratch_calls() const { return scratch_calls_; }
  /// A guard behind an output or a workspace block was written to.
  bool overrun() const { return overrun_; }

 private:
  struct Given {
    std::optional<TestTensor> tensor;
    bool constant;
    std::optional<Shape> bound;
    std::optional<int64_t> most;
    int64_t capacity;
    std::string block_type = {};
  };
  std::string domain_, op_;
  int opset_;
  std::map<std::string, graph::Attribute, std::less<>> attributes_;
  std::vector<Given> inputs_;
  std::vector<std::pair<int, int>> in_place_;
  std::vector<bool> wanted_ = {true};
  int threads_ = 2;
  const providers::Provider* provider_ = nullptr;
  providers::OpenDevice* device_ = nullptr;
  providers::Stream* queue_ = nullptr;
  int scratch_calls_ = 0;
  bool overrun_ = false;
};

}  // namespace ullage::cpu
