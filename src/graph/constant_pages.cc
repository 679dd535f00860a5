#include "graph/constant_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include "core/checked.h"

namespace ullage::graph {

namespace {

uintptr_t PageSize() {
  return static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

void ReleasePages(const Constant& constant, int64_t first, int64_t last) {
  if (constant.file.empty() || !constant.bytes) return;
  const auto base = reinterpret_cast<uintptr_t>(constant.bytes);
  const auto begin = AlignUp(base + static_cast<uintptr_t>(first), PageSize());
  const auto end = (base + static_cast<uintptr_t>(last)) / PageSize() * PageSize();
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

void WillNeedPages(const Constant& constant) {
  if (constant.file.empty() || !constant.bytes) return;
  const auto pages = PagesAround({constant.bytes, constant.size_bytes});
  ::madvise(const_cast<std::byte*>(pages.data()), pages.size(), MADV_WILLNEED);
}

std::span<const std::byte> PagesAround(std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  const auto base = reinterpret_cast<uintptr_t>(bytes.data());
  const auto begin = base / PageSize() * PageSize();
  const auto end = AlignUp(base + bytes.size(), PageSize());
  return {reinterpret_cast<const std::byte*>(begin), end - begin};
}

}  // namespace ullage::graph
