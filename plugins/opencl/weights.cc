#include "weights.h"

#include <algorithm>
#include <cstring>

namespace ullage_opencl {
namespace {

/// What gguf.md and ggml's block structures say of a block type.
struct Gguf {
  const char* name;
  int elements, bytes;
  int low, high;
  int span;
  int scale, zero, center;
  bool table;
};
constexpr Gguf kGguf[] = {
    {"q4_0", 32, 18, 4, 0, 32, 1, 0, 8, false},   {"q4_1", 32, 20, 4, 0, 32, 1, 3, 0, false},
    {"q5_0", 32, 22, 4, 1, 32, 1, 0, 16, false},  {"q5_1", 32, 24, 4, 1, 32, 1, 3, 0, false},
    {"q8_0", 32, 34, 8, 0, 32, 1, 0, 128, false}, {"q2_k", 256, 84, 2, 0, 16, 2, 4, 0, false},
    {"q3_k", 256, 110, 2, 1, 16, 2, 0, 4, false}, {"q4_k", 256, 144, 4, 0, 32, 2, 4, 0, false},
    {"q5_k", 256, 176, 4, 1, 32, 2, 4, 0, false}, {"q6_k", 256, 210, 4, 2, 16, 2, 0, 32, false},
    {"iq4_nl", 32, 18, 4, 0, 32, 1, 0, 0, true},  {"iq4_xs", 256, 136, 4, 0, 32, 2, 0, 0, true},
};

const Gguf* FindGguf(const std::string& name) {
  for (const Gguf& g : kGguf)
    if (name == g.name) return &g;
  return nullptr;
}

int64_t RoundUp(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

uint16_t Load16(const uint8_t* p) {
  return static_cast<uint16_t>(p[0] | p[1] << 8);
}

/// `bits` of element i of densely packed integers, low bits first.
uint8_t BitsAt(const uint8_t* p, int64_t i, int bits) {
  if (bits == 8) return p[i];
  const int per_byte = 8 / bits;
  return static_cast<uint8_t>(p[i / per_byte] >> (i % per_byte * bits) & ((1 << bits) - 1));
}

/// The 6-bit scale and minimum j of the twelve bytes of Q4_K and Q5_K.
void ScaleAndMin(const uint8_t* q, int j, int8_t* scale, uint8_t* min) {
  if (j < 4) {
    *scale = static_cast<int8_t>(q[j] & 63);
    *min = q[j + 4] & 63;
  } else {
    *scale = static_cast<int8_t>((q[j + 4] & 15) | (q[j - 4] >> 6) << 4);
    *min = static_cast<uint8_t>(q[j + 4] >> 4 | (q[j] >> 6) << 4);
  }
}

}  // namespace

/// One row of W on its way into the planes.
struct QuantisedWeight::Row {
  std::vector<uint8_t> codes;
  std::vector<uint8_t> scales, zeros;  ///< as the planes store them
  std::vector<uint16_t> d, dmin;
};

struct QuantisedWeight::Parts {
  const uint8_t *data, *scales, *zeros;
};

QuantisedWeight::QuantisedWeight(const Node& node, const Source& source) : source_(source) {
  const Facts facts = node.facts();
  const ValueFacts& data = facts.in(source.data);
  if (!data.constant) node.Unsupported("a weight that is no constant");
  if (source.n < 1 || source.k < 1) node.Invalid("a weight without elements");
  int64_t pad = 32;
  if (source.format == "ggml") {
    type_ = node.BlockType(source.data);
    const Gguf* g = FindGguf(type_);
    if (!g) node.Unsupported("block type " + type_);
    if (source.k % g->elements != 0) node.Invalid("rows that are no multiple of a block");
    low_ = g->low;
    high_ = g->high;
    span_ = g->span;
    scale_ = g->scale;
    zero_ = g->zero;
    center_ = g->center;
    table_ = g->table;
    if (g->elements == 256) pad = 256;
  } else {
    const bool nbits = source.format == "nbits";
    if (!nbits && source.format != "qdq_nk" && source.format != "qdq_kn")
      node.Unsupported("weights of format " + source.format);
    const ValueFacts& scales = facts.in(source.scales);
    if (!scales.constant || !(kFloats & Bit(scales.dtype)))
      node.Unsupported("scales that are no constant floats");
    if (source.bits != 2 && source.bits != 4 && source.bits != 8)
      node.Unsupported("codes of other than 2, 4, 8 bits");
    low_ = static_cast<int>(source.bits);
    code_type_ = data.dtype;
    scale_type_ = scales.dtype;
    scale_ = scale_type_ == kFloat16 ? 1 : 0;
    const bool is_signed = !nbits && (code_type_ == kInt8 || code_type_ == kInt4 || code_type_ == kInt2);
    const bool has_zeros = source.zero_points != SIZE_MAX;
    const int middle = 1 << (low_ - 1);
    center_ = has_zeros ? 0 : nbits || is_signed ? middle : 0;
    if (has_zeros) {
      const ValueFacts& zeros = facts.in(source.zero_points);
      if (!zeros.constant) node.Unsupported("zero points that are no constants");
      zero_type_ = zeros.dtype;
      zero_ = kFloats & Bit(zero_type_) ? 2 : 1;
    }
    per_tensor_ = !nbits && source.block_size == 0 && scales.UpperElements() == 1;
    const int64_t block = source.block_size;
    if (block <= 0) {
      span_ = 32;
      while (span_ < source.k) span_ *= 2;
    } else if (block >= 16 && (block & (block - 1)) == 0) {
      span_ = block;
    } else if (block % 16 == 0) {
      span_ = 16;
    } else if (block >= source.k) {
      span_ = 32;
      while (span_ < source.k) span_ *= 2;
    } else {
      node.Unsupported("blocks of " + std::to_string(block) + " elements");
    }
  }
  padded_k_ = RoundUp(source.k, pad);
  spans_ = (padded_k_ + span_ - 1) / span_;
  int64_t at = 0;
  const auto plane = [&](int64_t row_bytes) {
    const int64_t begin = at;
    at = RoundUp(at + Product({source_.n, row_bytes}), 64);
    return begin;
  };
  plane(padded_k_ * low_ / 8);
  high_at_ = plane(padded_k_ * high_ / 8);
  scale_at_ = plane(spans_ * ScaleBytes());
  zero_at_ = plane(spans_ * ZeroBytes());
  d_at_ = plane(scale_ == 2 ? padded_k_ / 256 * 2 : 0);
  dmin_at_ = plane(zero_ == 4 ? padded_k_ / 256 * 2 : 0);
  bytes_ = at;
  options_ = Define("FORM", kQuantised) + Define("LOW", low_) + Define("HIGH", high_) +
             Define("SPAN", span_) + Define("SCALE", scale_) + Define("ZERO", zero_) + Define("ZC", center_) +
             Define("TABLE", table_);
}

std::string QuantisedWeight::share_key() const {
  return options_ + source_.format + " " + type_ + " " + std::to_string(source_.n) + "x" +
         std::to_string(source_.k);
}

uint64_t QuantisedWeight::inputs() const {
  uint64_t bits = 0;
  for (size_t i : {source_.data, source_.scales, source_.zero_points})
    if (i < 64) bits |= uint64_t{1} << i;
  return bits;
}

void QuantisedWeight::Describe(GemmArgs* args) const {
  args->n = Int32(source_.n, "rows of a weight");
  args->k = Int32(source_.k, "columns of a weight");
  args->padded_k = Int32(padded_k_, "columns of a weight");
  args->spans = Int32(spans_, "blocks of a weight");
  args->high_at = static_cast<uint64_t>(high_at_);
  args->scale_at = static_cast<uint64_t>(scale_at_);
  args->zero_at = static_cast<uint64_t>(zero_at_);
  args->d_at = static_cast<uint64_t>(d_at_);
  args->dmin_at = static_cast<uint64_t>(dmin_at_);
}

void QuantisedWeight::ReadGguf(const Parts& parts, int64_t n, Row* row) const {
  const Gguf& g = *FindGguf(type_);
  const int64_t blocks = source_.k / g.elements;
  const int spans = g.elements / g.span;
  const std::string& t = type_;
  for (int64_t b = 0; b < blocks; ++b) {
    const uint8_t* p = parts.data + (n * blocks + b) * g.bytes;
    uint8_t* c = row->codes.data() + b * g.elements;
    uint8_t* s = row->scales.data() + b * spans * ScaleBytes();
    uint8_t* z = row->zeros.data() + b * spans * ZeroBytes();
    const auto half = [&](const uint8_t* from, uint8_t* to) { std::memcpy(to, from, 2); };
    if (g.elements == 32) {
      const bool has_min = g.zero == 3;
      half(p, s);
      if (has_min) half(p + 2, z);
      const uint8_t* q = p + (has_min ? 4 : 2);
      if (t == "q8_0") {
        for (int i = 0; i < 32; ++i) c[i] = static_cast<uint8_t>(q[i] ^ 0x80);
        continue;
      }
      uint32_t fifth = 0;
      if (g.high == 1) {
        std::memcpy(&fifth, q, 4);
        q += 4;
      }
      for (int i = 0; i < 16; ++i) {
        c[i] = static_cast<uint8_t>((q[i] & 15) | (fifth >> i & 1) << 4);
        c[i + 16] = static_cast<uint8_t>(q[i] >> 4 | (fifth >> (i + 16) & 1) << 4);
      }
      continue;
    }
    auto* scale = reinterpret_cast<int8_t*>(s);
    if (t == "q2_k") {
      for (int j = 0; j < 16; ++j) {
        scale[j] = static_cast<int8_t>(p[j] & 15);
        z[j] = p[j] >> 4;
      }
      for (int i = 0; i < 256; ++i) c[i] = p[16 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
      row->d[static_cast<size_t>(b)] = Load16(p + 80);
      row->dmin[static_cast<size_t>(b)] = Load16(p + 82);
    } else if (t == "q3_k") {
      for (int j = 0; j < 16; ++j) {
        const int low = j < 8 ? p[96 + j] & 15 : p[96 + j - 8] >> 4;
        scale[j] = static_cast<int8_t>((low | (p[104 + j % 4] >> (j / 4 * 2) & 3) << 4) - 32);
      }
      for (int i = 0; i < 256; ++i) {
        const int low = p[32 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
        c[i] = static_cast<uint8_t>(low | (p[i % 32] >> (i / 32) & 1) << 2);
      }
      row->d[static_cast<size_t>(b)] = Load16(p + 108);
    } else if (t == "q4_k" || t == "q5_k") {
      for (int j = 0; j < 8; ++j) ScaleAndMin(p + 4, j, scale + j, z + j);
      const uint8_t* high = p + 16;
      const uint8_t* q = p + (t == "q5_k" ? 48 : 16);
      for (int i = 0; i < 256; ++i) {
        const uint8_t byte = q[i / 64 * 32 + i % 32];
        c[i] = i % 64 < 32 ? byte & 15 : byte >> 4;
        if (t == "q5_k") c[i] = static_cast<uint8_t>(c[i] | (high[i % 32] >> (i / 32) & 1) << 4);
      }
      row->d[static_cast<size_t>(b)] = Load16(p);
      row->dmin[static_cast<size_t>(b)] = Load16(p + 2);
    } else if (t == "q6_k") {
      std::memcpy(scale, p + 192, 16);
      for (int i = 0; i < 256; ++i) {
        const int h = i / 128, r = i % 128;
        const uint8_t byte = p[h * 64 + r % 64];
        const int low = r < 64 ? byte & 15 : byte >> 4;
        c[i] = static_cast<uint8_t>(low | (p[128 + h * 32 + r % 32] >> (r / 32 * 2) & 3) << 4);
      }
      row->d[static_cast<size_t>(b)] = Load16(p + 208);
    } else {  // iq4_xs
      const int high = Load16(p + 2);
      for (int j = 0; j < 8; ++j) {
        const int low = p[4 + j / 2] >> (j % 2 * 4) & 15;
        scale[j] = static_cast<int8_t>((low | (high >> (2 * j) & 3) << 4) - 32);
      }
      for (int i = 0; i < 256; ++i) {
        const uint8_t byte = p[8 + i / 32 * 16 + i % 16];
        c[i] = i % 32 < 16 ? byte & 15 : byte >> 4;
      }
      row->d[static_cast<size_t>(b)] = Load16(p);
    }
  }
}

void QuantisedWeight::ReadScaled(const Parts& parts, int64_t n, Row* row) const {
  const int bits = low_;
  const int64_t k = source_.k, block = source_.block_size > 0 ? source_.block_size : k;
  const int64_t blocks = (k + block - 1) / block;
  const bool nbits = source_.format == "nbits", k_first = source_.format == "qdq_kn";
  const bool is_signed = !nbits && (code_type_ == kInt8 || code_type_ == kInt4 || code_type_ == kInt2);
  const auto flip = static_cast<uint8_t>(is_signed ? 1 << (bits - 1) : 0);
  for (int64_t i = 0; i < k; ++i) {
    const int64_t at = nbits ? n * blocks * block + i : k_first ? i * source_.n + n : n * k + i;
    row->codes[static_cast<size_t>(i)] = static_cast<uint8_t>(BitsAt(parts.data, at, bits) ^ flip);
  }
  for (int64_t j = 0; j < spans_; ++j) {
    const int64_t b = std::min(j * span_ / block, blocks - 1);
    const int64_t at = per_tensor_ ? 0 : k_first ? b * source_.n + n : n * blocks + b;
    uint8_t* s = row->scales.data() + j * ScaleBytes();
    if (scale_type_ == kBFloat16) {
      const uint32_t wide = static_cast<uint32_t>(Load16(parts.scales + at * 2)) << 16;
      std::memcpy(s, &wide, 4);
    } else {
      std::memcpy(s, parts.scales + at * ScaleBytes(), static_cast<size_t>(ScaleBytes()));
    }
    if (zero_ == 1) {
      // MatMulNBits begins a byte for each row.
      const int64_t zero_at = nbits ? n * ((blocks * bits + 7) / 8) * (8 / bits) + b : at;
      row->zeros[static_cast<size_t>(j)] = static_cast<uint8_t>(BitsAt(parts.zeros, zero_at, bits) ^ flip);
    } else if (zero_ == 2) {
      float v = 0;
      if (zero_type_ == kFloat) {
        std::memcpy(&v, parts.zeros + at * 4, 4);
      } else if (zero_type_ == kBFloat16) {
        const uint32_t wide = static_cast<uint32_t>(Load16(parts.zeros + at * 2)) << 16;
        std::memcpy(&v, &wide, 4);
      } else {
        _Float16 h;
        std::memcpy(&h, parts.zeros + at * 2, 2);
        v = static_cast<float>(h);
      }
      std::memcpy(row->zeros.data() + j * 4, &v, 4);
    }
  }
}

void QuantisedWeight::Pack(const Node& node, Device& device, const ullage_region& target) const {
  uint64_t size = 0;
  const auto need = [&](size_t input, int64_t bytes, const char* what) -> const uint8_t* {
    if (input == SIZE_MAX) return nullptr;
    const uint8_t* p = node.Constant(input, &size);
    if (!p || size < static_cast<uint64_t>(bytes))
      node.Invalid(std::string("the ") + what + " of a weight have " + std::to_string(size) +
                   " bytes, expected " + std::to_string(bytes));
    return p;
  };
  const int64_t n = source_.n, k = source_.k;
  const int64_t block = source_.block_size > 0 ? source_.block_size : k, blocks = (k + block - 1) / block;
  Parts parts{};
  if (source_.format == "ggml") {
    const Gguf& g = *FindGguf(type_);
    parts.data = need(source_.data, Product({n, k / g.elements, g.bytes}), "data");
  } else {
    const bool nbits = source_.format == "nbits";
    const int64_t codes = Product({n, nbits ? blocks * block : k});
    parts.data = need(source_.data, (codes * low_ + 7) / 8, "data");
    const int64_t count = per_tensor_ ? 1 : Product({n, blocks});
    parts.scales = need(source_.scales, count * SizeOf(scale_type_), "scales");
    const int64_t packed = nbits ? n * ((blocks * low_ + 7) / 8) : (count * low_ + 7) / 8;
    parts.zeros = need(source_.zero_points, zero_ == 2 ? count * SizeOf(zero_type_) : packed, "zero points");
  }
  // About a mebibyte of rows at a time.
  const int64_t step = std::clamp<int64_t>((int64_t{1} << 20) / padded_k_, 1, n);
  struct Plane {
    int64_t at, row_bytes;
    std::vector<uint8_t> bytes;
  };
  std::vector<Plane> planes = {{0, padded_k_ * low_ / 8, {}},
                               {high_at_, padded_k_ * high_ / 8, {}},
                               {scale_at_, spans_ * ScaleBytes(), {}},
                               {zero_at_, spans_ * ZeroBytes(), {}},
                               {d_at_, scale_ == 2 ? padded_k_ / 256 * 2 : 0, {}},
                               {dmin_at_, zero_ == 4 ? padded_k_ / 256 * 2 : 0, {}}};
  Row row;
  row.scales.resize(static_cast<size_t>(spans_ * ScaleBytes()));
  row.zeros.resize(static_cast<size_t>(spans_ * ZeroBytes()));
  row.d.resize(static_cast<size_t>(padded_k_ / 256 + 1));
  row.dmin.resize(row.d.size());
  for (int64_t first = 0; first < n; first += step) {
    const int64_t count = std::min(step, n - first);
    for (Plane& p : planes) p.bytes.assign(static_cast<size_t>(count * p.row_bytes), 0);
    for (int64_t i = 0; i < count; ++i) {
      row.codes.assign(static_cast<size_t>(padded_k_), 0);
      if (source_.format == "ggml")
        ReadGguf(parts, first + i, &row);
      else
        ReadScaled(parts, first + i, &row);
      uint8_t* low = planes[0].bytes.data() + i * planes[0].row_bytes;
      uint8_t* high = planes[1].bytes.data() + i * planes[1].row_bytes;
      const int per_low = 8 / low_, mask = (1 << low_) - 1;
      for (int64_t e = 0; e < padded_k_; ++e) {
        const int code = row.codes[static_cast<size_t>(e)];
        low[e / per_low] = static_cast<uint8_t>(low[e / per_low] | (code & mask) << (e % per_low * low_));
        if (high_ > 0) {
          const int per_high = 8 / high_;
          high[e / per_high] =
              static_cast<uint8_t>(high[e / per_high] | code >> low_ << (e % per_high * high_));
        }
      }
      const auto copy = [&](size_t plane, const void* from) {
        if (planes[plane].row_bytes > 0)
          std::memcpy(planes[plane].bytes.data() + i * planes[plane].row_bytes, from,
                      static_cast<size_t>(planes[plane].row_bytes));
      };
      copy(2, row.scales.data());
      copy(3, row.zeros.data());
      copy(4, row.d.data());
      copy(5, row.dmin.data());
    }
    for (const Plane& p : planes)
      if (!p.bytes.empty())
        device.Write(target, static_cast<uint64_t>(p.at + first * p.row_bytes), p.bytes.data(),
                     p.bytes.size());
  }
}

}  // namespace ullage_opencl
