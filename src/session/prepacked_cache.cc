#include "session/prepacked_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <vector>

#include "core/checked.h"
#include "core/cpu_features.h"
#include "core/error.h"

namespace ullage::session {
namespace {

constexpr std::string_view kFormat = "ullage prepacked weights 1";
constexpr std::string_view kEnding = ".prepacked";
constexpr size_t kPage = 4096;
constexpr size_t kPart = size_t{4} << 20;  // bytes with one checksum
constexpr size_t kMostKey = size_t{64} << 20;

/// Begins the file; the key, the checksums of the parts, and, at `region_offset`, the region follow.
struct Header {
  char magic[8] = {'U', 'L', 'L', 'P', 'A', 'C', 'K', '1'};
  uint64_t key_bytes = 0;
  uint64_t region_bytes = 0;
  uint64_t region_offset = 0;
  uint64_t checksum = 0;  ///< of the other fields, the key and the checksums
};

size_t Parts(size_t bytes) {
  return CeilDiv(bytes, kPart);
}

std::span<const std::byte> BytesOf(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::vector<uint64_t> PartSums(std::span<const std::byte> region, ThreadTeam& team) {
  std::vector<uint64_t> sums(Parts(region.size()));
  team.Run(static_cast<int64_t>(sums.size()), [&](int64_t i, int) {
    const size_t first = static_cast<size_t>(i) * kPart;
    sums[static_cast<size_t>(i)] =
        HashOf(region.subspan(first, std::min(kPart, region.size() - first)), static_cast<uint64_t>(i));
  });
  return sums;
}

Header MakeHeader(const std::string& key, size_t bytes, std::span<const uint64_t> sums) {
  Header h;
  h.key_bytes = key.size();
  h.region_bytes = bytes;
  h.region_offset = AlignUp(sizeof(Header) + key.size() + sums.size_bytes(), kPage);
  const uint64_t fields[] = {h.key_bytes, h.region_bytes, h.region_offset};
  h.checksum = HashOf(std::as_bytes(sums), HashOf(BytesOf(key), HashOf(std::as_bytes(std::span(fields)))));
  return h;
}

bool WriteAll(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), std::min(bytes.size(), size_t{1} << 30));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return true;
}

std::string FeatureList() {
  const CpuFeatures& f = Cpu();
  std::string list;
  for (const bool has : {f.avx2_fma_f16c, f.avx_vnni, f.avx512_core, f.avx512_vnni, f.avx512_vbmi,
                         f.avx512_bf16, f.avx512_fp16, f.amx_int8, f.amx_bf16, f.neon, f.neon_dotprod})
    list += has ? '1' : '0';
  return list;
}

std::string StatOf(const std::string& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) return "missing";
  return StrCat(info.st_size, " ", info.st_mtim.tv_sec, ".", info.st_mtim.tv_nsec);
}

}  // namespace

std::string LayoutText(const graph::Node& node, const kernels::PrepackRequirement& requirement,
                       size_t index) {
  if (!requirement.share_key.empty()) return requirement.share_key;
  std::string text = StrCat(node.OpName(), " ", index);
  for (const auto& [name, attribute] : node.attributes) {
    text += StrCat(" ", name, "=");
    std::visit(
        [&](const auto& value) {
          using T = std::decay_t<decltype(value)>;
          if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
            text += StrCat(value);
          } else if constexpr (std::is_same_v<T, std::vector<int64_t>> ||
                               std::is_same_v<T, std::vector<float>> ||
                               std::is_same_v<T, std::vector<std::string>>) {
            for (const auto& element : value) text += StrCat(element, ",");
          } else {
            text += "?";
          }
        },
        attribute);
  }
  return text;
}

uint64_t HashOf(std::span<const std::byte> bytes, uint64_t seed) {
  constexpr uint64_t kOdd[] = {0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f, 0x165667b19e3779f9,
                               0x27d4eb2f165667c5};
  uint64_t lane[4];
  for (int i = 0; i < 4; ++i) lane[i] = seed ^ kOdd[i];
  const auto take = [&](const std::byte* p) {
    for (int i = 0; i < 4; ++i) {
      uint64_t word;
      std::memcpy(&word, p + 8 * i, sizeof word);
      lane[i] = std::rotl(lane[i] ^ word, 29) * kOdd[i];
    }
  };
  size_t at = 0;
  for (; at + 32 <= bytes.size(); at += 32) take(bytes.data() + at);
  std::byte last[32] = {};
  std::copy(bytes.begin() + static_cast<ptrdiff_t>(at), bytes.end(), last);
  take(last);
  uint64_t h = bytes.size();
  for (int i = 0; i < 4; ++i) {
    h = (h ^ lane[i]) * kOdd[0];
    h ^= h >> 32;
  }
  return h;
}

PrepackedKey::PrepackedKey() {
  // Another build may pack otherwise.
  text_ = StrCat(kFormat, "\nprogram ", StatOf("/proc/self/exe"), "\nprocessor ", FeatureList(), "\n");
}

void PrepackedKey::AddFile(const std::string& path) {
  if (path == last_file_) return;
  last_file_ = path;
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error);
  text_ += StrCat("file ", error ? path : absolute.string(), " ", StatOf(path));
  // Samples of the contents: a copy that kept its time is another file all the same.
  constexpr size_t kSamples = 64;
  try {
    const auto file = MappedFile::Open(path);
    const auto bytes = file->bytes();
    uint64_t hash = 0;
    for (size_t i = 0; i < kSamples; ++i) {
      const size_t first = bytes.size() / kSamples * i;
      hash = HashOf(bytes.subspan(first, std::min(kPage, bytes.size() - first)), hash);
    }
    text_ += StrCat(" ", hash, "\n");
  } catch (const Error&) {
    text_ += " unreadable\n";
  }
}

void PrepackedKey::AddBlock(int64_t offset, size_t bytes, std::string_view layout,
                            std::span<const graph::Constant* const> sources) {
  for (const graph::Constant* c : sources)
    if (!c->file.empty()) AddFile(c->file);
  text_ += StrCat("block ", offset, " ", bytes, " ", layout);
  for (const graph::Constant* c : sources)
    text_ += c->file.empty() ? StrCat(" memory ", c->size_bytes, " ", HashOf(c->data()))
                             : StrCat(" at ", c->file_offset, " ", c->size_bytes);
  text_ += "\n";
}

std::string PrepackedKey::PathIn(const std::string& folder) const {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string name;
  for (uint64_t seed : {uint64_t{1}, uint64_t{2}}) {
    const uint64_t hash = HashOf(BytesOf(text_), seed);
    for (int shift = 60; shift >= 0; shift -= 4) name += kDigits[hash >> shift & 15];
  }
  return (std::filesystem::path(folder) / name.append(kEnding)).string();
}

std::shared_ptr<const MappedFile> OpenPrepacked(const std::string& path, const std::string& key, size_t bytes,
                                                ThreadTeam& team, const std::byte** region) {
  std::shared_ptr<const MappedFile> file;
  try {
    file = MappedFile::Open(path);
  } catch (const Error&) {
    return nullptr;
  }
  const auto all = file->bytes();
  Header h;
  if (all.size() < sizeof h) return nullptr;
  std::memcpy(&h, all.data(), sizeof h);
  if (std::memcmp(h.magic, Header().magic, sizeof h.magic) != 0 || h.key_bytes != key.size() ||
      h.region_bytes != bytes || h.key_bytes > kMostKey)
    return nullptr;
  std::vector<uint64_t> sums(Parts(bytes));
  const size_t sums_bytes = sums.size() * sizeof(uint64_t);
  if (h.region_offset != AlignUp(sizeof h + key.size() + sums_bytes, kPage) ||
      all.size() != h.region_offset + bytes)
    return nullptr;
  if (std::memcmp(all.data() + sizeof h, key.data(), key.size()) != 0) return nullptr;
  if (!sums.empty()) std::memcpy(sums.data(), all.data() + sizeof h + key.size(), sums_bytes);
  if (MakeHeader(key, bytes, sums).checksum != h.checksum) return nullptr;
  const auto data = all.subspan(h.region_offset);
  file->WillNeed(data);
  if (PartSums(data, team) != sums) return nullptr;
  *region = data.data();
  const timespec now_and_as_it_is[] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};
  ::utimensat(AT_FDCWD, path.c_str(), now_and_as_it_is, 0);
  return file;
}

std::optional<std::string> WritePrepacked(const std::string& path, const std::string& key,
                                          std::span<const std::byte> region, ThreadTeam& team) {
  if (key.size() > kMostKey) return "the model has too many parts";
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  std::string partial = path + ".XXXXXX";
  const int fd = ::mkostemp(partial.data(), O_CLOEXEC);
  if (fd < 0) return StrCat("cannot write ", partial, ": ", std::strerror(errno));
  const auto sums = PartSums(region, team);
  const Header h = MakeHeader(key, region.size(), sums);
  const std::vector<std::byte> gap(h.region_offset - sizeof h - key.size() - sums.size() * sizeof(uint64_t));
  const bool written = WriteAll(fd, std::as_bytes(std::span(&h, 1))) && WriteAll(fd, BytesOf(key)) &&
                       WriteAll(fd, std::as_bytes(std::span(sums))) && WriteAll(fd, gap) &&
                       WriteAll(fd, region);
  const int code = errno;
  std::optional<std::string> failure;
  if (!written) failure = StrCat("cannot write ", partial, ": ", std::strerror(code));
  if (::close(fd) != 0 && !failure) failure = StrCat("cannot write ", partial, ": ", std::strerror(errno));
  if (!failure && ::rename(partial.c_str(), path.c_str()) != 0)
    failure = StrCat("cannot rename ", partial, ": ", std::strerror(errno));
  if (failure) ::unlink(partial.c_str());
  return failure;
}

void PrunePrepacked(const std::string& path, int64_t limit) {
  namespace fs = std::filesystem;
  constexpr time_t kAbandoned = 3600;
  struct File {
    fs::path path;
    timespec used;
    int64_t bytes;
  };
  std::vector<File> files;
  int64_t total = 0;
  std::error_code error;
  for (fs::directory_iterator it(fs::path(path).parent_path(), error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    const size_t ending = name.find(kEnding);
    struct stat info = {};
    if (ending == std::string::npos || ::lstat(it->path().c_str(), &info) != 0 || !S_ISREG(info.st_mode))
      continue;
    if (ending + kEnding.size() != name.size()) {
      if (info.st_mtim.tv_sec < ::time(nullptr) - kAbandoned) ::unlink(it->path().c_str());
      continue;
    }
    total += info.st_size;
    files.push_back({it->path(), info.st_atim, info.st_size});
  }
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) {
    return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
  });
  for (const File& file : files) {
    if (total <= limit) break;
    if (file.path == fs::path(path) || ::unlink(file.path.c_str()) != 0) continue;
    total -= file.bytes;
  }
}

}  // namespace ullage::session
