/// Tiny ONNX messages for tests, written field by field.
#pragma once

#include <unistd.h>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/read_file.h"
#include "core/temp_folder.h"
#include "graph/node_named.h"
#include "onnx/import.h"

namespace ullage::onnx::test {

using Writer = protozero::pbf_writer;

/// A message made by `fill(writer)`.
inline std::string Msg(const std::function<void(Writer&)>& fill) {
  std::string out;
  Writer w(out);
  fill(w);
  return out;
}

inline std::string TensorMsg(const std::string& name, const std::vector<int64_t>& dims, int32_t type,
                             const std::function<void(Writer&)>& data) {
  return Msg([&](Writer& w) {
    if (!dims.empty()) w.add_packed_int64(1, dims.begin(), dims.end());
    w.add_int32(2, type);
    w.add_string(8, name);
    data(w);
  });
}

inline std::string FloatTensor(const std::string& name, const std::vector<int64_t>& dims,
                               const std::vector<float>& values) {
  return TensorMsg(name, dims, 1, [&](Writer& w) {
    w.add_bytes(9, reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  });
}

inline std::string ExternalTensor(const std::string& name, const std::vector<int64_t>& dims,
                                  const std::vector<std::pair<std::string, std::string>>& entries) {
  return TensorMsg(name, dims, 1, [&](Writer& w) {
    w.add_int32(14, 1);
    for (const auto& [key, value] : entries) {
      Writer e(w, 13);
      e.add_string(1, key);
      e.add_string(2, value);
    }
  });
}

inline std::string ValueInfoMsg(const std::string& name, int32_t type = 1) {
  return Msg([&](Writer& w) {
    w.add_string(1, name);
    Writer t(w, 2);
    Writer tensor(t, 1);
    tensor.add_int32(1, type);
  });
}

inline std::string NodeMsg(const std::string& op, const std::vector<std::string>& inputs,
                           const std::vector<std::string>& outputs, const std::string& name = "",
                           const std::vector<std::string>& attributes = {}, const std::string& domain = "") {
  return Msg([&](Writer& w) {
    for (const auto& i : inputs) w.add_string(1, i);
    for (const auto& o : outputs) w.add_string(2, o);
    if (!name.empty()) w.add_string(3, name);
    w.add_string(4, op);
    for (const auto& a : attributes) w.add_message(5, a);
    if (!domain.empty()) w.add_string(7, domain);
  });
}

inline std::string GraphAttribute(const std::string& name, const std::string& graph) {
  return Msg([&](Writer& w) {
    w.add_string(1, name);
    w.add_message(6, graph);
    w.add_int32(20, 5);
  });
}

struct GraphParts {
  std::vector<std::string> nodes, initializers, inputs, outputs;
};

inline std::string GraphMsg(const GraphParts& parts) {
  return Msg([&](Writer& w) {
    for (const auto& n : parts.nodes) w.add_message(1, n);
    w.add_string(2, "g");
    for (const auto& t : parts.initializers) w.add_message(5, t);
    for (const auto& i : parts.inputs) w.add_message(11, ValueInfoMsg(i));
    for (const auto& o : parts.outputs) w.add_message(12, ValueInfoMsg(o));
  });
}

inline std::string ModelMsg(const std::string& graph, const std::vector<std::string>& functions = {}) {
  return Msg([&](Writer& w) {
    w.add_int64(1, 10);
    {
      Writer opset(w, 8);
      opset.add_string(1, "");
      opset.add_int64(2, 21);
    }
    w.add_message(7, graph);
    for (const auto& f : functions) w.add_message(25, f);
  });
}

inline std::span<const std::byte> AsBytes(std::string_view s) {
  return {reinterpret_cast<const std::byte*>(s.data()), s.size()};
}

inline std::shared_ptr<graph::Graph> Import(const std::string& bytes, const ImportOptions& options = {},
                                            const std::string& folder = "/nonexistent") {
  return ImportOnnxBytes(AsBytes(bytes), nullptr, "test.onnx", folder, options);
}

/// The Error that a call throws, as "code: message"; "" when it throws none.
inline std::string ErrorOf(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const Error& e) {
    return std::string(CodeName(e.code())) + ": " + e.message();
  }
  return "";
}

inline std::string ModelPath(const std::string& file) {
  return std::string(ULLAGE_SOURCE_DIR) + "/tests/onnx/models/" + file;
}

using ullage::test::NodeNamed;
using ullage::test::TempFolder;

}  // namespace ullage::onnx::test
