/// Upper bounds that a user states for graph inputs, and what a run has to keep of them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "ops/shape_context.h"

namespace ullage::shapes {

/// The largest shape of one graph input.
struct InputLimit {
  std::string input;
  std::vector<int64_t> dims;  ///< empty: a scalar
  std::string_view source;    ///< the option or flag that says so, for messages
};

/// The option session.max_shape_override: "name:[d0,d1];name2:[...]". Blanks around names, brackets and
/// numbers are ignored; "name:[]" is a scalar; "" is no override. A name may hold colons. Throws kUsage
/// naming the entry: no brackets, no colon, no name, a dimension that is no positive integer or is missing,
/// an empty entry, a name given twice.
std::vector<InputLimit> ParseMaxShapeOverride(std::string_view text);
/// The flag --shape: "NAME=1x3x640x640"; "NAME=" is a scalar. Throws kUsage.
InputLimit ParseShapeFlag(std::string_view text);
/// The flags and the option together. Throws kUsage also when an input is named twice.
std::vector<InputLimit> CollectLimits(const std::vector<std::string>& flags, std::string_view option);
/// The same with limits that come from elsewhere.
std::vector<InputLimit> JoinLimits(std::vector<InputLimit> limits, std::string_view option);

/// Checks limits against what the graph declares: each names a graph input of known rank, with that rank;
/// declared numbers are repeated; dimensions of one label get one value. Throws kUsage naming the input.
void CheckLimits(const graph::Graph& graph, std::span<const InputLimit> limits);

/// Facts of the graph's inputs: declared numbers are exact, others lie between 1 (0 where the label says that
/// it is past, or the size at hand is 0) and the limit; a dimension
/// that no limit names takes that of its label elsewhere, or, where `actual` has facts, what they say of it.
/// With `labels`, dimensions of one label are one symbol, and a label that is a sum of labels and numbers is
/// that sum: a run must then keep InputRelations. `actual` is empty, or has one entry per input.
std::vector<ops::ValueFacts> BoundedInputFacts(const graph::Graph& graph, std::span<const InputLimit> limits,
                                               std::span<const ops::ValueFacts> actual, bool labels,
                                               ops::SymbolTable& table);

/// Facts of the graph's inputs from its declarations alone: numbers are exact, all else becomes symbols
/// "<input>.<dimension>" with [0, unbounded): equal labels do not prove equal sizes.
std::vector<ops::ValueFacts> DeclaredInputFacts(const graph::Graph& graph, ops::SymbolTable& table);

/// The relations between sizes of inputs that a plan relies on: dimensions of one symbol are equal, sums are
/// those sums, and what SymbolTable::Restrict() stated. Immutable; Check() allocates nothing unless it fails.
class InputRelations {
 public:
  InputRelations() = default;
  InputRelations(const graph::Graph& graph, std::span<const ops::ValueFacts> inputs,
                 const ops::SymbolTable& table);

  /// `dim_of(input, dim)` is the size in this run. Throws kInvalidInput naming the inputs and their sizes.
  template <class DimOf>
  void Check(const DimOf& dim_of) const {
    for (const Relation& r : relations_) {
      __int128 sum = 0;
      for (const Term& t : r.terms) {
        __int128 product = t.coefficient;
        for (const Dim& d : t.factors) product *= dim_of(d.input, d.dim);
        sum += product;
      }
      if (sum >= r.lower && sum <= r.upper) continue;
      std::vector<int64_t> sizes;
      for (const Term& t : r.terms)
        for (const Dim& d : t.factors) sizes.push_back(dim_of(d.input, d.dim));
      Fail(r, sizes);
    }
  }
  bool empty() const { return relations_.empty(); }

 private:
  struct Dim {
    size_t input = 0;
    int dim = 0;
  };
  struct Term {
    int64_t coefficient = 0;
    std::vector<Dim> factors;
  };
  struct Relation {
    std::vector<Term> terms;  // their sum lies within the ends
    int64_t lower = 0, upper = 0;
  };
  [[noreturn]] void Fail(const Relation& relation, const std::vector<int64_t>& sizes) const;

  std::vector<std::string> names_;
  std::vector<Relation> relations_;
};

}  // namespace ullage::shapes
