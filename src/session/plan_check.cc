#include "session/plan_check.h"

#include <algorithm>
#include <limits>
#include <map>

#include "core/error.h"
#include "session/tiles.h"
#include "session/unbounded.h"

namespace ullage::session {

using graph::kNone;
using graph::ValueId;

namespace {

constexpr size_t kMaxFaults = 100;

class PlanJudge {
 public:
  PlanJudge(const Program& program, const shapes::GraphFacts& facts, const std::vector<ValueId>& external,
            const Plan& plan)
      : program_(program),
        graph_(program.graph()),
        facts_(facts),
        plan_(plan),
        external_(program.value_count(), 0) {
    for (ValueId v : external) external_[static_cast<size_t>(v)] = 1;
  }

  std::vector<std::string> Run() {
    owners_.resize(program_.value_count());
    for (size_t v = 0; v < owners_.size(); ++v) owners_[v] = static_cast<ValueId>(v);
    size_t s = 0;
    const auto run_until = [&](size_t end) {
      for (; s < end && faults_.size() < kMaxFaults; ++s) RunStep(s);
    };
    for (const Plan::Tiles& tiles : plan_.tiles) {
      run_until(static_cast<size_t>(tiles.first));
      RunTiles(tiles);
      s = static_cast<size_t>(tiles.last);
    }
    run_until(program_.steps().size());
    for (ValueId v : program_.outputs()) Read(v, "the end of the run");
    return std::move(faults_);
  }

 private:
  struct Range {
    int64_t begin = 0;
    int64_t end = 0;
    bool empty() const { return begin >= end; }
    bool Meets(const Range& other) const {
      return !empty() && !other.empty() && begin < other.end && other.begin < end;
    }
  };
  /// Bytes up to `end` hold these values, all of them intact.
  struct Tenants {
    int64_t end = 0;
    std::vector<ValueId> values;
  };

  std::string Name(ValueId v) const { return program_.name(v); }
  const ops::ValueFacts& FactsOf(ValueId v) const { return facts_.of(program_.source(v)); }
  /// Devices' arenas, one far behind the other.
  static int64_t Base(int device) { return int64_t{device} << 48; }
  int64_t ArenaEnd(int device) const {
    return Base(device) + plan_.arenas[static_cast<size_t>(device)].bytes;
  }
  std::string NodeName(size_t s) const { return graph_.node(program_.steps()[s].node).name; }
  void Report(std::string fault) { faults_.push_back(std::move(fault)); }

  /// Where a value that the arena holds lies, within tiles the rows of the tile; empty for all others.
  Range Of(ValueId v) const {
    if (v == kNone || plan_.offsets[static_cast<size_t>(v)] == Plan::kNoOffset) return {};
    const int64_t at = Base(program_.device(v)) + plan_.offsets[static_cast<size_t>(v)];
    const int64_t bytes = std::max<int64_t>(BytesUpper(FactsOf(v)), 0);
    if (const auto it = rows_.find(v); it != rows_.end())
      return {at + std::min(it->second.begin, bytes), at + std::min(it->second.end, bytes)};
    return {at, at + bytes};
  }

  /// Two tiles, as large as the plan says, stand for all: the second finds what the first has left.
  void RunTiles(const Plan::Tiles& tiles) {
    const auto first = static_cast<size_t>(tiles.first), last = static_cast<size_t>(tiles.last);
    if (tiles.first < 0 || first >= last || last > program_.steps().size() || tiles.rows <= 0)
      return Report(StrCat("steps ", tiles.first, " to ", tiles.last, " are no tiles"));
    std::map<ValueId, int64_t> row_bytes;
    for (size_t s = first; s < last; ++s) {
      const auto step = ReadRowStep(program_, facts_, program_.steps()[s]);
      if (!step) return Report(StrCat("node ", NodeName(s), " does not work on rows, but is tiled"));
      for (const auto* list : {&step->inputs, &step->outputs})
        for (ValueId v : *list) row_bytes[v] = RowBytes(FactsOf(v));
    }
    for (const auto& outside : tiles.outside) {
      const auto it = row_bytes.find(outside.value);
      if (it == row_bytes.end() || it->second != outside.row_bytes)
        return Report(StrCat(Name(outside.value), " has no rows of ", outside.row_bytes, " bytes"));
    }
    tiles_ = &tiles;
    for (int64_t tile = 0; tile < 2; ++tile) {
      for (const auto& [v, bytes] : row_bytes) rows_[v] = {0, tiles.rows * bytes};
      for (const auto& outside : tiles.outside) {
        const auto it = row_bytes.find(outside.value);
        const Range rows{tile * tiles.rows * it->second,
                         tile == 0 ? tiles.rows * it->second : std::numeric_limits<int64_t>::max() / 2};
        rows_[outside.value] = rows;
        // Of a view of the same bytes: the same rows.
        const ValueId owner = owners_[static_cast<size_t>(outside.value)];
        if (BytesUpper(FactsOf(owner)) == BytesUpper(FactsOf(outside.value))) rows_[owner] = rows;
      }
      for (const auto& outside : tiles.outside) {  // of a part: all that it is a part of
        const ValueId owner = owners_[static_cast<size_t>(outside.value)];
        if (BytesUpper(FactsOf(owner)) != BytesUpper(FactsOf(outside.value))) rows_.erase(owner);
      }
      for (size_t s = first; s < last; ++s) RunStep(s);
    }
    for (const auto& outside : tiles.outside) row_bytes.erase(outside.value);
    for (const auto& [v, bytes] : row_bytes) Claim(Of(v), {});  // a tile of it: nothing for those that follow
    rows_.clear();
    tiles_ = nullptr;
  }

  void Claim(const Range& range, std::vector<ValueId> values) {
    if (range.empty()) return;
    auto it = tenants_.lower_bound(range.begin);
    if (it != tenants_.begin() && std::prev(it)->second.end > range.begin) --it;
    while (it != tenants_.end() && it->first < range.end) {
      const int64_t begin = it->first;
      Tenants old = it->second;
      it = tenants_.erase(it);
      if (begin < range.begin) tenants_[begin] = {range.begin, old.values};
      if (old.end > range.end) tenants_[range.end] = old;
    }
    tenants_[range.begin] = {range.end, std::move(values)};
  }

  /// What each part of the range holds.
  std::vector<std::pair<Range, std::vector<ValueId>>> Held(const Range& range) const {
    std::vector<std::pair<Range, std::vector<ValueId>>> parts;
    auto it = tenants_.upper_bound(range.begin);
    if (it != tenants_.begin()) --it;
    for (; it != tenants_.end() && it->first < range.end; ++it) {
      const Range part{std::max(it->first, range.begin), std::min(it->second.end, range.end)};
      if (!part.empty()) parts.emplace_back(part, it->second.values);
    }
    return parts;
  }

  bool Holds(const Range& range, ValueId v) const {
    int64_t at = range.begin;
    auto it = tenants_.upper_bound(at);
    if (it == tenants_.begin()) return range.empty();
    for (--it; at < range.end; ++it) {
      if (it == tenants_.end() || it->first > at || it->second.end <= at) return false;
      const auto& values = it->second.values;
      if (std::find(values.begin(), values.end(), v) == values.end()) return false;
      at = it->second.end;
    }
    return true;
  }

  void Read(ValueId v, const std::string& who) {
    if (v == kNone) return;
    const ValueId owner = owners_[static_cast<size_t>(v)];
    if (IsExternal(owner)) return;
    if (!Holds(Of(owner), owner)) Report(StrCat(who, " reads ", Name(v), " when its bytes do not hold it"));
  }

  bool IsExternal(ValueId v) const { return external_[static_cast<size_t>(v)] != 0; }

  void RunStep(size_t s) {
    const Step& step = program_.steps()[s];
    const std::string who =
        step.node == kNone ? "a copy for the caller" : StrCat("node ", graph_.node(step.node).name);
    std::vector<ValueId> read = step.inputs;
    const auto captures = program_.captures(step);
    read.insert(read.end(), captures.begin(), captures.end());
    for (ValueId v : read) Read(v, who);
    if (step.kind == Step::Kind::kView || step.kind == Step::Kind::kParts) {
      const ValueId source =
          step.inputs[step.kind == Step::Kind::kParts ? 0
                                                      : static_cast<size_t>(std::max(step.op->view_of, 0))];
      for (ValueId v : step.outputs)
        if (v != kNone) owners_[static_cast<size_t>(v)] = owners_[static_cast<size_t>(source)];
      return;
    }
    if (step.kind == Step::Kind::kSelect) return;

    const std::vector<Range> scratch = Scratch(s);
    for (size_t i = 0; i < scratch.size(); ++i) {
      const int device = static_cast<int>(scratch[i].begin >> 48);
      if (scratch[i].begin < 0 || scratch[i].end > ArenaEnd(device))
        Report(StrCat(who, " has a workspace outside the arena"));
      for (ValueId v : read)
        if (v != kNone && scratch[i].Meets(Of(owners_[static_cast<size_t>(v)])))
          Report(StrCat(who, " has a workspace over its input ", Name(v)));
      for (ValueId v : step.outputs)
        if (scratch[i].Meets(Of(v))) Report(StrCat(who, " has a workspace over its output ", Name(v)));
      for (size_t j = 0; j < i; ++j)
        if (scratch[i].Meets(scratch[j])) Report(StrCat(who, " has workspaces that overlap"));
    }
    for (const Range& range : scratch) Claim(range, {});
    Write(step, read, who);
  }

  std::vector<Range> Scratch(size_t s) const {
    const Step& step = program_.steps()[s];
    std::vector<Range> ranges;
    if (const auto wanted =
            step.kernel ? StepWorkspace(program_, step, facts_, plan_.threads, tiles_ ? tiles_->rows : 0)
                        : std::nullopt)
      for (const auto& r : *wanted) {
        const int device = r.on_host ? 0 : step.device;
        const Plan::Arena& arena = plan_.arenas[static_cast<size_t>(device)];
        if (const auto slot = arena.workspace.GetOffset(static_cast<int64_t>(s), r.slot_id)) {
          const int64_t at = Base(device) + arena.shift + slot->offset;
          ranges.push_back({at, at + static_cast<int64_t>(r.size_bytes)});
        }
      }
    for (const auto& buffer : plan_.step_buffers[s])
      if (buffer.offset != Plan::kNoOffset) ranges.push_back({buffer.offset, buffer.offset + buffer.bytes});
    for (size_t d = 0; d < plan_.arenas.size(); ++d) {
      Range bodies{INT64_MAX, 0};  // of several, one runs
      for (const auto& body : plan_.bodies[s])
        if (body && body->arenas[d].bytes > 0) {
          const int64_t at = Base(static_cast<int>(d)) + body->arenas[d].shift;
          bodies.begin = std::min(bodies.begin, at);
          bodies.end = std::max(bodies.end, at + body->arenas[d].bytes);
        }
      if (!bodies.empty()) ranges.push_back(bodies);
    }
    return ranges;
  }

  void Write(const Step& step, const std::vector<ValueId>& read, const std::string& who) {
    for (size_t o = 0; o < step.outputs.size(); ++o) {
      const ValueId v = step.outputs[o];
      const Range range = Of(v);
      if (range.empty()) continue;
      if (range.begin < 0 || range.end > ArenaEnd(program_.device(v)))
        Report(StrCat(who, " writes ", Name(v), " outside the arena"));
      for (size_t p = 0; p < o; ++p)
        if (range.Meets(Of(step.outputs[p])))
          Report(StrCat(who, " writes ", Name(v), " over ", Name(step.outputs[p])));
      std::vector<std::pair<Range, std::vector<ValueId>>> kept;
      for (size_t i = 0; i < read.size(); ++i) {
        const ValueId in = read[i];
        if (in == kNone) continue;
        const ValueId owner = owners_[static_cast<size_t>(in)];
        const Range from = Of(owner);
        if (!range.Meets(from) || IsExternal(owner)) continue;
        if (IsConcat(step) && PlaceInConcat(step, i) == from.begin - range.begin)
          for (auto& part : Held(from)) kept.push_back(std::move(part));
        else if (!MayWriteOver(step, o, i))
          Report(StrCat(who, " writes ", Name(v), " over its input ", Name(in)));
      }
      Claim(range, {v});
      for (auto& [from, values] : kept) {
        values.push_back(v);
        Claim(from, values);
      }
    }
  }

  /// The operator allows it, nobody else reads the input in this step, and both are the same bytes.
  bool MayWriteOver(const Step& step, size_t o, size_t i) const {
    if (!step.op || o != 0 || i >= 32 || i >= step.inputs.size() || (step.op->in_place >> i & 1) == 0)
      return false;
    const ValueId owner = owners_[static_cast<size_t>(step.inputs[i])];
    const Range from = Of(owner), to = Of(step.outputs[0]);
    if (from.begin != to.begin || from.end != to.end) return false;
    if (FactsOf(step.inputs[i]).shape.ElementsUpper() != FactsOf(step.outputs[0]).shape.ElementsUpper())
      return false;
    return std::count_if(step.inputs.begin(), step.inputs.end(), [&](ValueId v) {
             return v != kNone && owners_[static_cast<size_t>(v)] == owner;
           }) == 1;
  }

  bool IsConcat(const Step& step) const {
    return step.kind == Step::Kind::kKernel && graph_.node(step.node).Is("", "Concat");
  }

  /// Where the input lies in the result in every run; -1 when that depends on the run, or it is in pieces.
  int64_t PlaceInConcat(const Step& step, size_t input) const {
    const auto& out = FactsOf(step.outputs[0]).shape;
    const int64_t axis = graph_.node(step.node).Int("axis", 0);
    for (int d = 0; d < (axis < 0 ? axis + out.rank : axis); ++d)
      if (out[d].upper != 1 && out[d].upper != 0) return -1;
    int64_t at = 0;
    for (size_t i = 0; i < input; ++i) {
      const auto& facts = FactsOf(step.inputs[i]);
      if (!facts.shape.exact()) return -1;
      at += static_cast<int64_t>(BytesOf(facts.dtype, facts.shape.ElementsUpper()));
    }
    return at;
  }

  const Program& program_;
  const graph::Graph& graph_;
  const shapes::GraphFacts& facts_;
  const Plan& plan_;
  std::vector<uint8_t> external_;       // by value
  std::vector<ValueId> owners_;         // by value: who holds its bytes
  std::map<int64_t, Tenants> tenants_;  // by first byte
  std::map<ValueId, Range> rows_;       // within tiles: which bytes of a value
  const Plan::Tiles* tiles_ = nullptr;
  std::vector<std::string> faults_;
};

}  // namespace

std::vector<std::string> CheckPlan(const Program& program, const shapes::GraphFacts& facts,
                                   const std::vector<ValueId>& external, const Plan& plan) {
  return PlanJudge(program, facts, external, plan).Run();
}

void RequireSoundPlan(const Program& program, const shapes::GraphFacts& facts,
                      const std::vector<ValueId>& external, const Plan& plan) {
  const auto faults = CheckPlan(program, facts, external, plan);
  if (faults.empty()) return;
  std::string text = StrCat("the memory plan is unsound (", faults.size(), " faults): ");
  for (size_t i = 0; i < faults.size() && i < 3; ++i) text += StrCat(i == 0 ? "" : "; ", faults[i]);
  Throw(Code::kRuntime, text);
}

}  // namespace ullage::session
