// Loads any graph, shows what it takes and gives and how much memory it plans, and runs it twice at once on
// inputs filled with a ramp:
//
//     run_graph MODEL [INPUT=1x3x224x224]... [OPTION.KEY=VALUE]...
#include <ullage/session.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <thread>

namespace {

// A shape as "1x3x224x224"; false when the text is none.
bool ParseShape(const std::string& text, ullage::Shape* shape) {
  size_t at = 0;
  while (at < text.size()) {
    size_t used = 0;
    if (text[at] < '0' || text[at] > '9') return false;
    shape->push_back(std::stoll(text.substr(at), &used));
    at += used;
    if (at < text.size() && text[at++] != 'x') return false;
  }
  return true;
}

std::string ToText(const ullage::ValueInfo& info) {
  std::string text = info.name + ": " + std::string(ullage::NameOf(info.dtype)) + " [";
  for (size_t i = 0; i < info.dims.size(); ++i) {
    const ullage::DimInfo& d = info.dims[i];
    text += i ? ", " : "";
    text += d.lower == d.upper            ? std::to_string(d.upper)
            : d.upper == ullage::kNoBound ? (d.label.empty() ? "?" : d.label)
                                          : "<= " + std::to_string(d.upper);
  }
  return text + "]";
}

// Elements 0, 1, 2, 0, 1, 2… as floats or integers of four or eight bytes; zeros in other types.
ullage::Tensor Ramp(ullage::DType dtype, const ullage::Shape& shape) {
  ullage::Tensor tensor(dtype, shape);
  if (tensor.bytes() > 0) std::memset(tensor.data(), 0, tensor.bytes());
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    const auto at = static_cast<size_t>(i);
    if (dtype == ullage::DType::kFloat) tensor.as<float>()[at] = static_cast<float>(i % 3);
    if (dtype == ullage::DType::kInt32) tensor.as<int32_t>()[at] = static_cast<int32_t>(i % 3);
    if (dtype == ullage::DType::kInt64) tensor.as<int64_t>()[at] = i % 3;
  }
  return tensor;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2)
    throw ullage::Error(ullage::Code::kUsage, "run_graph MODEL [INPUT=1x3x224x224]... [KEY=VALUE]...");
  ullage::SessionOptions options;
  std::map<std::string, ullage::Shape> shapes;
  for (int i = 2; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t eq = argument.rfind('=');
    if (eq == std::string::npos)
      throw ullage::Error(ullage::Code::kUsage, "expected NAME=VALUE: " + argument);
    const std::string name = argument.substr(0, eq), value = argument.substr(eq + 1);
    ullage::Shape shape;
    if (name.find('.') == std::string::npos && ParseShape(value, &shape))
      shapes[name] = shape;
    else
      options.values[name] = value;
  }
  options.max_shapes = shapes;

  const ullage::Session session = ullage::Session::Load(argv[1], options);
  std::vector<ullage::Tensor> tensors;
  std::vector<ullage::InputTensor> inputs;
  for (const ullage::ValueInfo& in : session.inputs()) {
    std::printf("input  %s\n", ToText(in).c_str());
    ullage::Shape shape;
    for (const ullage::DimInfo& d : in.dims) shape.push_back(d.upper == ullage::kNoBound ? 1 : d.upper);
    tensors.push_back(Ramp(in.dtype, shape));
    inputs.push_back({in.name, tensors.back().data(), in.dtype, shape});
  }
  for (const ullage::ValueInfo& out : session.outputs()) std::printf("output %s\n", ToText(out).c_str());

  // A session may be run by several threads at once.
  std::vector<ullage::NamedTensor> results, other_results;
  std::thread other([&] {
    try {
      other_results = session.Run(inputs);
    } catch (const ullage::Error& error) {
      // Sessions with pre-allocated buffers take one Run at a time.
      if (error.code() != ullage::Code::kBusy) std::fprintf(stderr, "%s\n", error.what());
    }
  });
  try {
    results = session.Run(inputs);
  } catch (const ullage::Error& error) {
    if (error.code() != ullage::Code::kBusy) {
      other.join();
      throw;
    }
  }
  other.join();
  for (const ullage::NamedTensor& r : results.empty() ? other_results : results) {
    std::printf("result %s %s:", r.name.c_str(), r.tensor.shape().ToString().c_str());
    if (r.tensor.dtype() == ullage::DType::kFloat)
      for (size_t i = 0; i < r.tensor.as<float>().size() && i < 8; ++i)
        std::printf(" %g", r.tensor.as<float>()[i]);
    std::printf("\n");
  }
  for (const ullage::DeviceMemory& m : session.memory()) {
    std::printf("memory %s: planned %lld bytes, peak %lld, allocations while running %lld\n",
                m.device.c_str(), static_cast<long long>(m.planned_bytes),
                static_cast<long long>(m.peak_bytes), static_cast<long long>(m.allocations_during_run));
    for (const auto& [tag, bytes] : m.tags)
      if (bytes > 0) std::printf("  %s %lld\n", tag.c_str(), static_cast<long long>(bytes));
  }
  return 0;
} catch (const ullage::Error& error) {
  std::fprintf(stderr, "run_graph: %s\n", error.what());
  return 1;
}
