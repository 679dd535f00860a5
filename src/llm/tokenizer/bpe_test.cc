#include "llm/tokenizer/bpe.h"

#include <random>

#include "llm/tokenizer/test_support.h"
#include "llm/tokenizer/unicode.h"
#include "llm/tokenizer/word_models.h"

namespace ullage::llm {
namespace {

using Ids = std::vector<TokenId>;

TokenTable Table(const std::vector<std::string>& tokens) {
  TokenTable table;
  for (size_t i = 0; i < tokens.size(); ++i) table.Add(tokens[i], static_cast<int64_t>(i));
  table.Freeze();
  return table;
}

Ids Encode(const Model& model, std::string_view piece) {
  ModelScratch scratch;
  Ids first, again;
  model.Encode(piece, scratch, first);
  model.Encode(piece, scratch, again);  // through the cache
  EXPECT_EQ(first, again);
  return first;
}

std::unique_ptr<Model> Build(const std::vector<std::string>& tokens, const std::vector<std::string>& merges,
                             BpeOptions options = {}) {
  BpeModel::Builder builder(Table(tokens), std::move(options));
  for (const std::string& m : merges) builder.AddMergeLine(m);
  return builder.Build();
}

TEST(Bpe, LowestRankThenLeftmost) {
  const auto model = Build({"a", "b", "c", "ab", "bc", "abc", "aa"}, {"b c", "a b", "a bc", "a a"});
  EXPECT_EQ(Encode(*model, "abc"), (Ids{5}));
  EXPECT_EQ(Encode(*model, "aab"), (Ids{0, 3}));
  EXPECT_EQ(Encode(*model, "aaa"), (Ids{6, 0}));
  EXPECT_EQ(Encode(*model, "axb"), (Ids{3}));  // unknown characters vanish without an unknown token
}

TEST(Bpe, UnknownCharacters) {
  const std::vector<std::string> tokens{"<unk>", "a", "<0xC3>", "<0xA9>"};
  BpeOptions options;
  options.unknown = "<unk>";
  EXPECT_EQ(Encode(*Build(tokens, {}, options), "xya"), (Ids{0, 0, 1}));
  options.fuse_unknown = true;
  EXPECT_EQ(Encode(*Build(tokens, {}, options), "xyaz"), (Ids{0, 1, 0}));
  options.byte_fallback = true;
  EXPECT_EQ(Encode(*Build(tokens, {}, options), "éa日"), (Ids{2, 3, 1, 0}));
  // A pending unknown token comes behind byte tokens that follow it, as in `tokenizers`.
  EXPECT_EQ(Encode(*Build(tokens, {}, options), "日é"), (Ids{2, 3, 0}));
  options.unknown = "<missing>";
  const auto broken = Build(tokens, {}, options);
  ExpectError(Code::kInvalidModel, "<missing>", [&] { Encode(*broken, "日"); });
}

TEST(Bpe, PrefixSuffixAndWholePieces) {
  BpeOptions options;
  options.subword_prefix = "##";
  options.word_suffix = "</w>";
  const auto model =
      Build({"h", "##e", "he", "##y</w>", "hey</w>", "a</w>"}, {"h ##e", "he ##y</w>"}, options);
  EXPECT_EQ(Encode(*model, "hey"), (Ids{4}));
  EXPECT_EQ(Encode(*model, "a"), (Ids{5}));
  BpeOptions whole;
  whole.ignore_merges = true;
  EXPECT_EQ(Encode(*Build({"a", "b", "ab"}, {}, whole), "ab"), (Ids{2}));
  EXPECT_EQ(Encode(*Build({"a", "b", "ab"}, {}, whole), "aab"), (Ids{0, 0, 1}));
}

TEST(Bpe, BadMerges) {
  ExpectError(Code::kInvalidModel, "'x' is not in the vocabulary", [] { Build({"a", "b"}, {"a x"}); });
  ExpectError(Code::kInvalidModel, "'ab' is not in the vocabulary", [] { Build({"a", "b"}, {"a b"}); });
  ExpectError(Code::kInvalidModel, "one space", [] { Build({"a", "b"}, {"ab"}); });
  ExpectError(Code::kInvalidModel, "one space", [] { Build({"a", "b"}, {"a b c"}); });
}

/// The definition: again and again the lowest rank, leftmost first.
Ids Reference(Ids ids, const MergeTable& merges) {
  for (;;) {
    size_t best = ids.size();
    uint32_t rank = kNoRank;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const uint32_t r = merges.Find(ids[i], ids[i + 1]).rank;
      if (r < rank) {
        rank = r;
        best = i;
      }
    }
    if (best == ids.size()) return ids;
    ids[best] = merges.Find(ids[best], ids[best + 1]).merged;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(Bpe, HeapAgreesWithTheDefinition) {
  std::mt19937 random(7);
  MergeTable merges;
  for (uint32_t rank = 0; rank < 60; ++rank) {
    merges.Add(static_cast<TokenId>(random() % (4 + rank)), static_cast<TokenId>(random() % (4 + rank)),
               {rank, static_cast<TokenId>(4 + rank)});
  }
  for (size_t n = 1; n < 200; ++n) {
    Ids start(n);
    ModelScratch scratch;
    for (TokenId& id : start) {
      id = static_cast<TokenId>(random() % 4);
      scratch.symbols.push_back({id, 0, 0, 0, kNoToken, 0, 0});
    }
    Ids got;
    MergeSymbols(merges, scratch, got);
    EXPECT_EQ(got, Reference(start, merges)) << n;
  }
}

TEST(Bpe, LongPieceIsFast) {
  const auto model = Build({"a", "aa", "aaaa", "aaaaaaaa"}, {"a a", "aa aa", "aaaa aaaa"});
  const Ids ids = Encode(*model, std::string(800000, 'a'));
  EXPECT_EQ(ids, Ids(100000, 3));
}

TEST(ScoreBpe, MergesByScore) {
  using T = PieceType;
  const std::vector<std::string> tokens{"<unk>",  "a",      "b",   "ab", "ba", "aba",
                                        "<0xC3>", "<0xA9>", "xyz", "bb", "bbb"};
  const std::vector<float> scores{0, -10, -10, -2, -1, -3, 0, 0, 0, -4, -5};
  const std::vector<T> types{T::kUnknown, T::kNormal, T::kNormal,      T::kNormal, T::kNormal, T::kNormal,
                             T::kByte,    T::kByte,   T::kUserDefined, T::kUnused, T::kNormal};
  const ScoreBpeModel model(Table(tokens), scores, types, {0, true, true, true});
  EXPECT_EQ(Encode(model, "aba"), (Ids{5}));  // "ba" first, then "a" + "ba"
  EXPECT_EQ(Encode(model, "abab"), (Ids{5, 2}));
  EXPECT_EQ(Encode(model, "é日"), (Ids{6, 7, 0}));
  EXPECT_EQ(Encode(model, "日本"), (Ids{0}));
  EXPECT_EQ(Encode(model, "axyzb"), (Ids{1, 8, 2}));  // a user defined piece merges with nothing
  EXPECT_EQ(Encode(model, "abb"), (Ids{3, 2}));
  EXPECT_EQ(Encode(model, "bb"), (Ids{2, 2}));  // an unused piece comes apart
  EXPECT_EQ(Encode(model, "bbb"), (Ids{10}));   // but helps to build others
}

TEST(WordPiece, GreedyLongest) {
  const WordPieceModel model(Table({"[UNK]", "un", "##aff", "##able", "u", "日"}), "[UNK]", "##", 10);
  EXPECT_EQ(Encode(model, "unaffable"), (Ids{1, 2, 3}));
  EXPECT_EQ(Encode(model, "unx"), (Ids{0}));
  EXPECT_EQ(Encode(model, "日"), (Ids{5}));
  EXPECT_EQ(Encode(model, "unaffableaff"), (Ids{0}));  // 12 characters
}

TEST(WordLevel, WholeWords) {
  const WordLevelModel model(Table({"<unk>", "ab"}), "<unk>");
  EXPECT_EQ(Encode(model, "ab"), (Ids{1}));
  EXPECT_EQ(Encode(model, "b"), (Ids{0}));
  const WordLevelModel none(Table({"ab"}), "<unk>");
  ExpectError(Code::kInvalidModel, "<unk>", [&] { Encode(none, "b"); });
}

TEST(Unigram, MostProbable) {
  const UnigramModel model(Table({"<unk>", "a", "b", "ab", "abc", "<0xC3>", "<0xA9>"}),
                           {0, -1, -1, -1.5, -9, -5, -5}, {}, {0, false});
  EXPECT_EQ(Encode(model, "ab"), (Ids{3}));
  EXPECT_EQ(Encode(model, "abc"), (Ids{4}));
  EXPECT_EQ(Encode(model, "axyb"), (Ids{1, 0, 2}));
  const UnigramModel bytes(Table({"<unk>", "a", "b", "ab", "abc", "<0xC3>", "<0xA9>"}),
                           {0, -1, -1, -1.5, -9, -5, -5}, {}, {0, true});
  EXPECT_EQ(Encode(bytes, "aéb"), (Ids{1, 5, 6, 2}));
  EXPECT_EQ(Encode(bytes, "日"), (Ids{0}));
  const UnigramModel none(Table({"a"}), {-1}, {}, {});
  ExpectError(Code::kInvalidModel, "no unknown token", [&] { Encode(none, "b"); });
}

}  // namespace
}  // namespace ullage::llm
