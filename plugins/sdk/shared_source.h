/// Kernels written for the host (kernels::Kernel, as in src/providers/cpu) in a plugin: the node, the facts
/// and the options that their constructors expect, made from what the ABI shows.
#pragma once

#include <memory>
#include <vector>

#include "kernels/registry.h"
#include "ops/catalogue.h"
#include "sdk/plugin.h"

namespace ullage::plugin {

/// A graph of one node. Constants are views of the host's memory: this must not outlive the host's object.
class SharedNode {
 public:
  /// Throws Failure(UNSUPPORTED) on what the ABI does not show: sub-graphs, lists of tensors.
  explicit SharedNode(const Node& from);
  SharedNode(const SharedNode&) = delete;
  SharedNode& operator=(const SharedNode&) = delete;

  kernels::KernelInfo Info(int threads, const OptionBag* options) const {
    return {*node_, graph_, inputs_, outputs_, threads, options};
  }

 private:
  graph::Graph graph_;
  graph::Node* node_ = nullptr;
  std::vector<ops::ValueFacts> inputs_, outputs_;
};

/// What is known of a value.
ops::ValueFacts FactsOf(const ullage_value_info& info);
std::vector<ops::ValueFacts> FactsOf(Kernel::Infos infos);
/// The session's options as far as this build knows their keys.
OptionBag BagOf(const Options& options);
/// A view of a tensor whose data lie at `data`.
TensorView ViewOf(const ullage_tensor& tensor, void* data);
ullage_code CodeOf(const std::exception& error);

/// Registers a definition of the host's kind as the plugin's. The lists live as long as this.
class SharedEntry {
 public:
  /// What create makes of the entry's state.
  using CreateFn = ullage_status* (*)(void* state, const ullage_kernel_info* info, ullage_kernel** kernel);
  /// `late`: the kernel states the shape of its results itself. `def` and `options` must outlive this.
  SharedEntry(const kernels::KernelDef& def, const OptionBag& options, int threads, bool late,
              CreateFn create);
  /// For an operator that the host does not know: its bound rule, and what its result may be written over.
  /// Throws Failure(UNSUPPORTED) for what the ABI does not show: rules that read contents, random numbers.
  void BringOperator(const ops::OpInfo& op);
  void Register(ullage_registry* registry) { Check(Host().add_kernel(registry, &entry_)); }

  const kernels::KernelDef& def() const { return def_; }
  const OptionBag& options() const { return options_; }
  int threads() const { return threads_; }
  ops::ShapeRule rule() const { return rule_; }
  bool late() const { return entry_.flags & ULLAGE_KERNEL_LATE; }
  /// Of the plugin's own, for create.
  void* owner = nullptr;

 private:
  const kernels::KernelDef& def_;
  const OptionBag& options_;
  int threads_;
  ops::ShapeRule rule_ = nullptr;
  std::string domain_, op_;
  std::vector<uint64_t> types_;
  std::vector<ullage_pair> caches_, may_alias_;
  std::vector<ullage_space_kind> input_spaces_, output_spaces_;
  ullage_kernel_entry entry_;
};

}  // namespace ullage::plugin
