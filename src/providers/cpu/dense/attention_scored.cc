// The path that also writes the scores: plain loops, one query row at a time.
#include <cmath>
#include <cstring>
#include <limits>

#include "core/half.h"
#include "providers/cpu/dense/attention_internal.h"

namespace ullage::dense {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float Get(const ConstArray& a, int64_t i) {
  switch (a.dtype) {
    case DType::kFloat:
      return static_cast<const float*>(a.data)[i];
    case DType::kFloat16:
      return HalfToFloat(static_cast<const uint16_t*>(a.data)[i]);
    case DType::kBool:
      return static_cast<const uint8_t*>(a.data)[i] != 0 ? 0 : -kInfinity;
    default:
      return BFloat16ToFloat(static_cast<const uint16_t*>(a.data)[i]);
  }
}

/// Element i of the row that begins at element `row` of the array.
float CacheAt(const ConstArray& a, const KvCodec& codec, int64_t head, int64_t row, int64_t size, int64_t i) {
  if (!codec.quantized()) return Get(a, row + i);
  return KvElement(codec, head, static_cast<const std::byte*>(a.data) + row, size, i);
}

void Put(const Array& a, int64_t i, float x) {
  switch (a.dtype) {
    case DType::kFloat:
      static_cast<float*>(a.data)[i] = x;
      break;
    case DType::kFloat16:
      static_cast<uint16_t*>(a.data)[i] = FloatToHalf(x);
      break;
    default:
      static_cast<uint16_t*>(a.data)[i] = FloatToBFloat16(x);
  }
}

}  // namespace

void RunScoredRow(const AttentionArgs& a, int64_t b, int64_t n, int64_t s, float* row) {
  const int64_t kv_head = n / (a.q_heads / a.kv_heads), length = KeyLength(a, b);
  const KeyRange visible = VisibleKeys(a, b, s);
  const int64_t q = b * a.q_layout.batch_stride + s * a.q_layout.seq_stride + n * a.q_layout.head_stride;
  const int64_t k = b * a.k_layout.batch_stride + kv_head * a.k_layout.head_stride;
  const int64_t v = b * a.v_layout.batch_stride + kv_head * a.v_layout.head_stride;
  const int64_t out = ((b * a.q_heads + n) * a.seq + s) * a.max_keys;
  auto put = [&](QkOutput mode, int64_t j, float x) {
    if (a.qk_mode == mode) Put(a.qk, out + j, x);
  };
  const float sink = a.head_sink.data != nullptr ? Get(a.head_sink, n) : 0;
  float largest = HasSink(a) ? sink : -kInfinity;
  for (int64_t j = 0; j < length; ++j) {
    float x = 0;
    for (int64_t h = 0; h < a.head_size; ++h) {
      x += a.scale * Get(a.q, q + h) *
           CacheAt(a.k, a.k_codec, kv_head, k + j * a.k_layout.seq_stride, a.head_size, h);
    }
    put(QkOutput::kScaled, j, x);
    if (a.softcap > 0) x = a.softcap * std::tanh(x / a.softcap);
    put(QkOutput::kSoftcapped, j, x);
    const bool hidden = j < visible.begin || j >= visible.end;
    if (hidden) {
      x = -kInfinity;
    } else if (a.bias.data != nullptr) {
      x += Get(a.bias, BiasRow(a, b, n, s) + j * a.bias_key_stride);
    }
    put(QkOutput::kMasked, j, x);
    row[j] = x;
    largest = std::isnan(x) || x > largest ? x : largest;
  }
  const float shift = largest == -kInfinity ? 0 : largest;
  double sum = HasSink(a) ? std::exp(static_cast<double>(sink) - shift) : 0;
  for (int64_t j = 0; j < length; ++j) {
    row[j] = std::exp(row[j] - shift);
    sum += row[j];
  }
  const bool empty = sum == 0;
  const float factor = empty ? 0 : static_cast<float>(1 / sum);
  for (int64_t j = 0; j < length; ++j) {
    row[j] *= factor;
    put(QkOutput::kSoftmax, j, row[j]);
  }
  for (int64_t j = length; j < a.max_keys; ++j) Put(a.qk, out + j, 0);
  const int64_t y = b * a.y_layout.batch_stride + s * a.y_layout.seq_stride + n * a.y_layout.head_stride;
  for (int64_t h = 0; h < a.v_head_size; ++h) {
    double x = 0;
    for (int64_t j = visible.begin; j < visible.end; ++j) {
      if (row[j] != 0)
        x += static_cast<double>(row[j]) *
             CacheAt(a.v, a.v_codec, kv_head, v + j * a.v_layout.seq_stride, a.v_head_size, h);
    }
    if (empty && a.empty_row == EmptyRow::kNaN) x = std::numeric_limits<double>::quiet_NaN();
    Put(a.y, y + h, static_cast<float>(x));
  }
}

}  // namespace ullage::dense
