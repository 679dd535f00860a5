/// Constants that devices read in float32 in place of a half type, while they are loaded.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "core/checked.h"
#include "graph/widened.h"
#include "placement/casts.h"

namespace ullage::session {

/// Which of a program's constants have no bytes until they are converted (graph/widened.h). Their memory is
/// the host's, for one copy or one packed block at a time, and planned as such.
class WidenedWeights {
 public:
  WidenedWeights() = default;
  explicit WidenedWeights(const placement::Casts& casts) {
    for (const auto& weight : casts.weights)
      if (graph::IsFilledLater(*weight.wide)) sources_[weight.wide.get()] = weight.source;
  }
  bool has(const graph::Constant* c) const { return sources_.count(c) > 0; }
  bool has_any(std::span<const graph::Constant* const> all) const {
    return std::any_of(all.begin(), all.end(), [this](const auto* c) { return has(c); });
  }
  /// They will be wanted at the same time.
  void Plan(std::span<const graph::Constant* const> together) {
    int64_t bytes = 0;
    for (const auto* c : std::set(together.begin(), together.end()))
      if (has(c)) bytes = CheckedAdd(bytes, static_cast<int64_t>(c->size_bytes), "weights in float32");
    staging_ = std::max(staging_, bytes);
  }
  /// The host reads it in every run.
  void Keep(const graph::Constant* c) {
    if (has(c)) kept_.insert(c);
  }
  void FillKept() const {
    for (const auto* c : kept_) graph::FillWidened(*c, *sources_.at(c));
  }
  /// Most bytes at once while loading, but for what is kept.
  int64_t staging() const { return staging_; }
  /// Has the bytes of those constants there while fn runs.
  template <class Fn>
  void With(std::span<const graph::Constant* const> constants, const Fn& fn) const {
    std::set<const graph::Constant*> filled;
    for (const auto* c : constants)
      if (has(c) && !kept_.count(c) && filled.insert(c).second) graph::FillWidened(*c, *sources_.at(c));
    fn();
    for (const auto* c : filled) graph::DiscardWidened(*c);
  }

 private:
  std::map<const graph::Constant*, graph::ConstantPtr> sources_;
  std::set<const graph::Constant*> kept_;
  int64_t staging_ = 0;
};

}  // namespace ullage::session
