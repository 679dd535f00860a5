/// The account of sizes that nothing bounds, where a plan is promised.
#pragma once

#include <string>
#include <vector>

#include "kernels/value_bytes.h"
#include "session/program.h"

namespace ullage::session {

struct UnboundedValue {
  std::string value;
  std::string node;                ///< empty: a graph input
  std::vector<std::string> needs;  ///< what would bound it: "dimension 0 of input x"
};

/// Graph inputs, and planned values of the program and its sub-graphs, whose bytes have no upper end.
/// `inputs` are the facts of the graph's inputs; `states` says by input whether the session holds its memory.
/// With `on_devices`, only what lies on devices other than the host, copies included: placement leaves none.
std::vector<UnboundedValue> FindUnbounded(const Program& program, const shapes::GraphFacts& facts,
                                          const std::vector<ops::ValueFacts>& inputs,
                                          const std::vector<bool>& states, const ops::SymbolTable& table,
                                          bool on_devices = false);

/// Throws kUnsupported naming each value, its node and what would bound it; details.unbounded lists the
/// names.
[[noreturn]] void ThrowUnbounded(const std::vector<UnboundedValue>& values);

using kernels::BytesUpper;

}  // namespace ullage::session
