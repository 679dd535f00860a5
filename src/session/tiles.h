/// Tiles: runs of steps that work on each row by itself (products, norms, activations of an MLP, the head)
/// can run for some rows after the other, so that what lies between them is as large as a tile.
///
///     x [S, H] --- gate, up [T, I] --- act [T, I] --- down ---> y [S, H]     S / T times
#pragma once

#include <optional>
#include <vector>

#include "session/plan.h"

namespace ullage::session {

/// A step that works on each row by itself: its inputs that have rows, and its outputs.
struct RowStep {
  std::vector<graph::ValueId> inputs, outputs;
  int64_t rows = 0;  ///< most rows of any run
};
/// Nothing when the step does anything else, or when a row of its values has no size that is known. Values of
/// one such step have the same dimensions but for the last.
std::optional<RowStep> ReadRowStep(const Program& program, const shapes::GraphFacts& facts, const Step& step);

/// Bytes of one row within the facts; 0 when they are not known or no whole number.
int64_t RowBytes(const ops::ValueFacts& facts);

/// What is known of a value of `rows` rows: [1, .., rows, last dimension].
ops::ValueFacts TileFacts(const ops::ValueFacts& facts, int64_t rows);

/// Runs to tile, in order, so that the most bytes alive at one step are fewer; empty where that lowers
/// nothing. With `rows` every run that there is, in tiles of that many rows.
std::vector<Plan::Tiles> ChooseTiles(const Program& program, const shapes::GraphFacts& facts,
                                     const std::vector<graph::ValueId>& external, int threads, int64_t rows);

}  // namespace ullage::session
