#include "kernels/registry.h"

namespace ullage::kernels {

void Registry::Add(KernelDef def) {
  defs_.push_back(std::move(def));
}

const KernelDef* Registry::Find(const KernelInfo& info, std::string* reason) const {
  std::string why = "no kernel for " + info.node.OpName();
  for (const KernelDef& def : defs_) {
    if (def.op != info.node.op || def.domain != info.node.domain) continue;
    if (info.node.opset < def.since || info.node.opset > def.until) {
      why = StrCat("no kernel for ", info.node.OpName(), " of opset ", info.node.opset);
      continue;
    }
    bool fits = true;
    for (size_t i = 0; i < def.types.size() && fits; ++i) {
      const DType t = info.input_dtype(i);
      if (info.node.has_input(i) && !def.types[i].contains(t)) {
        why = StrCat("no kernel for ", info.node.OpName(), " with type ", NameOf(t), " of input ", i);
        fits = false;
      }
    }
    if (!fits) continue;
    if (def.refuse) {
      if (auto refusal = def.refuse(info)) {
        why = std::move(*refusal);
        continue;
      }
    }
    return &def;
  }
  if (reason) *reason = std::move(why);
  return nullptr;
}

}  // namespace ullage::kernels
