#include "program_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "sources.h"

namespace ullage_opencl {
namespace {

constexpr std::string_view kMagic = "ullage opencl program 1\n";

uint64_t Hash(std::string_view text, uint64_t seed) {
  uint64_t h = 1469598103934665603ull ^ seed;
  for (char c : text) h = (h ^ static_cast<uint8_t>(c)) * 1099511628211ull;
  return h;
}

std::string Folder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value ? value : "");
  };
  if (const auto home = variable("ULLAGE_HOME"); !home.empty()) return home + "/cache/opencl";
  if (const auto cache = variable("XDG_CACHE_HOME"); !cache.empty()) return cache + "/ullage/opencl";
  if (const auto home = variable("HOME"); !home.empty()) return home + "/.cache/ullage/opencl";
  return "";
}

bool MakeFolders(const std::string& path) {
  for (size_t at = 1; at != std::string::npos;) {
    at = path.find('/', at + 1);
    const std::string part = path.substr(0, at);
    if (::mkdir(part.c_str(), 0755) != 0 && errno != EEXIST) return false;
  }
  return true;
}

std::string Key(const DeviceFacts& device, const std::string& source, const std::string& options) {
  std::ostringstream key;
  key << device.name << '\n'
      << device.vendor << '\n'
      << device.version << '\n'
      << device.driver << '\n'
      << options << '\n'
      << std::hex << Hash(source, 0) << Hash(source, 0x9e3779b97f4a7c15ull);
  return key.str();
}

std::string PathFor(const std::string& key) {
  const std::string folder = Folder();
  if (folder.empty()) return "";
  char name[40];
  std::snprintf(name, sizeof name, "/%016llx%016llx", static_cast<unsigned long long>(Hash(key, 1)),
                static_cast<unsigned long long>(Hash(key, 2)));
  return folder + name;
}

/// File: magic, key, NUL, hash of the binary, binary.
std::string ReadBinary(const std::string& path, const std::string& key) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return "";
  std::string all((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::string head = std::string(kMagic) + key + '\0';
  if (all.size() < head.size() + sizeof(uint64_t) || all.compare(0, head.size(), head) != 0) return "";
  uint64_t hash = 0;
  all.copy(reinterpret_cast<char*>(&hash), sizeof hash, head.size());
  std::string binary = all.substr(head.size() + sizeof hash);
  return Hash(binary, 3) == hash ? binary : "";
}

void WriteBinary(const std::string& path, const std::string& key, const std::string& binary) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos || !MakeFolders(path.substr(0, slash))) return;
  std::string temporary = path + ".XXXXXX";
  const int fd = ::mkstemp(temporary.data());
  if (fd < 0) return;
  const uint64_t hash = Hash(binary, 3);
  std::string all = std::string(kMagic) + key + '\0';
  all.append(reinterpret_cast<const char*>(&hash), sizeof hash);
  all += binary;
  size_t done = 0;
  while (done < all.size()) {
    const ssize_t n = ::write(fd, all.data() + done, all.size() - done);
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  const bool closed = ::close(fd) == 0;
  if (done != all.size() || !closed || ::rename(temporary.c_str(), path.c_str()) != 0)
    ::unlink(temporary.c_str());
}

std::string BinaryOf(cl_program program) {
  size_t size = 0;
  if (Cl().GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, nullptr) != CL_SUCCESS)
    return "";
  std::string binary(size, '\0');
  auto* data = reinterpret_cast<unsigned char*>(binary.data());
  if (size == 0 ||
      Cl().GetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof data, &data, nullptr) != CL_SUCCESS)
    return "";
  return binary;
}

cl_program FromBinary(cl_context context, cl_device_id device, const std::string& binary,
                      const std::string& options) {
  const auto* data = reinterpret_cast<const unsigned char*>(binary.data());
  const size_t size = binary.size();
  cl_int code = CL_SUCCESS, status = CL_SUCCESS;
  cl_program program = Cl().CreateProgramWithBinary(context, 1, &device, &size, &data, &status, &code);
  if (code != CL_SUCCESS) return nullptr;
  if (status == CL_SUCCESS &&
      Cl().BuildProgram(program, 1, &device, options.c_str(), nullptr, nullptr) == CL_SUCCESS)
    return program;
  Cl().ReleaseProgram(program);
  return nullptr;
}

}  // namespace

std::string SourceOf(std::string_view name) {
  const auto find = [](std::string_view wanted) {
    for (size_t i = 0; i < kSourceCount; ++i)
      if (kSources[i].name == wanted) return std::string(kSources[i].text);
    return std::string();
  };
  const std::string source = find(name);
  return source.empty() ? source : find("common.cl") + source;
}

cl_program BuildProgram(cl_context context, const DeviceFacts& device, const std::string& name,
                        const std::string& options, const std::string& text) {
  std::string source = SourceOf(name);
  if (source.empty()) Fail(ULLAGE_FAILED, "there is no program " + name);
  source += text;
  const std::string all = "-cl-std=CL1.2 " + options;
  const std::string key = Key(device, source, all), path = PathFor(key);
  if (!path.empty())
    if (const std::string binary = ReadBinary(path, key); !binary.empty())
      if (cl_program program = FromBinary(context, device.id, binary, all)) return program;
  const char* data = source.data();
  const size_t size = source.size();
  cl_int code = CL_SUCCESS;
  cl_program program = Cl().CreateProgramWithSource(context, 1, &data, &size, &code);
  CheckCl(code, device.name + ": program " + name);
  code = Cl().BuildProgram(program, 1, &device.id, all.c_str(), nullptr, nullptr);
  if (code != CL_SUCCESS) {
    size_t length = 0;
    Cl().GetProgramBuildInfo(program, device.id, CL_PROGRAM_BUILD_LOG, 0, nullptr, &length);
    std::string log(length, '\0');
    Cl().GetProgramBuildInfo(program, device.id, CL_PROGRAM_BUILD_LOG, length, log.data(), nullptr);
    Cl().ReleaseProgram(program);
    Fail(ULLAGE_FAILED,
         device.name + ": program " + name + " (" + all + ") does not compile: " + log.c_str());
  }
  if (!path.empty())
    if (const std::string binary = BinaryOf(program); !binary.empty()) WriteBinary(path, key, binary);
  return program;
}

}  // namespace ullage_opencl
