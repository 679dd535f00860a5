// Runs a graph on the host, which has one more operator: in_tree MODEL INPUTS OUTPUTS, folders of .npy files
// as `ullage infer` has them. Prints what the session planned for it.
#include <cstdio>

#include "centered_product.h"
#include "onnx/import.h"
#include "onnx/tensor_io.h"
#include "session/session.h"

namespace {

using namespace ullage;

/// The host with the kernels of CpuProvider() and the example's. A kernel in the tree is in that list itself.
class Host final : public providers::Provider {
 public:
  Host() {
    for (const auto& def : providers::CpuProvider().registry().all()) registry_.Add(def);
    example::RegisterCenteredProduct(registry_);
  }
  std::string_view name() const override { return "cpu"; }
  std::vector<providers::DeviceInfo> devices() const override { return providers::CpuProvider().devices(); }
  const kernels::Registry& registry() const override { return registry_; }

 private:
  kernels::Registry registry_;
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 4) Throw(Code::kUsage, "in_tree MODEL INPUTS OUTPUTS");
  ops::AddOp(example::kCenteredProduct);

  session::SessionSpec spec;
  spec.graph = onnx::ImportOnnx(argv[1]);
  spec.providers = {std::make_shared<Host>()};
  auto inputs = onnx::ReadInputsFolder(argv[2], *spec.graph);
  std::vector<TensorView> views;
  std::vector<Shape> shapes;
  for (auto& value : inputs.values) {
    views.push_back(value.tensors.at(0).view());
    shapes.push_back(views.back().shape);
  }
  spec.profiles = {session::ExactProfile("main", shapes)};
  const auto session = session::Session::Create(std::move(spec));

  const session::Execution run = session->Run(0, views);
  std::vector<onnx::HostValue> outputs;
  for (size_t i = 0; i < session->output_names().size(); ++i) {
    const TensorView& y = run.output(i);
    const auto* const bytes = static_cast<const std::byte*>(y.data);
    auto& value = outputs.emplace_back();
    value.name = session->output_names()[i];
    value.tensors.push_back({value.name, y.dtype, y.shape, {bytes, bytes + y.bytes()}, {}});
  }
  onnx::WriteOutputsFolder(argv[3], inputs.form, outputs);
  const auto& tags = session->device_plan().tags;
  std::printf("prepacked %lld bytes, workspace %lld bytes\n",
              static_cast<long long>(tags[memory::Tag::kPrepacked]),
              static_cast<long long>(tags[memory::Tag::kWorkspace]));
  return 0;
} catch (const ullage::Error& error) {
  std::fprintf(stderr, "in_tree: %s\n", error.what());
  return 1;
}
