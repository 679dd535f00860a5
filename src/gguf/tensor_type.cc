#include "gguf/tensor_type.h"

#include <algorithm>
#include <array>

namespace ullage::gguf {
namespace {

constexpr TensorType kTypes[] = {
    {0, "f32", 1, 4, DType::kFloat},           {1, "f16", 1, 2, DType::kFloat16},
    {2, "q4_0", 32, 18, DType::kUndefined},    {3, "q4_1", 32, 20, DType::kUndefined},
    {6, "q5_0", 32, 22, DType::kUndefined},    {7, "q5_1", 32, 24, DType::kUndefined},
    {8, "q8_0", 32, 34, DType::kUndefined},    {10, "q2_k", 256, 84, DType::kUndefined},
    {11, "q3_k", 256, 110, DType::kUndefined}, {12, "q4_k", 256, 144, DType::kUndefined},
    {13, "q5_k", 256, 176, DType::kUndefined}, {14, "q6_k", 256, 210, DType::kUndefined},
    {20, "iq4_nl", 32, 18, DType::kUndefined}, {23, "iq4_xs", 256, 136, DType::kUndefined},
    {30, "bf16", 1, 2, DType::kBFloat16},
};

constexpr std::array<std::string_view, 41> kNames = {
    "f32",   "f16",        "q4_0",       "q4_1",       "q4_2",     "q4_3",     "q5_0",
    "q5_1",  "q8_0",       "q8_1",       "q2_k",       "q3_k",     "q4_k",     "q5_k",
    "q6_k",  "q8_k",       "iq2_xxs",    "iq2_xs",     "iq3_xxs",  "iq1_s",    "iq4_nl",
    "iq3_s", "iq2_s",      "iq4_xs",     "i8",         "i16",      "i32",      "i64",
    "f64",   "iq1_m",      "bf16",       "q4_0_4_4",   "q4_0_4_8", "q4_0_8_8", "tq1_0",
    "tq2_0", "iq4_nl_4_4", "iq4_nl_4_8", "iq4_nl_8_8", "mxfp4",    "nvfp4"};

}  // namespace

const TensorType* FindTensorType(uint32_t number) {
  const auto* it = std::find_if(std::begin(kTypes), std::end(kTypes),
                                [&](const TensorType& t) { return t.number == number; });
  return it == std::end(kTypes) ? nullptr : it;
}

const TensorType* FindTensorType(std::string_view name) {
  const auto* it =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TensorType& t) { return t.name == name; });
  return it == std::end(kTypes) ? nullptr : it;
}

std::string_view TensorTypeName(uint32_t number) {
  return number < kNames.size() ? kNames[number] : "unknown";
}

std::string ReadableTensorTypes() {
  std::string list;
  for (const TensorType& t : kTypes) list += (list.empty() ? "" : ", ") + std::string(t.name);
  return list;
}

}  // namespace ullage::gguf
