#include "llm/tokenizer/tokenizer.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/error.h"
#include "llm/tokenizer/tokenizer_parts.h"
#include "llm/tokenizer/unicode.h"

namespace ullage::llm {
namespace {

constexpr size_t kMaxTextBytes = size_t{512} << 20;
constexpr size_t kMaxGrowth = 64;
constexpr size_t kPooledScratches = 16;
constexpr size_t kPooledBytes = size_t{4} << 20;

/// Buffers of one Encode.
struct Scratch {
  ModelScratch model;
  Pieces pieces, spare;
  std::vector<TextSection> outer, inner;

  size_t Bytes() const {
    return model.symbols.capacity() * sizeof(ModelScratch::Symbol) +
           model.heap.capacity() * sizeof(uint64_t) + model.nodes.capacity() * sizeof(ModelScratch::Node) +
           pieces.text.capacity() + spare.text.capacity() +
           (pieces.spans.capacity() + spare.spans.capacity()) * sizeof(Pieces::Span);
  }
};

class CollectSink final : public TokenSink {
 public:
  void Text(std::string_view part) override { text_ += part; }
  void EndToken() override {}
  void Finish() override {}
  std::string Take() { return std::exchange(text_, std::string()); }

 private:
  std::string text_;
};

}  // namespace

struct Tokenizer::Impl {
  explicit Impl(TokenizerParts p) : parts(std::move(p)) {
    const size_t model_limit = parts.model->tokens().id_limit();
    vocab_size = model_limit;
    std::vector<AddedToken> raw, normalized;
    std::vector<std::string> raw_patterns, normalized_patterns;
    // Of equal patterns special tokens count first.
    for (const bool special : {true, false}) {
      for (const AddedToken& token : parts.added) {
        if (token.special != special || token.content.empty() || !token.parsed) continue;
        if (token.normalized && parts.normalizer) {
          NormalText text{token.content, true, GrowthLimit(token.content.size())};
          parts.normalizer->Apply(text);
          if (text.text != token.content) normalized_content.emplace(token.id, text.text);
          normalized_patterns.push_back(text.text);
          normalized.push_back(token);
        } else if (token.normalized) {
          normalized_patterns.push_back(token.content);
          normalized.push_back(token);
        } else {
          raw_patterns.push_back(token.content);
          raw.push_back(token);
        }
      }
    }
    has_normalized = !normalized.empty();
    raw_tokens = AddedTokenFinder(std::move(raw), raw_patterns);
    normalized_tokens = AddedTokenFinder(std::move(normalized), normalized_patterns);
    for (const AddedToken& token : parts.added) {
      vocab_size = std::max(vocab_size, static_cast<size_t>(token.id) + 1);
      added_by_id.emplace(token.id, &token);
      added_by_content.emplace(token.content, token.id);
      if (token.special) special_content.insert(token.content);
    }
  }

  static size_t GrowthLimit(size_t bytes) {
    return std::min<size_t>((size_t{1} << 20) + kMaxGrowth * bytes, std::numeric_limits<uint32_t>::max());
  }

  std::optional<std::string_view> TokenOf(TokenId id) const {
    if (!added_by_id.empty()) {
      if (const auto it = added_by_id.find(id); it != added_by_id.end()) return it->second->content;
    }
    return parts.model->tokens().TextOf(id);
  }

  /// What an id decodes to: added tokens that are looked for in normalized text show as they are looked for.
  std::optional<std::string_view> DecodedTextOf(TokenId id) const {
    if (!normalized_content.empty()) {
      if (const auto it = normalized_content.find(id); it != normalized_content.end()) return it->second;
    }
    return TokenOf(id);
  }

  std::unique_ptr<Scratch> Borrow() const {
    const std::lock_guard lock(pool_mutex);
    if (pool.empty()) return std::make_unique<Scratch>();
    auto scratch = std::move(pool.back());
    pool.pop_back();
    return scratch;
  }

  void GiveBack(std::unique_ptr<Scratch> scratch) const {
    if (scratch->Bytes() > kPooledBytes) {
      PieceCache cache = std::move(scratch->model.cache);
      *scratch = Scratch();
      scratch->model.cache = std::move(cache);
    }
    const std::lock_guard lock(pool_mutex);
    if (pool.size() < kPooledScratches) pool.push_back(std::move(scratch));
  }

  void EncodeSection(std::string_view text, bool from_start, Scratch& s, std::vector<TokenId>& out) const {
    s.pieces.text.assign(text);
    s.pieces.spans.assign(1, {0, static_cast<uint32_t>(text.size())});
    s.pieces.from_start = from_start;
    s.pieces.limit = s.spare.limit = GrowthLimit(text.size());
    if (parts.pre_tokenizer) parts.pre_tokenizer->Apply(s.pieces, s.spare);
    for (const Pieces::Span& span : s.pieces.spans) parts.model->Encode(s.pieces.Text(span), s.model, out);
  }

  void EncodeText(std::string_view text, bool parse_special, std::vector<TokenId>& out) const {
    if (text.size() > kMaxTextBytes) {
      Throw(Code::kInvalidInput, "text of ", text.size(), " bytes; at most ", kMaxTextBytes,
            " can be tokenized");
    }
    std::string valid;
    if (!IsValidUtf8(text)) {
      valid = ToValidUtf8(text);
      text = valid;
    }
    std::unique_ptr<Scratch> s = Borrow();
    s->outer.clear();
    raw_tokens.Split(text, parse_special, s->outer);
    for (const TextSection& section : s->outer) {
      if (section.id != kNoToken) {
        out.push_back(section.id);
        continue;
      }
      std::string_view part = text.substr(section.begin, section.end - section.begin);
      bool from_start = section.begin == 0;
      NormalText normal;
      if (parts.normalizer) {
        normal = {std::string(part), true, GrowthLimit(part.size())};
        parts.normalizer->Apply(normal);
        part = normal.text;
        from_start = from_start && normal.from_start;
      }
      if (!has_normalized) {
        if (!part.empty()) EncodeSection(part, from_start, *s, out);
        continue;
      }
      s->inner.clear();
      normalized_tokens.Split(part, parse_special, s->inner);
      for (const TextSection& inner : s->inner) {
        if (inner.id != kNoToken) {
          out.push_back(inner.id);
        } else {
          EncodeSection(part.substr(inner.begin, inner.end - inner.begin), from_start && inner.begin == 0, *s,
                        out);
        }
      }
    }
    GiveBack(std::move(s));
  }

  TokenizerParts parts;
  AddedTokenFinder raw_tokens, normalized_tokens;
  bool has_normalized = false;
  size_t vocab_size = 0;
  std::unordered_map<TokenId, const AddedToken*> added_by_id;
  std::unordered_map<std::string_view, TokenId> added_by_content;
  std::unordered_map<TokenId, std::string> normalized_content;
  std::unordered_set<std::string_view> special_content;
  mutable std::mutex pool_mutex;
  mutable std::vector<std::unique_ptr<Scratch>> pool;
};

Tokenizer::Tokenizer(TokenizerParts parts) : impl_(std::make_unique<const Impl>(std::move(parts))) {}
Tokenizer::~Tokenizer() = default;

std::vector<TokenId> Tokenizer::Encode(std::string_view text, bool add_special, bool parse_special) const {
  std::vector<TokenRun> runs(1);
  impl_->EncodeText(text, parse_special, runs[0].ids);
  if (impl_->parts.post_processor) impl_->parts.post_processor->Apply(runs, add_special);
  if (runs.size() == 1) return std::move(runs[0].ids);
  std::vector<TokenId> ids;
  for (const TokenRun& run : runs) ids.insert(ids.end(), run.ids.begin(), run.ids.end());
  return ids;
}

PairEncoding Tokenizer::EncodePair(std::string_view text, std::string_view pair, bool add_special) const {
  std::vector<TokenRun> runs(2);
  impl_->EncodeText(text, true, runs[0].ids);
  impl_->EncodeText(pair, true, runs[1].ids);
  runs[1].type_id = 1;
  if (impl_->parts.post_processor) impl_->parts.post_processor->Apply(runs, add_special);
  PairEncoding out;
  for (const TokenRun& run : runs) {
    out.ids.insert(out.ids.end(), run.ids.begin(), run.ids.end());
    out.type_ids.insert(out.type_ids.end(), run.ids.size(), run.type_id);
  }
  return out;
}

std::optional<TokenId> Tokenizer::IdOf(std::string_view token) const {
  if (const auto it = impl_->added_by_content.find(token); it != impl_->added_by_content.end())
    return it->second;
  const TokenId id = impl_->parts.model->tokens().Find(token);
  return id == kNoToken ? std::nullopt : std::optional(id);
}

std::optional<std::string_view> Tokenizer::TokenOf(TokenId id) const {
  return impl_->TokenOf(id);
}
size_t Tokenizer::vocab_size() const {
  return impl_->vocab_size;
}

bool Tokenizer::is_special(TokenId id) const {
  const auto text = impl_->TokenOf(id);
  return text && impl_->special_content.contains(*text);
}

size_t Tokenizer::memory_bytes() const {
  constexpr size_t kMapNode = 64;  // of one entry, its bucket included
  const Impl& i = *impl_;
  const size_t entries = i.added_by_id.size() + i.added_by_content.size() + i.normalized_content.size() +
                         i.special_content.size();
  return i.parts.model->memory_bytes() + MemoryBytes(i.parts.added) + i.raw_tokens.memory_bytes() +
         i.normalized_tokens.memory_bytes() + entries * kMapNode;
}

struct StreamDecoder::State {
  State(const Tokenizer::Impl& impl, bool skip) : skip_special(skip) {
    TokenSink* next = &sink;
    for (auto step = impl.parts.decoder.rbegin(); step != impl.parts.decoder.rend(); ++step) {
      stages.push_back((*step)->NewStage(*next));
      next = stages.back().get();
    }
    first = next;
  }
  CollectSink sink;
  std::vector<std::unique_ptr<DecodeStage>> stages;  // the last one first
  TokenSink* first;
  bool skip_special;
};

StreamDecoder::StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special)
    : tokenizer_(std::move(tokenizer)), state_(std::make_unique<State>(*tokenizer_->impl_, skip_special)) {}
StreamDecoder::~StreamDecoder() = default;
StreamDecoder::StreamDecoder(StreamDecoder&&) noexcept = default;
StreamDecoder& StreamDecoder::operator=(StreamDecoder&&) noexcept = default;

std::string StreamDecoder::Push(TokenId id) {
  const auto text = tokenizer_->impl_->DecodedTextOf(id);
  if (!text || (state_->skip_special && tokenizer_->is_special(id))) return "";
  state_->first->Text(*text);
  state_->first->EndToken();
  return state_->sink.Take();
}

std::string StreamDecoder::Finish() {
  state_->first->Finish();
  return state_->sink.Take();
}

std::string Tokenizer::Decode(std::span<const TokenId> ids, bool skip_special) const {
  // The decoder borrows this object for the length of the call.
  StreamDecoder decoder(std::shared_ptr<const Tokenizer>(std::shared_ptr<const Tokenizer>(), this),
                        skip_special);
  std::string out;
  for (const TokenId id : ids) out += decoder.Push(id);
  out += decoder.Finish();
  return out;
}

}  // namespace ullage::llm
