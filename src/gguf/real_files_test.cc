// Published models, where they are on this machine: $ULLAGE_MODELS/*.gguf, else $ULLAGE_HOME/models/*.gguf.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "core/error.h"
#include "core/mapped_file.h"
#include "gguf/hyperparameters.h"
#include "gguf/import.h"
#include "gguf/tokenizer_data.h"

namespace ullage::gguf {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> RealFiles() {
  std::vector<std::string> out;
  fs::path folder;
  if (const char* models = std::getenv("ULLAGE_MODELS")) {
    folder = models;
  } else if (const char* home = std::getenv("ULLAGE_HOME")) {
    folder = fs::path(home) / "models";
  }
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none))
    if (entry.path().extension() == ".gguf") out.push_back(entry.path().string());
  std::sort(out.begin(), out.end());
  return out;
}

double Seconds(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
}

TEST(RealFiles, ImportWholeAndQuickly) {
  const auto files = RealFiles();
  if (files.empty()) GTEST_SKIP() << "no *.gguf under $ULLAGE_MODELS or $ULLAGE_HOME/models";
  for (const auto& path : files) {
    SCOPED_TRACE(path);
    const auto start = std::chrono::steady_clock::now();
    const auto file = GgufFile::Open(path);
    const auto g = ImportGguf(file, {.max_positions = 2048});
    const double seconds = Seconds(start);
    EXPECT_LT(seconds, 1) << "opening must not depend on the size of the weights";
    const auto h = ReadHyperparameters(*file);
    EXPECT_EQ(g->inputs.size(), 2 + 2 * static_cast<size_t>(h.layers));
    EXPECT_EQ(g->outputs.size(), 1 + 2 * static_cast<size_t>(h.layers));
    const auto tokenizer = ReadTokenizerData(file);
    EXPECT_LE(tokenizer.tokens.size(), static_cast<size_t>(h.vocab_size));
    EXPECT_FALSE(tokenizer.stop_ids.empty());
    // The weights of the graph are the file's: every byte once.
    std::map<uint64_t, uint64_t> views;
    for (size_t i = 0; i < g->value_count(); ++i)
      if (const auto& c = g->value(static_cast<graph::ValueId>(i)).constant; c && !c->file.empty()) {
        EXPECT_TRUE(views.emplace(c->file_offset, c->size_bytes).second);
        EXPECT_TRUE(c->available());
      }
    uint64_t used = 0, total = 0;
    for (const auto& [offset, size] : views) used += size;
    for (const auto& t : file->tensors())
      if (!t.name.starts_with("rope_")) total += t.size_bytes;
    EXPECT_EQ(used, total);
    RecordProperty(fs::path(path).stem().string(), std::to_string(seconds * 1e3) + " ms");
  }
}

TEST(RealFiles, PlanFromTheHeader) {
  const auto files = RealFiles();
  if (files.empty()) GTEST_SKIP() << "no *.gguf under $ULLAGE_MODELS or $ULLAGE_HOME/models";
  for (const auto& path : files) {
    SCOPED_TRACE(path);
    const auto whole = GgufFile::Open(path);
    const auto map = MappedFile::Open(path);
    const auto header = map->bytes().subspan(0, static_cast<size_t>(whole->data_offset()));
    EXPECT_THROW(GgufFile::Parse(header, map, path), Error);
    const auto file = GgufFile::Parse(header, map, path, false);
    const auto planned = ImportGguf(file, {.max_positions = 128, .require_data = false});
    const auto full = ImportGguf(whole, {.max_positions = 128});
    EXPECT_EQ(planned->LiveNodes(), full->LiveNodes());
    const auto weight = planned->value(planned->FindValue("model.embed_tokens.weight")).constant;
    EXPECT_FALSE(weight->available());
    EXPECT_EQ(weight->size_bytes,
              full->value(full->FindValue("model.embed_tokens.weight")).constant->size_bytes);
  }
}

}  // namespace
}  // namespace ullage::gguf
