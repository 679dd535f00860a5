#include "llm/fit.h"

#include <algorithm>

#include "core/error.h"
#include "memory/allocator.h"
#include "session/largest_fitting.h"

namespace ullage::llm {

using session::LargestFitting;

namespace {

int64_t PlannedBytes(const Decoder& decoder) {
  return decoder.session().device_plan().tags.Sum();
}

std::unique_ptr<Decoder> Plan(const ModelSource& source, DecoderOptions options) {
  options.plan_only = true;
  return Decoder::Create(source, options);
}

/// A context below n that people would write.
int64_t RoundContext(int64_t n) {
  for (int64_t unit : {1024, 256, 64})
    if (n >= 4 * unit) return n / unit * unit;
  return n;
}

class RemedyFinder {
 public:
  RemedyFinder(const ModelSource& source, const DecoderOptions& options, const Decoder& base)
      : source_(source), options_(options), base_(base), limit_(*options.cpu_limit) {}

  std::vector<session::Remedy> Run() {
    Chunk();
    Context(0, "");
    CacheType();
    Threads();
    Variants();
    if (found_.empty()) ContextAndChunk();
    return std::move(found_);
  }

 private:
  /// Plans the model with the change and notes it if it fits.
  bool Offer(const ModelSource& source, const DecoderOptions& options, const std::string& change) {
    try {
      const int64_t planned = PlannedBytes(*Plan(source, options));
      if (planned > limit_) return false;
      found_.push_back({change, planned});
      return true;
    } catch (const Error&) {
      return false;  // this variant cannot run at all
    }
  }

  void Chunk() {
    int64_t chunk = base_.chunk() / 2;
    while (chunk >= kLeastChunk && Bytes(base_.context(), chunk) > limit_) chunk /= 2;
    if (chunk < kLeastChunk) return;
    DecoderOptions o = options_;
    o.chunk = chunk;
    Offer(source_, o, StrCat("--batch-chunk ", chunk));
  }

  /// With chunks of `chunk` tokens; 0: as the context asks for.
  bool Context(int64_t chunk, const std::string& more) {
    const auto bytes_of = [&](int64_t context) {
      return Bytes(context, std::min(chunk > 0 ? chunk : base_.ChunkFor(context), context));
    };
    const int64_t base = base_.context();
    int64_t n = LargestFitting(std::min(kLeastContext, base), base, bytes_of(base), limit_, bytes_of);
    // The graph may be another one for another context: planned anew, and a little less where that needs it.
    for (int tries = 0; n > 0 && tries < 3; ++tries, n = n * 7 / 8) {
      DecoderOptions o = options_;
      o.context = RoundContext(n);
      if (chunk > 0) o.chunk = chunk;
      if (Offer(source_, o, StrCat("--context ", o.context, more))) return true;
    }
    return false;
  }

  void ContextAndChunk() {
    for (int64_t chunk : {64, 16, 1}) {
      if (chunk >= base_.chunk()) continue;
      if (Context(chunk, StrCat(" --batch-chunk ", chunk))) return;
    }
  }

  void CacheType() {
    if (options_.options.Has("session.kv_type")) return;  // the user's choice
    for (const char* type : {"float16", "int8"}) {
      DecoderOptions o = options_;
      o.options.Set("session.kv_type", type);
      if (Offer(source_, o, StrCat("--kv-type ", type))) return;
    }
  }

  /// Scratch of kernels grows with the threads.
  void Threads() {
    if (base_.session().threads() == 1) return;
    DecoderOptions o = options_;
    o.threads = 1;
    Offer(source_, o, "--threads 1");
  }

  void Variants() {
    for (const std::string& variant : source_.variants) {
      try {
        if (Offer(FindModel(source_.name, variant, true), options_, "--variant " + variant)) return;
      } catch (const Error&) {
      }
    }
  }

  int64_t Bytes(int64_t context, int64_t chunk) const { return base_.Planned(context, chunk).Sum(); }

  static constexpr int64_t kLeastContext = 64;
  static constexpr int64_t kLeastChunk = 16;
  const ModelSource& source_;
  const DecoderOptions& options_;
  const Decoder& base_;
  const int64_t limit_;
  std::vector<session::Remedy> found_;
};

/// The decoder with the largest context that fits `limit`, planned; with the smallest one when none does.
std::unique_ptr<Decoder> PlanLargest(const ModelSource& source, DecoderOptions options, int64_t limit) {
  options.context = kLargestContext;
  auto widest = Plan(source, options);
  if (PlannedBytes(*widest) <= limit) return widest;
  const auto bytes_of = [&](int64_t n) { return widest->Planned(n, widest->ChunkFor(n)).Sum(); };
  const auto anew = [&](int64_t n) {
    options.context = n;
    return PlannedBytes(*Plan(source, options));
  };
  const int64_t most = widest->context(), most_bytes = PlannedBytes(*widest);
  int64_t n = std::max<int64_t>(LargestFitting(1, most, most_bytes, limit, bytes_of), 1);
  // A graph that is read for a smaller context may be another one (windowed caches, tables for long
  // contexts).
  if (const int64_t bytes = anew(n); bytes > limit)
    n = std::max<int64_t>(LargestFitting(1, n, bytes, limit, anew), 1);
  else if (n + 1 < most && anew(n + 1) <= limit)
    n = LargestFitting(n + 1, most, most_bytes, limit, anew);
  options.context = n;
  return Plan(source, options);
}

}  // namespace

std::unique_ptr<Decoder> PlanFitting(const ModelSource& source, DecoderOptions options,
                                     std::vector<session::Remedy>* remedies) {
  options.plan_only = true;
  std::unique_ptr<Decoder> decoder;
  if (options.context == kLargestContext)
    decoder = PlanLargest(source, options, options.cpu_limit.value_or(memory::AvailableHostBytes()));
  else
    decoder = Plan(source, options);
  if (options.cpu_limit && PlannedBytes(*decoder) > *options.cpu_limit && remedies) {
    if (options.context == kLargestContext) options.context = decoder->context();
    *remedies = RemedyFinder(source, options, *decoder).Run();
  }
  return decoder;
}

std::unique_ptr<Decoder> CreateFitting(const ModelSource& source, const DecoderOptions& options) {
  DecoderOptions o = options;
  if (o.cpu_limit || o.context == kLargestContext) {
    std::vector<session::Remedy> remedies;
    const auto planned = PlanFitting(source, o, &remedies);
    if (o.cpu_limit && PlannedBytes(*planned) > *o.cpu_limit)
      session::ThrowDoesNotFit(planned->session(), remedies);
    o.context = planned->context();
  }
  return Decoder::Create(source, o);
}

std::vector<session::Remedy> OtherBounds(const Decoder& planned) {
  std::vector<session::Remedy> found;
  for (int64_t part : {2, 4}) {
    const int64_t context = planned.context() / part, chunk = planned.chunk() / part;
    if (context >= 1)
      found.push_back({StrCat("--context ", context),
                       planned.Planned(context, std::min(planned.ChunkFor(context), context)).Sum()});
    if (chunk >= 1)
      found.push_back({StrCat("--batch-chunk ", chunk), planned.Planned(planned.context(), chunk).Sum()});
  }
  return found;
}

}  // namespace ullage::llm
