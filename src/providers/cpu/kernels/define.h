/// The common case of a kernel's definition.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/registry.h"

namespace ullage::cpu {

/// KernelDef::create for class K.
template <class K>
std::unique_ptr<kernels::Kernel> Make(const kernels::KernelInfo& info) {
  return std::make_unique<K>(info);
}

/// Kernel class K for one operator; `types` as in KernelDef.
template <class K>
kernels::KernelDef Define(std::string_view domain, std::string_view op,
                          std::vector<kernels::TypeSet> types = {}) {
  kernels::KernelDef def;
  def.domain = domain;
  def.op = op;
  def.types = std::move(types);
  def.create = Make<K>;
  return def;
}

}  // namespace ullage::cpu
