// libFuzzer target: tensor files. The first byte chooses the form.
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/error.h"
#include "onnx/tensor_io.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ullage;
  using namespace ullage::onnx;
  if (size == 0) return 0;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  try {
    if (data[0] % 4 == 3) {
      const HostTensor tensor = ParseNpy(bytes, "fuzz");
      try {
        SerializeNpy(tensor);
      } catch (const Error&) {
      }
      SerializeTensorProto(tensor);
    } else {
      const graph::TypeKind kinds[] = {graph::TypeKind::kTensor, graph::TypeKind::kSequence,
                                       graph::TypeKind::kOptional};
      SerializeValueProto(ParseValueProto(bytes, kinds[data[0] % 4], "fuzz"));
    }
  } catch (const Error&) {
  }
  return 0;
}
