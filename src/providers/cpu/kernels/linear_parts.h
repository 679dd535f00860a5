/// Constant weights of products in the form that the CPU keeps, shared by the kernels that read them:
/// products, and look-ups in a table that a product reads, too.
#pragma once

#include <optional>
#include <vector>

#include "kernels/kernel.h"
#include "providers/cpu/kernels/block_weight.h"
#include "providers/cpu/quant/packed_weight.h"

namespace ullage::cpu {

/// One weight of ullage:Linear, ullage:MultiLinear or com.microsoft:MatMulNBits.
struct LinearPart {
  WeightSpec weight;
  quant::PackedLayout layout;  ///< block-quantised weights only
  int first_input = 1;  ///< data, scales, zero points, group index and bias follow each other from here
  int bias = -1;        ///< input index; -1: none

  /// The block of packed bytes that every kernel that reads this weight asks for. `replaces` are the indices
  /// of the asking node's inputs that hold data, scales and zero points, in this order.
  kernels::PrepackRequirement Requirement(std::vector<int> replaces) const;
  /// Packs the weight by the team: the source is read once, front to back, in parts of about a mebibyte whose
  /// pages are given back at once.
  void Pack(std::byte* out, ThreadTeam& team) const;
};

/// The weights of such a node. Throws kInvalidModel where attributes and inputs disagree, kUnsupported for
/// weights that are no constants.
std::vector<LinearPart> LinearPartsOf(const graph::Node& node, const graph::Graph& graph,
                                      const OptionBag* options);

/// The weight of a product in the same graph that reads the constants of `table`, if one does and its packed
/// form gives the table's rows exactly.
std::optional<LinearPart> FindSharedPart(const kernels::KernelInfo& info, const WeightSpec& table);

}  // namespace ullage::cpu
