#include "gguf/tensor_type.h"

#include <algorithm>
#include <array>
#include <vector>

#include "core/gguf_block.h"

namespace ullage::gguf {
namespace {

constexpr std::array<std::string_view, 41> kNames = {
    "f32",   "f16",        "q4_0",       "q4_1",       "q4_2",     "q4_3",     "q5_0",
    "q5_1",  "q8_0",       "q8_1",       "q2_k",       "q3_k",     "q4_k",     "q5_k",
    "q6_k",  "q8_k",       "iq2_xxs",    "iq2_xs",     "iq3_xxs",  "iq1_s",    "iq4_nl",
    "iq3_s", "iq2_s",      "iq4_xs",     "i8",         "i16",      "i32",      "i64",
    "f64",   "iq1_m",      "bf16",       "q4_0_4_4",   "q4_0_4_8", "q4_0_8_8", "tq1_0",
    "tq2_0", "iq4_nl_4_4", "iq4_nl_4_8", "iq4_nl_8_8", "mxfp4",    "nvfp4"};

struct DenseType {
  uint32_t number;
  DType dtype;
};
constexpr DenseType kDense[] = {{0, DType::kFloat}, {1, DType::kFloat16}, {30, DType::kBFloat16}};

// The readable types by number.
const std::vector<TensorType>& Types() {
  static const std::vector<TensorType> types = [] {
    std::vector<TensorType> list;
    for (uint32_t number = 0; number < kNames.size(); ++number) {
      for (const DenseType& d : kDense)
        if (d.number == number)
          list.push_back({number, kNames[number], 1, static_cast<uint32_t>(BytesOf(d.dtype, 1)), d.dtype});
      if (!IsGgufBlockType(static_cast<int32_t>(number))) continue;
      const GgufTraits& t = TraitsOf(static_cast<GgufType>(number));
      list.push_back({number, kNames[number], static_cast<uint32_t>(t.elements),
                      static_cast<uint32_t>(t.bytes), DType::kUndefined});
    }
    return list;
  }();
  return types;
}

template <class Test>
const TensorType* Find(const Test& test) {
  const auto it = std::find_if(Types().begin(), Types().end(), test);
  return it == Types().end() ? nullptr : &*it;
}

}  // namespace

const TensorType* FindTensorType(uint32_t number) {
  return Find([&](const TensorType& t) { return t.number == number; });
}

const TensorType* FindTensorType(std::string_view name) {
  return Find([&](const TensorType& t) { return t.name == name; });
}

std::string_view TensorTypeName(uint32_t number) {
  return number < kNames.size() ? kNames[number] : "unknown";
}

std::string ReadableTensorTypes() {
  std::string list;
  for (const TensorType& t : Types()) list += (list.empty() ? "" : ", ") + std::string(t.name);
  return list;
}

}  // namespace ullage::gguf
