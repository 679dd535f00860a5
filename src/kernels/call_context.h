/// A KernelContext for one call of one kernel outside of a session's plan.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/kernel.h"

namespace ullage::kernels {

/// The caller fills the lists; all memory stays its own. GetScratchBuffer() is left to the derived class.
class CallContext : public KernelContext {
 public:
  struct Workspace {
    int slot = 0;
    size_t bytes = 0;
    std::byte* data = nullptr;
  };

  explicit CallContext(ThreadTeam& team) : team_(team) {}

  const TensorView* input(int i) const override { return At(inputs, i); }
  TensorView* output(int i) override { return At(outputs, i); }
  void SetOutputShape(int i, const Shape& shape) override { At(outputs, i)->shape = shape; }
  void* GetPreallocatedWorkspace(int slot, size_t* bytes = nullptr) override {
    Workspace found;
    for (const Workspace& w : workspaces)
      if (w.slot == slot) found = w;
    if (bytes) *bytes = found.bytes;
    return found.data;
  }
  const std::byte* prepacked(int index) const override { return blocks[static_cast<size_t>(index)]; }
  ThreadTeam& threads() override { return team_; }

  std::vector<TensorView*> inputs, outputs;  ///< null: left out, not wanted
  std::vector<Workspace> workspaces;
  std::vector<const std::byte*> blocks;  ///< as PlanPrepack() lists them

 private:
  static TensorView* At(const std::vector<TensorView*>& views, int i) {
    return static_cast<size_t>(i) < views.size() ? views[static_cast<size_t>(i)] : nullptr;
  }
  ThreadTeam& team_;
};

}  // namespace ullage::kernels
