#include "memory/checker_order.h"

#include <algorithm>
#include <map>

#include "core/error.h"

namespace ullage::memory::internal {
namespace {

constexpr int64_t kNever = -1;

class OrderJudge {
 public:
  OrderJudge(std::span<const OrderedBuffer> buffers, const StepOrder& order, size_t max_faults)
      : buffers_(buffers), order_(order), max_faults_(max_faults) {}

  std::vector<OrderFault> Run() {
    if (!CheckInput()) return std::move(faults_);
    RunClocks();
    CheckUses();
    CheckReuse();
    return std::move(faults_);
  }

 private:
  /// The steps at which one stream first and last uses a buffer.
  struct Span {
    int32_t stream = 0;
    int64_t first = 0;
    int64_t last = 0;
  };
  struct Tenant {
    int64_t end = 0;
    int32_t buffer = kNoBuffer;
  };

  int64_t steps() const { return static_cast<int64_t>(order_.streams.size()); }
  bool IsStep(int64_t step) const { return step >= 0 && step < steps(); }
  bool Full() const { return faults_.size() >= max_faults_; }

  void Report(FaultKind kind, int32_t a, int32_t b, std::string message) {
    if (!Full()) faults_.push_back({kind, a, b, std::move(message)});
  }

  bool CheckInput() {
    // Streams get small numbers in the order in which they appear.
    std::map<int32_t, int32_t> number;
    for (int64_t s = 0; s < steps(); ++s) {
      const int32_t stream = order_.streams[s];
      if (stream < 0)
        Report(FaultKind::kBadInput, kNoBuffer, kNoBuffer, StrCat("step ", s, " has stream ", stream));
      stream_.push_back(number.emplace(stream, static_cast<int32_t>(number.size())).first->second);
    }
    streams_ = number.size();
    for (const StepOrder::Event& e : order_.events)
      if (!IsStep(e.signal) || !IsStep(e.wait) || e.signal >= e.wait)
        Report(FaultKind::kBadInput, kNoBuffer, kNoBuffer,
               StrCat("an event from step ", e.signal, " to step ", e.wait, " of ", steps()));
    for (const Use& use : order_.uses)
      if (use.buffer < 0 || static_cast<size_t>(use.buffer) >= buffers_.size() || !IsStep(use.step))
        Report(FaultKind::kBadInput, kNoBuffer, kNoBuffer,
               StrCat("step ", use.step, " of ", steps(), " uses buffer #", use.buffer));
    return faults_.empty();
  }

  int64_t& Clock(int64_t step, int32_t stream) {
    return clocks_[static_cast<size_t>(step) * streams_ + static_cast<size_t>(stream)];
  }

  // Per step and stream: the latest step of the stream that has finished for certain when the step starts.
  void RunClocks() {
    clocks_.assign(static_cast<size_t>(steps()) * streams_, kNever);
    std::vector<StepOrder::Event> events = order_.events;
    std::stable_sort(events.begin(), events.end(),
                     [](const auto& a, const auto& b) { return a.wait < b.wait; });
    std::vector<int64_t> previous(streams_, kNever);
    const auto learn = [&](int64_t step, int64_t from) {
      for (int32_t t = 0; t < static_cast<int32_t>(streams_); ++t)
        Clock(step, t) = std::max(Clock(step, t), Clock(from, t));
      int64_t& own = Clock(step, stream_[from]);
      own = std::max(own, from);
    };
    size_t e = 0;
    for (int64_t s = 0; s < steps(); ++s) {
      if (previous[stream_[s]] != kNever) learn(s, previous[stream_[s]]);
      for (; e < events.size() && events[e].wait == s; ++e) learn(s, events[e].signal);
      previous[stream_[s]] = s;
    }
  }

  bool Before(int64_t a, int64_t b) { return Clock(b, stream_[a]) >= a; }

  void CheckUses() {
    std::vector<Use> uses;
    for (const Use& use : order_.uses) {
      const OrderedBuffer& b = buffers_[use.buffer];
      if (b.owner == kNoBuffer) continue;
      uses.push_back({b.owner, use.step, use.writes});
      if (use.step < b.first || use.step >= b.last)
        Report(FaultKind::kLife, use.buffer, kNoBuffer, StrCat("used in step ", use.step));
    }
    // Within a step, reads come before writes.
    std::stable_sort(uses.begin(), uses.end(), [](const Use& a, const Use& b) {
      return a.step != b.step ? a.step < b.step : a.writes < b.writes;
    });
    spans_.resize(buffers_.size());
    std::vector<std::vector<Span>> reads(buffers_.size()), writes(buffers_.size());
    for (const Use& use : uses) {
      const auto after = [&](const std::vector<Span>& earlier) {
        for (const Span& span : earlier)
          if (span.last != use.step && !Before(span.last, use.step))
            Report(FaultKind::kUnordered, use.buffer, kNoBuffer,
                   StrCat("step ", use.step, use.writes ? " writes" : " reads",
                          " it, and nothing orders step ", span.last, " of another stream before that"));
      };
      after(writes[use.buffer]);
      if (use.writes) after(reads[use.buffer]);
      Extend(use.step, use.writes ? &writes[use.buffer] : &reads[use.buffer]);
      Extend(use.step, &spans_[use.buffer]);
    }
  }

  void Extend(int64_t step, std::vector<Span>* spans) {
    for (Span& span : *spans) {
      if (span.stream != stream_[step]) continue;
      span.last = step;
      return;
    }
    spans->push_back({stream_[step], step, step});
  }

  // Who used each byte last, while the buffers come in the order of their lives.
  void CheckReuse() {
    std::vector<int32_t> order;
    for (size_t i = 0; i < buffers_.size(); ++i)
      if (buffers_[i].owner == static_cast<int32_t>(i)) order.push_back(static_cast<int32_t>(i));
    std::stable_sort(order.begin(), order.end(),
                     [&](int32_t a, int32_t b) { return buffers_[a].first < buffers_[b].first; });
    std::map<int64_t, Tenant> tenants;  // by first byte
    for (int32_t young : order) {
      if (Full()) return;
      const auto [begin, end] = std::pair(buffers_[young].begin, buffers_[young].end);
      auto it = tenants.lower_bound(begin);
      if (it != tenants.begin() && std::prev(it)->second.end > begin) --it;
      while (it != tenants.end() && it->first < end) {
        const auto [from, tenant] = *it;
        CheckHandover(tenant.buffer, young);
        it = tenants.erase(it);
        if (from < begin) tenants[from] = {begin, tenant.buffer};
        if (tenant.end > end) tenants[end] = tenant;
      }
      tenants[begin] = {end, young};
    }
  }

  void CheckHandover(int32_t old, int32_t young) {
    for (const Span& was : spans_[old])
      for (const Span& is : spans_[young])
        if (was.last != is.first && !Before(was.last, is.first)) {
          Report(FaultKind::kUnordered, old, young,
                 StrCat("step ", is.first, " uses the bytes of the latter, and nothing orders step ",
                        was.last, ", which uses the former, before that"));
          return;
        }
  }

  std::span<const OrderedBuffer> buffers_;
  const StepOrder& order_;
  size_t max_faults_;
  std::vector<int32_t> stream_;
  size_t streams_ = 0;
  std::vector<int64_t> clocks_;
  std::vector<std::vector<Span>> spans_;  // by buffer: uses per stream
  std::vector<OrderFault> faults_;
};

}  // namespace

std::vector<OrderFault> FindOrderFaults(std::span<const OrderedBuffer> buffers, const StepOrder& order,
                                        size_t max_faults) {
  return OrderJudge(buffers, order, max_faults).Run();
}

}  // namespace ullage::memory::internal
