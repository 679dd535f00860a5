/// The operator catalogue: for each operator and opset range, arity, bound rule and memory traits. One file
/// per family registers its operators; catalogue.cc is the page that lists the families.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ops/shape_context.h"

namespace ullage::ops {

using ShapeRule = void (*)(ShapeContext&);

struct OpInfo {
  std::string_view domain = {};  ///< "" is ai.onnx
  std::string_view name = {};
  /// First version of the domain for which this entry holds; the entry with the largest since <= opset is
  /// taken.
  int since = 1;
  int min_inputs = 1;
  int max_inputs = 1;   ///< -1: any number
  int max_outputs = 1;  ///< -1: any number
  ShapeRule rule = nullptr;
  /// Output 0 holds the same bytes in the same order as this input, so that it may be a view of it; -1: no.
  int view_of = -1;
  /// Bit i: output 0 may be written over input i when both have the same size in bytes and input i dies here.
  /// The kernels of every provider must then allow it.
  uint32_t in_place = 0;
  /// Bit i: the rule reads the contents of input i, so that input must be known on the host before the shape
  /// is.
  uint32_t reads_values = 0;
  /// The result depends on more than the inputs (random numbers): never folded, never merged.
  bool stateful = false;
};

/// Null when the operator is not in the catalogue at that version. An opset of 0 means the newest.
const OpInfo* FindOp(std::string_view domain, std::string_view name, int opset);
/// All entries that are built in, for docs and tests.
const std::vector<OpInfo>& AllOps();
/// Adds an operator for good; the names are copied. False, and nothing is added, when there is one of that
/// name in any version. Thread-safe; FindOp() sees it from then on.
bool AddOp(const OpInfo& op);

/// Checks arity and calls the rule; throws kUnsupported naming operator, domain and version when it is
/// unknown.
void ApplyRule(ShapeContext& context);

}  // namespace ullage::ops
