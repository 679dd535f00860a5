#include "kernels/registry.h"

#include "kernels/lookup.h"

namespace ullage::kernels {

void Registry::Add(KernelDef def) {
  defs_.push_back(std::move(def));
}

const KernelDef* FindKernel(const Registry& registry, const KernelInfo& info, Refusal* refusal) {
  Refusal why{Refusal::Kind::kOperator, "no kernel for " + info.node.OpName()};
  for (const KernelDef& def : registry.all()) {
    if (def.op != info.node.op || def.domain != info.node.domain) continue;
    if (info.node.opset < def.since || info.node.opset > def.until) {
      why = {Refusal::Kind::kOpset,
             StrCat("no kernel for ", info.node.OpName(), " of opset ", info.node.opset)};
      continue;
    }
    bool fits = true;
    for (size_t i = 0; i < def.types.size() && fits; ++i) {
      const DType t = info.input_dtype(i);
      if (info.node.has_input(i) && !def.types[i].contains(t)) {
        why = {Refusal::Kind::kType,
               StrCat("no kernel for ", info.node.OpName(), " with type ", NameOf(t), " of input ", i)};
        fits = false;
      }
    }
    if (!fits) continue;
    if (def.refuse) {
      if (auto text = def.refuse(info)) {
        why = {Refusal::Kind::kShape, std::move(*text)};
        continue;
      }
    }
    return &def;
  }
  if (refusal) *refusal = std::move(why);
  return nullptr;
}

const KernelDef* Registry::Find(const KernelInfo& info, std::string* reason) const {
  Refusal refusal;
  const KernelDef* def = FindKernel(*this, info, &refusal);
  if (!def && reason) *reason = std::move(refusal.text);
  return def;
}

void ThrowMissing(const std::set<std::string>& reasons) {
  std::string all;
  for (const auto& reason : reasons) {
    if (all.size() > 600) {
      all += "; and more";
      break;
    }
    all += (all.empty() ? "" : "; ") + reason;
  }
  throw Error(Code::kUnsupported, all);
}

}  // namespace ullage::kernels
