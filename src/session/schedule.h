/// The order of steps: where a graph branches, which branch runs first decides how many bytes are alive at
/// once.
#pragma once

#include <cstdint>
#include <vector>

namespace ullage::session {

/// Steps in the order of the model (every step after those it depends on), and the blocks of memory that they
/// make and read. Views count for the blocks that hold their bytes.
struct OrderProblem {
  struct Step {
    std::vector<int32_t> after;   ///< steps that must have run, each smaller than this one's index
    std::vector<int32_t> reads;   ///< blocks, each once; none of `writes`
    std::vector<int32_t> writes;  ///< blocks that begin here
    std::vector<int32_t> over;    ///< of `reads`: where writes[0] may lie if nobody needs that any more
    int64_t scratch = 0;          ///< bytes during this step only
  };
  struct Block {
    int64_t bytes = 0;
    bool kept = false;  ///< alive after the last step
  };
  std::vector<Step> steps;
  std::vector<Block> blocks;  ///< each begins at exactly one step
};

/// Max over the steps of the bytes alive, when the steps run in this order.
int64_t OrderPeak(const OrderProblem& problem, const std::vector<int32_t>& order);

/// An order with a low peak; the model's own (0, 1, 2, ...) when none with a lower peak is found. Steps that
/// every other step precedes or follows cut the problem in parts; of those only the ones that hold the peak
/// are searched: depth-first orders, then all orders of the part's steps, or, where these are too many, the
/// most promising ones. Deterministic.
std::vector<int32_t> LowPeakOrder(const OrderProblem& problem);

}  // namespace ullage::session
