/// The account of sizes that nothing bounds, where a plan is promised.
#pragma once

#include <string>
#include <vector>

#include "session/program.h"

namespace ullage::session {

struct UnboundedValue {
  std::string value;
  std::string node;                ///< empty: a graph input
  std::vector<std::string> needs;  ///< what would bound it: "dimension 0 of input x"
};

/// Graph inputs, and planned values of the program and its sub-graphs, whose bytes have no upper end.
/// `inputs` are the facts of the graph's inputs; `states` says by input whether the session holds its memory.
std::vector<UnboundedValue> FindUnbounded(const Program& program, const shapes::GraphFacts& facts,
                                          const std::vector<ops::ValueFacts>& inputs,
                                          const std::vector<bool>& states, const ops::SymbolTable& table);

/// Throws kUnsupported naming each value, its node and what would bound it; details.unbounded lists the
/// names.
[[noreturn]] void ThrowUnbounded(const std::vector<UnboundedValue>& values);

/// Bytes of the largest value within the facts, of a sequence with all that it may hold; -1 when there is no
/// bound, or none that memory could hold.
int64_t BytesUpper(const ops::ValueFacts& facts);

}  // namespace ullage::session
