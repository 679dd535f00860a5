#include "reference/kernel.h"

namespace ullage::reference {

QueuedKernel::QueuedKernel(plugin::SharedEntry& entry, const ullage_kernel_info& info)
    : SharedKernel(entry, info, Bytes), device_(reinterpret_cast<Device*>(info.device)) {}

QueuedKernel::QueuedKernel(std::unique_ptr<kernels::Kernel> kernel, Device& device, size_t inputs,
                           size_t outputs)
    : SharedKernel(std::move(kernel), inputs, outputs, Bytes), device_(&device) {}

void QueuedKernel::Prepack(size_t index, const ullage_region& target, ullage_stream* stream) {
  if (device_) device_->faults().Call("prepack");
  if (auto* queue = reinterpret_cast<Stream*>(stream))
    queue->Pack(kernel(), static_cast<int>(index), Bytes(target), target.bytes);
  else
    SharedKernel::Prepack(index, target, stream);
}

void QueuedKernel::Compute(const plugin::Context& context) {
  if (auto* stream = reinterpret_cast<Stream*>(context.stream())) {
    const bool waits = MustWait(context);
    stream->Compute(
        kernel(), [&](plugin::SharedCall& call) { Fill(context, waits, &call); }, waits);
    return;
  }
  if (device_) device_->faults().Call("compute");
  SharedKernel::Compute(context);
}

}  // namespace ullage::reference
