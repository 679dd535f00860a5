// ullage_pack FILE.csv [--time-limit SECONDS] [--capacity BYTES]: packs a problem in minimalloc's format,
// prints JSON.

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "core/error.h"
#include "memory/minimalloc_csv.h"

namespace {

using ullage::Code;
using ullage::Throw;

template <class T>
T ParseNumber(const char* option, const char* text) {
  T value{};
  const char* end = text == nullptr ? nullptr : text + std::strlen(text);
  if (text == nullptr) Throw(Code::kUsage, option, " needs a number");
  const auto [rest, error] = std::from_chars(text, end, value);
  if (error != std::errc() || rest != end || value < T{0})
    Throw(Code::kUsage, option, ": '", text, "' is no number >= 0");
  return value;
}

std::string ReadFile(const char* path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in || text.fail()) Throw(Code::kInvalidInput, "cannot read ", path);
  return std::move(text).str();
}

int Main(char** argv) {
  const char* path = nullptr;
  double time_limit = 10;
  std::optional<int64_t> capacity;
  for (++argv; *argv != nullptr; ++argv) {
    if (std::strcmp(*argv, "--time-limit") == 0) {
      time_limit = ParseNumber<double>("--time-limit", argv[1]);
      ++argv;
    } else if (std::strcmp(*argv, "--capacity") == 0) {
      capacity = ParseNumber<int64_t>("--capacity", argv[1]);
      ++argv;
    } else if (std::strcmp(*argv, "--json") == 0) {
      continue;
    } else if (path == nullptr && (*argv)[0] != '-') {
      path = *argv;
    } else {
      Throw(Code::kUsage, "unknown argument '", *argv, "'");
    }
  }
  if (path == nullptr)
    Throw(Code::kUsage, "usage: ullage_pack FILE.csv [--time-limit SECONDS] [--capacity BYTES]");
  std::puts(ullage::memory::PackCsv(ReadFile(path), time_limit, capacity).ToJson().c_str());
  return 0;
}

}  // namespace

int main(int, char** argv) {
  try {
    return Main(argv);
  } catch (const ullage::Error& error) {
    std::fprintf(stderr, "ullage_pack: %s\n", error.what());
    return ullage::ExitStatus(error.code());
  }
}
