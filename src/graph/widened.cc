#include "graph/widened.h"

#include <sys/mman.h>

#include <cstring>

#include "core/error.h"
#include "core/half.h"
#include "graph/absent.h"

namespace ullage::graph {
namespace {

constexpr size_t kSmall = size_t{64} << 10;

/// Addresses without memory behind them until they are written.
class Addresses {
 public:
  explicit Addresses(size_t bytes) : bytes_(bytes) {
    data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data_ == MAP_FAILED) Throw(Code::kDoesNotFit, "no addresses for ", bytes, " bytes of weights");
  }
  ~Addresses() { munmap(data_, bytes_); }
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  void* data_;
  size_t bytes_;
};

void Convert(const Constant& source, std::byte* to) {
  const std::byte* from = source.data().data();
  for (int64_t i = 0, n = source.elements(); i < n; ++i) {
    uint16_t half;
    std::memcpy(&half, from + 2 * i, sizeof half);
    const float wide = source.dtype == DType::kFloat16 ? HalfToFloat(half) : BFloat16ToFloat(half);
    std::memcpy(to + 4 * i, &wide, sizeof wide);
  }
}

}  // namespace

bool IsHalf(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16;
}

ConstantPtr Widened(const ConstantPtr& source, bool reserve) {
  if (!IsHalf(source->dtype)) Throw(Code::kRuntime, "cannot widen a constant of ", NameOf(source->dtype));
  if (source->available() && source->size_bytes <= kSmall) {
    const NewConstant made = MakeConstant(DType::kFloat, source->shape);
    if (source->size_bytes > 0) Convert(*source, made.data);
    return made.constant;
  }
  const auto wide = MakeAbsent(DType::kFloat, source->shape, source->absent);
  // Never empty: it is no memory that somebody has anyway.
  wide->file = StrCat("float32 of ", DataKey(*source));
  if (!source->available() || !reserve) return wide;
  const auto addresses = std::make_shared<Addresses>(wide->size_bytes);
  wide->bytes = addresses->data();
  wide->owner = addresses;
  return wide;
}

bool IsFilledLater(const Constant& widened) {
  return !widened.file.empty();
}

void FillWidened(const Constant& widened, const Constant& source) {
  Convert(source, const_cast<std::byte*>(widened.bytes));
}

void DiscardWidened(const Constant& widened) {
  madvise(const_cast<std::byte*>(widened.bytes), widened.size_bytes, MADV_DONTNEED);
}

}  // namespace ullage::graph
