#include "core/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/checked.h"

namespace ullage {

std::shared_ptr<const MappedFile> MappedFile::Open(const std::string& path) {
  std::shared_ptr<MappedFile> file(new MappedFile);
  file->path_ = path;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) Throw(Code::kInvalidModel, "cannot open ", path, ": ", std::strerror(errno));
  struct stat info = {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    Throw(Code::kInvalidModel, path, " is not a regular file");
  }
  file->size_ = static_cast<size_t>(info.st_size);
  if (file->size_ > 0) {
    void* data = ::mmap(nullptr, file->size_, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
      const int error = errno;
      ::close(fd);
      Throw(Code::kInvalidModel, "cannot map ", path, ": ", std::strerror(error));
    }
    file->data_ = static_cast<const std::byte*>(data);
  }
  ::close(fd);
  return file;
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

namespace {
void Advise(std::span<const std::byte> range, bool whole_pages_only, int advice) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  auto first = reinterpret_cast<uintptr_t>(range.data());
  auto last = first + range.size();
  if (whole_pages_only) {
    first = AlignUp(first, page);
    last = last / page * page;
  } else {
    first = first / page * page;
  }
  if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, advice);
}
}  // namespace

void MappedFile::WillNeed(std::span<const std::byte> range) const {
  Advise(range, false, MADV_WILLNEED);
}

void MappedFile::DontNeed(std::span<const std::byte> range) const {
  Advise(range, true, MADV_DONTNEED);
}

}  // namespace ullage
