#include "llm/generator.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "core/error.h"

namespace ullage::llm {
namespace {

using Clock = std::chrono::steady_clock;

double Since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Holds back text that may be the beginning of a stop text.
class StopFilter {
 public:
  StopFilter(const std::vector<std::string>& stops, std::string* out,
             const std::function<void(std::string_view)>& on_text)
      : stops_(stops), out_(out), on_text_(on_text) {
    pending_.reserve(4096);
  }

  /// True when a stop text is complete: what stands before it was passed on, the rest is dropped.
  bool Push(std::string_view text) {
    pending_ += text;
    for (const auto& stop : stops_) {
      if (stop.empty()) continue;
      const auto at = pending_.find(stop);
      if (at == std::string::npos) continue;
      Emit(at);
      pending_.clear();
      return true;
    }
    size_t hold = 0;
    for (const auto& stop : stops_)
      for (size_t n = std::min(pending_.size(), stop.empty() ? 0 : stop.size() - 1); n > hold; --n)
        if (pending_.compare(pending_.size() - n, n, stop, 0, n) == 0) hold = n;
    Emit(pending_.size() - hold);
    return false;
  }
  void Finish() { Emit(pending_.size()); }

 private:
  void Emit(size_t count) {
    if (count == 0) return;
    out_->append(pending_, 0, count);
    if (on_text_) on_text_(std::string_view(pending_).substr(0, count));
    pending_.erase(0, count);
  }

  const std::vector<std::string>& stops_;
  std::string* out_;
  const std::function<void(std::string_view)>& on_text_;
  std::string pending_;
};

}  // namespace

Generator::Generator(Decoder& decoder, std::shared_ptr<const Tokenizer> tokenizer,
                     std::vector<int32_t> stop_ids)
    : decoder_(decoder), tokenizer_(std::move(tokenizer)), stop_ids_(std::move(stop_ids)) {
  history_.reserve(static_cast<size_t>(decoder.context()) + 1);
}

Generation Generator::Generate(std::span<const int32_t> prompt, const GenerateOptions& options,
                               const std::function<void(std::string_view)>& on_text,
                               const std::atomic<bool>* stop) {
  if (prompt.empty()) Throw(Code::kInvalidInput, "the prompt is empty");
  const auto length = static_cast<int64_t>(prompt.size());
  if (length > decoder_.context())
    Throw(Code::kInvalidInput, "the prompt has ", length, " tokens, more than the context of ",
          decoder_.context());
  Generation g;
  g.prompt_tokens = length;
  const auto start = Clock::now();
  // The last token of the prompt is always run, for its logits.
  const auto& cached = decoder_.tokens();
  int64_t common = 0;
  while (common < length - 1 && common < static_cast<int64_t>(cached.size()) &&
         cached[static_cast<size_t>(common)] == prompt[static_cast<size_t>(common)])
    ++common;
  common = decoder_.Rewind(common);
  g.prefilled_tokens = length - common;
  Sampler sampler(options.sampling, decoder_.vocabulary());
  const int64_t room = decoder_.context() - length + 1;  // the last token need not be run
  const int64_t most = options.max_tokens < 0 ? room : std::min(options.max_tokens, room);
  g.token_ids.reserve(static_cast<size_t>(std::max<int64_t>(most, 0)));
  g.text.reserve(static_cast<size_t>(std::max<int64_t>(most, 0)) * 16 + 256);
  history_.assign(prompt.begin(), prompt.end());
  std::optional<StreamDecoder> stream;
  if (tokenizer_) stream.emplace(tokenizer_, true);
  StopFilter filter(options.stop_texts, &g.text, on_text);
  g.finish_reason = "length";
  try {
    decoder_.Feed(prompt.subspan(static_cast<size_t>(common)), stop);
    g.prefill_s = Since(start);
    Clock::time_point first_token = Clock::now();
    while (static_cast<int64_t>(g.token_ids.size()) < most) {
      if (stop && stop->load(std::memory_order_relaxed)) throw Error(Code::kInterrupted, "interrupted");
      const int32_t id = sampler.Sample(decoder_.logits(), history_);
      g.token_ids.push_back(id);
      history_.push_back(id);
      if (g.token_ids.size() == 1) {
        g.first_token_s = Since(start);
        first_token = Clock::now();
      }
      if (std::find(stop_ids_.begin(), stop_ids_.end(), id) != stop_ids_.end()) {
        g.finish_reason = "stop";
        break;
      }
      if (stream && filter.Push(stream->Push(id))) {
        g.finish_reason = "stop";
        g.decode_s = Since(first_token);
        return g;
      }
      if (static_cast<int64_t>(g.token_ids.size()) < most) decoder_.Feed({&id, 1}, stop);
    }
    g.decode_s = Since(first_token);
  } catch (const Error& error) {
    if (error.code() != Code::kInterrupted) throw;
    g.finish_reason = "interrupted";
  }
  if (stream) filter.Push(stream->Finish());
  filter.Finish();
  return g;
}

}  // namespace ullage::llm
