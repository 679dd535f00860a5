/// ullage:SwiGLU: act(gate) * up, with the two in separate tensors or in the halves of one; ai.onnx:SwiGLU.
#include "core/error.h"
#include "providers/cpu/dense/elementwise.h"
#include "providers/cpu/kernels/define.h"
#include "providers/cpu/kernels/families.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

class GatedKernel final : public Kernel {
 public:
  explicit GatedKernel(const KernelInfo& info) {
    const std::string act = info.node.Str("activation", "silu");
    if (act == "silu")
      op_ = dense::GateOp::kSilu;
    else if (act == "gelu")
      op_ = dense::GateOp::kGeluErf;
    else if (act == "gelu_tanh")
      op_ = dense::GateOp::kGeluTanh;
    else if (act == "relu")
      op_ = dense::GateOp::kRelu;
    else if (act == "sigmoid")
      op_ = dense::GateOp::kSigmoid;
    else
      info.Unsupported("activation ", act);
    alpha_ = info.node.Float("alpha", 1);
  }
  void Compute(KernelContext& context) const override {
    const TensorView& gate = *context.input(0);
    const TensorView* up = context.input(1);
    TensorView& y = *context.output(0);
    dense::GatedArgs args;
    args.op = op_;
    args.alpha = alpha_;
    args.cols = y.shape.rank() ? y.shape.at(-1) : 1;
    args.rows = args.cols ? y.shape.elements() / args.cols : 0;
    args.gate = {gate.data, gate.dtype};
    args.y = {y.data, y.dtype};
    args.y_pitch = args.cols;
    if (up) {
      args.up = {up->data, up->dtype};
      args.gate_pitch = args.up_pitch = args.cols;
    } else {
      args.up = {static_cast<const std::byte*>(gate.data) +
                     static_cast<size_t>(args.cols) * dense::ElementBytes(gate.dtype),
                 gate.dtype};
      args.gate_pitch = args.up_pitch = 2 * args.cols;
    }
    dense::Gated(context.threads(), args);
  }

 private:
  dense::GateOp op_ = dense::GateOp::kSilu;
  float alpha_ = 1;
};

}  // namespace

void RegisterGatedActivation(kernels::Registry& registry) {
  kernels::KernelDef def;
  def.domain = graph::kUllageDomain;
  def.op = "SwiGLU";
  def.types = {kernels::kFloats, kernels::kFloats};
  def.create = Make<GatedKernel>;
  registry.Add(def);
  def.domain = "";  // silu, in separate tensors
  registry.Add(std::move(def));
}

}  // namespace ullage::cpu
