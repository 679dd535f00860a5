/// What plugins see of nodes, graphs and options: the host's side of the ABI's read-only objects.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/options.h"
#include "kernels/kernel.h"
#include "providers/provider.h"
#include "ullage/plugin/abi.h"

namespace ullage::plugin_host {

/// Ends of a shape's dimensions, as the ABI hands them out.
struct Ends {
  std::array<int64_t, kMaxRank> lower, upper;
};
/// Absent when `facts` is null. The result points into `ends`.
ullage_value_info DescribeValue(const ops::ValueFacts* facts, bool constant, Ends* ends);

/// Infos of all inputs or outputs, for one call into a plugin.
class ValueInfos {
 public:
  /// `present(i)`: whether value i is there; `constant(i)`: whether it is a constant.
  template <class Present, class Constant>
  ValueInfos(std::span<const ops::ValueFacts> facts, const Present& present, const Constant& constant)
      : ends_(facts.size()) {
    for (size_t i = 0; i < facts.size(); ++i)
      infos_.push_back(DescribeValue(present(i) ? &facts[i] : nullptr, constant(i), &ends_[i]));
  }
  ValueInfos(const ValueInfos&) = delete;
  ValueInfos& operator=(const ValueInfos&) = delete;
  const ullage_value_info* data() const { return infos_.data(); }
  size_t size() const { return infos_.size(); }
  const ullage_value_info& operator[](size_t i) const { return infos_[i]; }

 private:
  std::vector<Ends> ends_;
  std::vector<ullage_value_info> infos_;
};

}  // namespace ullage::plugin_host

/// Read-only, thread-safe.
struct ullage_node {
  explicit ullage_node(const ullage::graph::Node& n) : node(n) {}
  virtual ~ullage_node() = default;
  ullage_node(const ullage_node&) = delete;
  ullage_node& operator=(const ullage_node&) = delete;

  /// Beyond the last one: absent.
  virtual void Input(size_t i, ullage_value_info* out) const = 0;
  virtual void Output(size_t i, ullage_value_info* out) const = 0;
  /// Null when input i is none.
  virtual const ullage::graph::Constant* Constant(size_t i) const = 0;

  const ullage::graph::Node& node;
};

/// The session's options, resolved. Thread-safe.
struct ullage_options {
  explicit ullage_options(const ullage::OptionBag& bag) : bag_(bag) {}
  /// Null for an unknown key; lives as long as this object.
  const char* Get(const char* key) const;

 private:
  ullage::OptionBag bag_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::string, std::less<>> texts_;
};

namespace ullage::plugin_host {

/// The node that a kernel is looked up or made for. Keeps its constants alive.
class KernelNode final : public ullage_node {
 public:
  explicit KernelNode(const kernels::KernelInfo& info);

  void Input(size_t i, ullage_value_info* out) const override;
  void Output(size_t i, ullage_value_info* out) const override;
  const graph::Constant* Constant(size_t i) const override;

  const graph::Graph* graph() const { return graph_; }

 private:
  const graph::Graph* graph_;
  std::vector<graph::ConstantPtr> constants_;
  ValueInfos inputs_, outputs_;
};

}  // namespace ullage::plugin_host

/// Nodes that are offered, or a group to compile. Read-only, thread-safe.
struct ullage_graph {
  explicit ullage_graph(std::span<const ullage::kernels::KernelInfo> infos,
                        const ullage::providers::Group& group = {});

  std::vector<std::unique_ptr<ullage::plugin_host::KernelNode>> nodes;
  /// Of a value: the node that makes it, and as which output.
  std::map<std::pair<const ullage::graph::Graph*, ullage::graph::ValueId>, std::pair<size_t, size_t>>
      producers;
  /// Of a group: places of values among the kernel's inputs and outputs.
  std::map<ullage::graph::ValueId, size_t> inputs, outputs;
  /// Null when the kernel's input i is none.
  const ullage::graph::Constant* Constant(size_t i) const {
    return i < constants.size() ? constants[i] : nullptr;
  }
  std::vector<const ullage::graph::Constant*> constants;  ///< of the kernel's inputs; the nodes keep them
};
