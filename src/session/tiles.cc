#include "session/tiles.h"

#include <algorithm>
#include <map>

#include "session/unbounded.h"
#include "shapes/rows.h"

namespace ullage::session {

using graph::kNone;
using graph::ValueId;

namespace {

constexpr int64_t kTileRows[] = {256, 128, 64};  // fewer rows only where they save more than kWorthwhile
constexpr double kWorthwhile = 0.03;
constexpr int32_t kMaxRun = 32;  // steps: all parts of a run are tried

/// Bytes that begin and end with steps; results over inputs that die are one block with them.
struct Block {
  int64_t bytes = 0, first = 0, last = 0;
  std::vector<int32_t> users;  // steps, in order
  bool rows = true;            // made by steps that work on each row by itself, and not read as anything else
};

/// A row of steps that all work on each row of the same rows.
struct Run {
  int32_t first = 0, last = 0;
  int64_t rows = 0;
};

class Chooser {
 public:
  Chooser(const Program& program, const shapes::GraphFacts& facts, const std::vector<ValueId>& external,
          int threads)
      : program_(program), facts_(facts), threads_(threads), external_(program.value_count(), 0) {
    for (ValueId v : external) external_[static_cast<size_t>(v)] = 1;
    for (const Step& step : program.steps()) {
      steps_.push_back(ReadRowStep(program, facts, step));
      if (steps_.back())
        for (ValueId v : steps_.back()->outputs)
          if (external_[static_cast<size_t>(v)]) steps_.back().reset();
    }
  }

  std::vector<Plan::Tiles> Choose(int64_t rows) {
    FindRuns();
    if (runs_.empty()) return {};
    if (rows > 0) {
      std::vector<Plan::Tiles> all;
      for (const Run& run : runs_)
        if (run.rows > rows) all.push_back(Describe(run, rows));
      return Possible(std::move(all));
    }
    FindBlocks();
    std::vector<Run> best;
    int64_t least = Height({}), most = 0, best_rows = 0;
    for (const Run& run : runs_) most = std::max(most, run.rows);
    for (int64_t r : kTileRows) {
      if (r >= most) continue;
      int64_t height = 0;
      std::vector<Run> chosen = Lower(r, &height);
      const double limit = static_cast<double>(least) * (best.empty() ? 1 : 1 - kWorthwhile);
      if (static_cast<double>(height) >= limit) continue;
      least = height;
      best = std::move(chosen);
      best_rows = r;
    }
    std::sort(best.begin(), best.end(), [](const Run& a, const Run& b) { return a.first < b.first; });
    std::vector<Plan::Tiles> tiles;
    for (const Run& run : best) tiles.push_back(Describe(run, best_rows));
    return Possible(std::move(tiles));
  }

 private:
  static std::vector<Plan::Tiles> Possible(std::vector<Plan::Tiles> tiles) {
    std::erase_if(tiles, [](const Plan::Tiles& t) { return t.outside.size() > Plan::kMaxOutside; });
    return tiles;
  }

  const ops::ValueFacts& FactsOf(ValueId v) const { return facts_.of(program_.source(v)); }
  const Step& StepAt(int32_t s) const { return program_.steps()[static_cast<size_t>(s)]; }
  int32_t count() const { return static_cast<int32_t>(steps_.size()); }

  void FindRuns() {
    for (int32_t s = 0; s < count();) {
      if (!steps_[static_cast<size_t>(s)]) {
        ++s;
        continue;
      }
      Run run{s, s + 1, steps_[static_cast<size_t>(s)]->rows};
      while (run.last < count() && run.last - run.first < kMaxRun && SameRows(run.first, run.last))
        ++run.last;
      s = run.last;
      if (run.last - run.first > 1) runs_.push_back(run);
    }
  }

  bool SameRows(int32_t a, int32_t b) const {
    const auto& other = steps_[static_cast<size_t>(b)];
    if (!other) return false;
    const auto& x = FactsOf(steps_[static_cast<size_t>(a)]->inputs[0]).shape;
    const auto& y = FactsOf(other->inputs[0]).shape;
    bool same = x.rank == y.rank;
    for (int d = 0; same && d + 1 < x.rank; ++d) same = ops::Same(x[d], y[d]);
    return same;
  }

  void FindBlocks() {
    const std::vector<int64_t> last = LastUses(program_);
    block_of_.assign(external_.size(), -1);
    const auto use = [&](ValueId v, int32_t s) {
      if (v == kNone) return;
      const int32_t b = block_of_[static_cast<size_t>(program_.root(v))];
      if (b < 0) return;
      Block& block = blocks_[static_cast<size_t>(b)];
      if (block.users.empty() || block.users.back() != s) block.users.push_back(s);
      const auto& row = steps_[static_cast<size_t>(s)];
      if (!row || std::find(row->inputs.begin(), row->inputs.end(), v) == row->inputs.end())
        block.rows = false;
    };
    for (int32_t s = 0; s < count(); ++s) {
      const Step& step = StepAt(s);
      for (ValueId v : step.inputs) use(v, s);
      for (ValueId v : program_.captures(step)) use(v, s);
      for (size_t o = 0; o < step.outputs.size(); ++o) {
        const ValueId v = step.outputs[o];
        if (v == kNone || program_.place(v) != Place::kPlanned || external_[static_cast<size_t>(v)]) continue;
        int32_t& b = block_of_[static_cast<size_t>(v)];
        for (size_t i = 0; o == 0 && b < 0 && i < step.inputs.size(); ++i)
          if (MayTakeOver(program_, facts_, step, i) &&
              last[static_cast<size_t>(program_.root(step.inputs[i]))] == s + 1)
            b = block_of_[static_cast<size_t>(program_.root(step.inputs[i]))];
        if (b < 0) {
          b = static_cast<int32_t>(blocks_.size());
          blocks_.push_back({std::max<int64_t>(BytesUpper(FactsOf(v)), 0), s, 0, {}, true});
        }
        Block& block = blocks_[static_cast<size_t>(b)];
        block.last = last[static_cast<size_t>(v)];
        if (block.users.empty() || block.users.back() != s) block.users.push_back(s);
        if (!steps_[static_cast<size_t>(s)]) block.rows = false;
      }
    }
    for (int32_t s = 0; s < count(); ++s) scratch_.push_back(Scratch(s, 0));
  }

  /// Of the step when it runs for that many rows; 0: all.
  int64_t Scratch(int32_t s, int64_t rows) {
    const auto [it, fresh] = scratches_.try_emplace({s, rows}, 0);
    if (!fresh) return it->second;
    if (StepAt(s).kernel)
      if (const auto slots = StepWorkspace(program_, StepAt(s), facts_, threads_, rows))
        for (const auto& slot : *slots) it->second += static_cast<int64_t>(slot.size_bytes);
    return it->second;
  }

  struct Life {
    int64_t bytes, first, last;
  };
  /// Of a block while the run is tiled.
  static Life LifeIn(const Block& block, const Run& run, int64_t rows) {
    if (block.rows && block.first >= run.first && block.last <= run.last)
      return {block.bytes / run.rows * rows, block.first, block.last};
    const auto used = std::lower_bound(block.users.begin(), block.users.end(), run.first);
    if (used == block.users.end() || *used >= run.last) return {block.bytes, block.first, block.last};
    Life life{block.bytes, block.first, block.last};
    if (life.first >= run.first) life.first = run.first;
    if (life.last < run.last) life.last = run.last;
    return life;
  }

  /// Bytes alive by step when these runs are tiled.
  std::vector<int64_t> Heights(const std::vector<Run>& tiled, int64_t rows) {
    std::vector<int64_t> change(static_cast<size_t>(count()) + 1, 0), heights = scratch_;
    for (const Block& block : blocks_) {
      Life life{block.bytes, block.first, block.last};
      for (const Run& run : tiled)
        if (block.first < run.last && block.last > run.first) {
          const Life in = LifeIn(block, run, rows);
          life = {in.bytes, std::min(life.first, in.first), std::max(life.last, in.last)};
        }
      change[static_cast<size_t>(life.first)] += life.bytes;
      change[static_cast<size_t>(std::min<int64_t>(life.last, count()))] -= life.bytes;
    }
    for (const Run& run : tiled)
      for (int32_t s = run.first; s < run.last; ++s) heights[static_cast<size_t>(s)] = Scratch(s, rows);
    int64_t live = 0;
    for (int32_t s = 0; s < count(); ++s) {
      live += change[static_cast<size_t>(s)];
      heights[static_cast<size_t>(s)] += live;
    }
    return heights;
  }
  int64_t Height(const std::vector<Run>& tiled) {
    const auto heights = Heights(tiled, 0);
    return *std::max_element(heights.begin(), heights.end());
  }

  /// Tiles the highest run, then the one that is the highest then, until one cannot be lowered.
  std::vector<Run> Lower(int64_t rows, int64_t* height) {
    std::vector<Run> tiled;
    std::vector<int64_t> heights = Heights({}, 0);
    std::vector<uint8_t> seen(runs_.size(), 0);
    while (true) {
      const auto top = std::max_element(heights.begin(), heights.end());
      *height = *top;
      const auto at = static_cast<int32_t>(top - heights.begin());
      const auto run = std::find_if(runs_.begin(), runs_.end(),
                                    [&](const Run& r) { return r.first <= at && at < r.last; });
      if (run == runs_.end() || run->rows <= rows || seen[static_cast<size_t>(run - runs_.begin())]) break;
      seen[static_cast<size_t>(run - runs_.begin())] = 1;
      std::vector<int64_t> lower;
      const Run part = BestPart(*run, rows, heights, &lower);
      if (part.first == part.last) break;
      std::copy(lower.begin(), lower.end(), heights.begin() + run->first);
      tiled.push_back(part);
    }
    return tiled;
  }

  /// The part of the run that brings its highest step lowest, the shortest of several; empty for none.
  Run BestPart(const Run& run, int64_t rows, const std::vector<int64_t>& heights,
               std::vector<int64_t>* lower) {
    std::vector<const Block*> blocks;
    for (const Block& block : blocks_)
      if (block.first < run.last && block.last > run.first) blocks.push_back(&block);
    Run best{0, 0, run.rows};
    int64_t least = *std::max_element(heights.begin() + run.first, heights.begin() + run.last);
    std::vector<int64_t> trial(static_cast<size_t>(run.last - run.first));
    for (int32_t length = 2; length <= run.last - run.first; ++length)
      for (int32_t first = run.first; first + length <= run.last; ++first) {
        const Run part{first, first + length, run.rows};
        for (int32_t s = run.first; s < run.last; ++s)
          trial[static_cast<size_t>(s - run.first)] =
              s >= part.first && s < part.last ? Scratch(s, rows) : scratch_[static_cast<size_t>(s)];
        for (const Block* block : blocks) {
          const Life life = LifeIn(*block, part, rows);
          const int64_t end = std::min<int64_t>(life.last, run.last);
          for (int64_t s = std::max<int64_t>(life.first, run.first); s < end; ++s)
            trial[static_cast<size_t>(s - run.first)] += life.bytes;
        }
        const int64_t height = *std::max_element(trial.begin(), trial.end());
        if (height >= least) continue;
        least = height;
        best = part;
        *lower = trial;
      }
    return best;
  }

  Plan::Tiles Describe(const Run& run, int64_t rows) const {
    Plan::Tiles tiles{run.first, run.last, rows, {}};
    const auto add = [&](ValueId v, bool written) {
      const auto same = [&](const Plan::Tiles::Value& value) { return value.value == v; };
      if (std::none_of(tiles.outside.begin(), tiles.outside.end(), same))
        tiles.outside.push_back({v, RowBytes(FactsOf(v)), written});
    };
    const std::vector<int64_t> last = LastUses(program_);
    std::vector<ValueId> made;
    for (int32_t s = run.first; s < run.last; ++s) {
      for (ValueId v : steps_[static_cast<size_t>(s)]->inputs)
        if (std::find(made.begin(), made.end(), v) == made.end()) add(v, false);
      for (ValueId v : steps_[static_cast<size_t>(s)]->outputs) {
        made.push_back(v);
        if (last[static_cast<size_t>(v)] > run.last) add(v, true);
      }
    }
    return tiles;
  }

  const Program& program_;
  const shapes::GraphFacts& facts_;
  int threads_;
  std::vector<uint8_t> external_;              // by value
  std::vector<std::optional<RowStep>> steps_;  // by step
  std::vector<Run> runs_;
  std::vector<Block> blocks_;
  std::vector<int32_t> block_of_;  // by value
  std::vector<int64_t> scratch_;   // by step, of all rows
  std::map<std::pair<int32_t, int64_t>, int64_t> scratches_;
};

}  // namespace

int64_t RowBytes(const ops::ValueFacts& facts) {
  const auto& shape = facts.shape;
  if (facts.kind != graph::TypeKind::kTensor || shape.rank < 1 || !shape[shape.rank - 1].exact()) return 0;
  const int64_t bits = BitsOf(facts.dtype) * std::max<int64_t>(shape[shape.rank - 1].lower, 0);
  return BitsOf(facts.dtype) >= 8 ? bits / 8 : 0;
}

ops::ValueFacts TileFacts(const ops::ValueFacts& facts, int64_t rows) {
  ops::ValueFacts tile;
  tile.dtype = facts.dtype;
  tile.shape.rank = facts.shape.rank;
  for (int d = 0; d < facts.shape.rank; ++d) tile.shape[d] = ops::Bound::Exactly(1);
  if (tile.shape.rank > 0) tile.shape[tile.shape.rank - 1] = facts.shape[facts.shape.rank - 1];
  if (tile.shape.rank > 1) tile.shape[tile.shape.rank - 2] = ops::Bound::Between(0, rows);
  return tile;
}

std::optional<RowStep> ReadRowStep(const Program& program, const shapes::GraphFacts& facts,
                                   const Step& step) {
  if (step.kind != Step::Kind::kKernel || step.device != 0 || step.late || step.reads_values ||
      step.op->stateful)
    return {};
  const graph::Graph& graph = program.graph();
  RowStep rows;
  const auto of = [&](ValueId v) -> const ops::ValueFacts& { return facts.of(v); };
  for (size_t i : shapes::RowInputs(graph, graph.node(step.node), of)) rows.inputs.push_back(step.inputs[i]);
  if (rows.inputs.empty()) return {};
  for (ValueId v : step.outputs)
    if (v != kNone) rows.outputs.push_back(v);
  const auto& lead = facts.of(rows.inputs[0]);
  for (const auto* list : {&rows.inputs, &rows.outputs})
    for (ValueId v : *list) {
      const auto& f = facts.of(v);
      if (f.shape.rank < 2 || f.shape.rank != lead.shape.rank || RowBytes(f) <= 0 || BytesUpper(f) < 0)
        return {};
      for (int d = 0; d + 1 < f.shape.rank; ++d)
        if (!ops::Same(f.shape[d], lead.shape[d])) return {};
      if (BytesUpper(facts.of(program.root(v))) < 0) return {};
    }
  rows.rows = BytesUpper(lead) / RowBytes(lead);
  // All of them have that many rows at most.
  for (const auto* list : {&rows.inputs, &rows.outputs})
    for (ValueId v : *list) rows.rows = std::max(rows.rows, BytesUpper(facts.of(v)) / RowBytes(facts.of(v)));
  return rows;
}

std::vector<Plan::Tiles> ChooseTiles(const Program& program, const shapes::GraphFacts& facts,
                                     const std::vector<ValueId>& external, int threads, int64_t rows) {
  return Chooser(program, facts, external, threads).Choose(rows);
}

}  // namespace ullage::session
