// Vectors that the `tokenizers` and sentencepiece libraries wrote for the sample models.
#include "llm/tokenizer/test_support.h"
#include "llm/tokenizer/tokenize_service.h"
#include "llm/tokenizer/tokenizer.h"

namespace ullage::llm {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Ids = std::vector<TokenId>;

std::vector<fs::path> FoldersWith(const char* file) {
  std::vector<fs::path> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(ZooFolder(), error)) {
    if (fs::exists(entry.path() / file)) out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

void CheckRow(const std::shared_ptr<const Tokenizer>& t, const json& row) {
  const std::string text = row["text"];
  const Ids ids = row["ids"].get<Ids>();
  EXPECT_EQ(t->Encode(text, true), ids) << text;
  EXPECT_EQ(t->Encode(text, false), row["ids_without_special"].get<Ids>()) << text;
  for (const bool skip : {false, true}) {
    const std::string decoded = row[skip ? "decoded_skip_special" : "decoded"];
    EXPECT_EQ(t->Decode(ids, skip), decoded) << text;
    StreamDecoder stream(t, skip);
    std::string all;
    for (TokenId id : ids) all += stream.Push(id);
    EXPECT_EQ(all + stream.Finish(), decoded) << text;
  }
}

TEST(ZooVectors, TokenizerJson) {
  const auto folders = FoldersWith("ref/vectors.jsonl");
  if (folders.empty()) GTEST_SKIP() << ZooFolder() << " has no vectors";
  for (const fs::path& folder : folders) {
    SCOPED_TRACE(folder.filename());
    const auto t = LoadTokenizerFolder(folder.string());
    for (const json& row : ReadJsonLines(folder / "ref/vectors.jsonl")) CheckRow(t, row);
    for (const json& row : ReadJsonLines(folder / "ref/pairs.jsonl")) {
      const PairEncoding pair = t->EncodePair(row["text"].get<std::string>(), row["pair"].get<std::string>());
      EXPECT_EQ(pair.ids, row["ids"].get<Ids>());
      EXPECT_EQ(pair.type_ids, row["type_ids"].get<std::vector<int32_t>>());
    }
  }
}

TEST(ZooVectors, SentencePiece) {
  const auto folders = FoldersWith("ref/sentencepiece.jsonl");
  if (folders.empty()) GTEST_SKIP() << ZooFolder() << " has no vectors";
  for (const fs::path& folder : folders) {
    SCOPED_TRACE(folder.filename());
    const json meta = json::parse(ReadFile(folder / "meta.json"));
    const auto t = LoadTokenizerFile((folder / meta["sentencepiece_file"].get<std::string>()).string());
    for (const json& row : ReadJsonLines(folder / "ref/sentencepiece.jsonl")) {
      const std::string text = row["text"];
      const Ids ids = row["ids"].get<Ids>();
      EXPECT_EQ(t->Encode(text, false), ids) << text;
      EXPECT_EQ(t->Decode(ids), row["decoded"].get<std::string>()) << text;
    }
  }
}

TEST(ZooVectors, VocabAndMerges) {
  const fs::path folder = ZooFolder() / "tokenizer-gpt2";
  if (!fs::exists(folder)) GTEST_SKIP() << folder << " is missing";
  const fs::path copy = fs::path(testing::TempDir()) / "vocab_and_merges";
  fs::create_directories(copy);
  for (const char* name : {"vocab.json", "merges.txt", "tokenizer_config.json"}) {
    fs::copy_file(folder / name, copy / name, fs::copy_options::overwrite_existing);
  }
  const auto t = LoadTokenizerFolder(copy.string());
  for (const json& row : ReadJsonLines(folder / "ref/vectors.jsonl")) CheckRow(t, row);
}

/// The arrays of a GGUF file as a converter writes them from a tokenizer.json.
struct GgufArrays {
  GgufTokenizerData data;
  std::vector<std::string> tokens, merges;

  GgufArrays(const json& file, const char* model, const char* pre) {
    data.model = model;
    data.pre = pre;
    std::map<TokenId, std::pair<std::string, int32_t>> all;
    for (const auto& [text, id] : file["model"]["vocab"].items()) {
      const bool byte = text.size() == 6 && text.starts_with("<0x");
      all[id.get<TokenId>()] = {text, byte && data.model == "llama" ? 6 : 1};
    }
    for (const json& t : file["added_tokens"]) {
      all[t["id"].get<TokenId>()] = {t["content"], t["content"] == "<unk>"    ? 2
                                                   : t["special"].get<bool>() ? 3
                                                                              : 4};
    }
    for (const auto& [id, token] : all) {
      EXPECT_EQ(id, static_cast<TokenId>(tokens.size()));
      tokens.push_back(token.first);
      data.token_types.push_back(token.second);
      data.scores.push_back(-static_cast<float>(id));
    }
    for (const json& m : file["model"]["merges"])
      merges.push_back(m[0].get<std::string>() + " " + m[1].get<std::string>());
    data.tokens.assign(tokens.begin(), tokens.end());
    data.merges.assign(merges.begin(), merges.end());
  }

  TokenId Find(const std::string& text) const {
    return static_cast<TokenId>(std::find(tokens.begin(), tokens.end(), text) - tokens.begin());
  }
};

TEST(ZooVectors, GgufByteLevel) {
  struct Case {
    const char *folder, *pre, *bos;
  };
  const Case cases[] = {{"tokenizer-qwen", "qwen2", nullptr},
                        {"tokenizer-llama3", "llama-bpe", "<|begin_of_text|>"},
                        {"tokenizer-o200k", "gpt-4o", nullptr},
                        {"tokenizer-tekken", "tekken", "<s>"},
                        {"tokenizer-granite", "refact", nullptr},
                        {"tokenizer-deepseek", "deepseek-v3", "<｜begin▁of▁sentence｜>"},
                        {"genai-qwen35-fp32-cpu", "qwen35", nullptr}};
  int checked = 0;
  for (const Case& c : cases) {
    const fs::path folder = ZooFolder() / c.folder;
    if (!fs::exists(folder)) continue;
    SCOPED_TRACE(c.folder);
    GgufArrays arrays(json::parse(ReadFile(folder / "tokenizer.json")), "gpt2", c.pre);
    if (c.bos != nullptr) {
      arrays.data.bos = arrays.Find(c.bos);
      arrays.data.add_bos = true;
    }
    const auto t = LoadGgufTokenizer(arrays.data);
    const auto reference = LoadTokenizerFolder(folder.string());
    const fs::path vectors = folder / "ref/vectors.jsonl";
    const auto rows =
        ReadJsonLines(fs::exists(vectors) ? vectors : ZooFolder() / "tokenizer-qwen/ref/vectors.jsonl");
    for (const json& row : rows) {
      if (fs::exists(vectors)) {
        CheckRow(t, row);
      } else {
        EXPECT_EQ(t->Encode(row["text"].get<std::string>()),
                  reference->Encode(row["text"].get<std::string>()));
      }
      ++checked;
    }
  }
  if (checked == 0) GTEST_SKIP() << ZooFolder() << " has no vectors";
}

TEST(ZooVectors, GgufSentencePiece) {
  int checked = 0;
  for (const char* name : {"tokenizer-llama2", "tokenizer-phi3", "tokenizer-gemma"}) {
    const fs::path folder = ZooFolder() / name;
    if (!fs::exists(folder)) continue;
    SCOPED_TRACE(name);
    const json file = json::parse(ReadFile(folder / "tokenizer.json"));
    GgufArrays arrays(file, "llama", "");
    if (std::string(name) == "tokenizer-phi3") arrays.data.architecture = "phi3";
    const bool gemma = std::string(name) == "tokenizer-gemma";
    arrays.data.add_space_prefix = !gemma;
    arrays.data.bos = arrays.Find(gemma ? "<bos>" : "<s>");
    arrays.data.add_bos = std::string(name) != "tokenizer-phi3";
    const auto t = LoadGgufTokenizer(arrays.data);
    for (const json& row : ReadJsonLines(folder / "ref/vectors.jsonl")) {
      CheckRow(t, row);
      ++checked;
    }
  }
  if (checked == 0) GTEST_SKIP() << ZooFolder() << " has no vectors";
}

}  // namespace
}  // namespace ullage::llm
