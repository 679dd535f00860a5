// libFuzzer target: the importer. Whatever the bytes are, it builds a graph that passes the verifier, or
// throws Error.
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/error.h"
#include "onnx/import.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ullage;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  for (const bool require_data : {true, false}) {
    onnx::ImportOptions options;
    options.require_data = require_data;
    options.keep_default_inputs = !require_data;
    options.max_inlined_nodes = 2000;
    try {
      const auto graph = onnx::ImportOnnxBytes(bytes, nullptr, "fuzz", "/nonexistent", options);
      graph::Verify(*graph);
      graph::Dump(*graph);
    } catch (const Error&) {
    }
  }
  return 0;
}
