#include "llm/model_source.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/temp_folder.h"

namespace ullage::llm {
namespace {

using test::TempFolder;

void ExpectRefused(Code code, const std::string& part, const std::string& model,
                   const std::string& variant = "") {
  try {
    FindModel(model, variant, true);
    ADD_FAILURE() << "no error with \"" << part << "\"";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.message();
    EXPECT_NE(e.message().find(part), std::string::npos) << e.message();
  }
}

std::string FileName(const ModelSource& s) {
  return std::filesystem::path(s.file).filename().string();
}

TEST(FindModel, GenAiFoldersSayNamesAndSizes) {
  TempFolder dir;
  dir.Write("genai_config.json",
            R"({"model": {"type": "llama", "context_length": 2048, "eos_token_id": [3, 4],
    "decoder": {"filename": "decoder.onnx", "head_size": 64, "num_key_value_heads": 3,
                "sliding_window": {"window_size": 128},
                "inputs": {"input_ids": "ids", "past_key_names": "pk_%d"},
                "outputs": {"logits": "scores", "present_value_names": "v_%d"}}},
    "search": {"do_sample": true, "temperature": 0.5, "top_k": 7}})");
  dir.Write("generation_config.json", R"({"eos_token_id": 9, "repetition_penalty": 1.25})");
  const ModelSource s = FindModel(dir.str(), "", true);
  EXPECT_EQ(s.kind, ModelSource::Kind::kGenAi);
  EXPECT_EQ(FileName(s), "decoder.onnx");
  EXPECT_EQ(s.context_length, 2048);
  EXPECT_EQ(s.head_size, 64);
  EXPECT_EQ(s.kv_heads, 3);
  EXPECT_EQ(s.sliding_window, 128);
  EXPECT_EQ(s.stop_ids, (std::vector<int32_t>{3, 4, 9}));
  EXPECT_EQ(s.names.input_ids, "ids");
  EXPECT_EQ(s.names.past_key, "pk_%d");
  EXPECT_EQ(s.names.past_value, "past_key_values.%d.value");
  EXPECT_EQ(s.names.logits, "scores");
  EXPECT_EQ(s.names.present_value, "v_%d");
  EXPECT_TRUE(s.defaults.do_sample);
  EXPECT_FLOAT_EQ(s.defaults.temperature, 0.5f);
  EXPECT_EQ(s.defaults.top_k, 7);
  EXPECT_FLOAT_EQ(s.defaults.repetition_penalty, 1.25f);
}

TEST(FindModel, FilesOutsideTheFolderAreRefused) {
  for (const char* name : {"../model.onnx", "/etc/passwd", "a/../../b.onnx", ""}) {
    TempFolder dir;
    dir.Write("genai_config.json", StrCat(R"({"model": {"decoder": {"filename": ")", name, R"("}}})"));
    ExpectRefused(Code::kInvalidModel, "model.decoder.filename", dir.str());
  }
}

TEST(FindModel, BrokenConfigurationsNameTheFile) {
  for (const char* text : {"", "{", "[]", R"({"model": 3})", R"({"model": {"decoder": []}})"}) {
    TempFolder dir;
    dir.Write("genai_config.json", text);
    ExpectRefused(Code::kInvalidModel, "genai_config.json", dir.str());
  }
  TempFolder dir;
  dir.Write("model.onnx", "");
  dir.Write("config.json", "{\"eos_token_id\": ");
  ExpectRefused(Code::kInvalidModel, "config.json", dir.str());
}

TEST(FindModel, ValuesOfOtherTypesAreNotRead) {
  TempFolder dir;
  dir.Write("model.onnx", "");
  dir.Write("config.json", R"({"eos_token_id": ["x", -1, 99999999999, 5, 5], "num_attention_heads": "many",
                               "max_position_embeddings": null})");
  const ModelSource s = FindModel(dir.str(), "", true);
  EXPECT_EQ(s.stop_ids, std::vector<int32_t>{5});
  EXPECT_EQ(s.kv_heads, 0);
  EXPECT_EQ(s.context_length, 0);
}

TEST(FindModel, HuggingFaceFoldersHaveVariants) {
  TempFolder dir;
  for (const char* f : {"model.onnx", "model_fp16.onnx", "model_q4.onnx", "model_quantized.onnx"})
    dir.Write(std::string("onnx/") + f, "");
  dir.Write(
      "config.json",
      R"({"model_type": "qwen2", "num_attention_heads": 14, "num_key_value_heads": 2, "hidden_size": 896,
                "max_position_embeddings": 32768, "eos_token_id": 2})");
  EXPECT_EQ(FileName(FindModel(dir.str(), "", true)), "model_q4.onnx");
  EXPECT_EQ(FileName(FindModel(dir.str(), "fp16", true)), "model_fp16.onnx");
  EXPECT_EQ(FileName(FindModel(dir.str(), "fp32", true)), "model.onnx");
  ExpectRefused(Code::kUsage, "q4, quantized, fp16, fp32", dir.str(), "q8");
  const ModelSource s = FindModel(dir.str(), "", true);
  EXPECT_EQ(s.head_size, 64);
  EXPECT_EQ(s.kv_heads, 2);
  EXPECT_EQ(s.type, "qwen2");
}

TEST(FindModel, TheTextPartOfAMultimodalConfigurationCounts) {
  TempFolder dir;
  dir.Write("model.onnx", "");
  dir.Write("config.json", R"({"text_config": {"model_type": "gemma3_text", "head_dim": 256,
                               "num_key_value_heads": 1, "num_attention_heads": 4}})");
  const ModelSource s = FindModel(dir.str(), "", true);
  EXPECT_EQ(s.type, "gemma3_text");
  EXPECT_EQ(s.head_size, 256);
}

TEST(FindModel, NamesAreLookedUpInTheStore) {
  TempFolder dir;
  dir.Write("mine/config.json", "{}");
  dir.Write("mine/model.onnx", "");
  dir.Write("graph.onnx", "");
  setenv("ULLAGE_HOME", dir.str().c_str(), 1);
  EXPECT_EQ(FindModel("mine", "", true).folder, dir / "mine");
  EXPECT_EQ(FindModel("graph", "", true).file, dir / "graph.onnx");
  ExpectRefused(Code::kUsage, dir.str(), "absent");
  unsetenv("ULLAGE_HOME");
}

TEST(FindModel, OtherFilesAndEmptyFoldersAreRefused) {
  TempFolder dir;
  dir.Write("notes.txt", "x");
  ExpectRefused(Code::kUsage, "notes.txt", dir / "notes.txt");
  ExpectRefused(Code::kInvalidModel, "holds no model.onnx", dir.str());
  dir.Write("broken.gguf", "GGUF");
  ExpectRefused(Code::kInvalidModel, "broken.gguf", dir / "broken.gguf");
}

}  // namespace
}  // namespace ullage::llm
