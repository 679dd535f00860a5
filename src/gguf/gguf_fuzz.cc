// libFuzzer target: any bytes as a GGUF file, through everything that reads one.

#include <cstddef>
#include <cstdint>

#include "core/error.h"
#include "gguf/import.h"
#include "gguf/tokenizer_data.h"

namespace {

void Try(std::span<const std::byte> bytes, bool require_data) {
  using namespace ullage::gguf;
  std::shared_ptr<const GgufFile> file;
  try {
    file = GgufFile::Parse(bytes, nullptr, "fuzz.gguf", require_data);
  } catch (const ullage::Error&) {
    return;
  }
  try {
    ReadDescription(*file);
    ReadTokenizerData(file);
  } catch (const ullage::Error&) {
  }
  try {
    ImportOptions options;
    options.max_positions = 4;
    options.require_data = require_data;
    ImportGguf(file, options);
  } catch (const ullage::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  Try(bytes, true);
  Try(bytes, false);
  return 0;
}
