/// ullage perplexity: mean negative log likelihood of a text.
#include <cmath>
#include <cstring>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/cli/common.h"
#include "core/error.h"
#include "llm/fit.h"
#include "onnx/tensor_io.h"
#include "providers/cpu/dense/sampling.h"

namespace ullage::cli {

using Json = nlohmann::ordered_json;

namespace {

std::vector<std::vector<int32_t>> ReadIds(const std::string& path) {
  const Json json = Json::parse(ReadFile(path), nullptr, false);
  const auto fail = [&]() -> void {
    Throw(Code::kInvalidInput, path, ": expected a list of token ids, or a list of such lists");
  };
  if (!json.is_array()) fail();
  std::vector<std::vector<int32_t>> sequences;
  const auto read = [&](const Json& list) {
    std::vector<int32_t> ids;
    for (const auto& id : list) {
      if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() > INT32_MAX) fail();
      ids.push_back(id.get<int32_t>());
    }
    sequences.push_back(std::move(ids));
  };
  if (!json.empty() && json[0].is_array()) {
    for (const auto& list : json) {
      if (!list.is_array()) fail();
      read(list);
    }
  } else {
    read(json);
  }
  return sequences;
}

/// A .npy file that is written row by row; the number of rows is put into the header at the end.
class NpyRows {
 public:
  NpyRows(const std::string& path, int64_t columns)
      : out_(path, std::ios::binary), path_(path), columns_(columns) {
    if (!out_) Throw(Code::kInvalidInput, "cannot write ", path);
    Header();
  }
  void Add(const float* rows, int64_t count) {
    out_.write(reinterpret_cast<const char*>(rows), count * columns_ * static_cast<int64_t>(sizeof(float)));
    rows_ += count;
  }
  void Close() {
    out_.seekp(0);
    Header();
    out_.close();
    if (!out_) Throw(Code::kRuntime, "cannot write ", path_);
  }

 private:
  void Header() {
    std::string text =
        StrCat("{'descr': '<f4', 'fortran_order': False, 'shape': (", rows_, ", ", columns_, "), }");
    text.resize(117, ' ');
    text += '\n';
    const char magic[] = "\x93NUMPY\x01\x00\x76\x00";
    out_.write(magic, 10);
    out_.write(text.data(), static_cast<std::streamsize>(text.size()));
  }
  std::ofstream out_;
  std::string path_;
  int64_t columns_, rows_ = 0;
};

}  // namespace

int PerplexityCommand(const std::vector<std::string>& arguments) {
  const Args args(arguments, ModelFlags({"--file", "--ids", "--logits"}), ModelSwitches());
  const ModelOptions options = ReadModelOptions(args);
  const llm::ModelSource source = llm::FindModel(args.Model(), options.variant, false);
  std::vector<std::vector<int32_t>> sequences;
  std::shared_ptr<const llm::Tokenizer> tokenizer;
  if (const auto ids = args.Value("--ids")) {
    sequences = ReadIds(*ids);
  } else if (const auto file = args.Value("--file")) {
    tokenizer = llm::LoadTokenizer(source);
    if (!tokenizer) Throw(Code::kUnsupported, source.name, " has no tokenizer; give token ids with --ids");
    sequences.push_back(tokenizer->Encode(ReadFile(*file)));
  } else {
    throw Error(Code::kUsage, "perplexity needs --file TEXT or --ids FILE");
  }
  llm::DecoderOptions d = DecoderOptionsOf(options, tokenizer.get());
  d.all_logits = true;
  if (d.chunk == 0) d.chunk = 64;  // logits of a whole chunk are kept
  const auto decoder = llm::CreateFitting(source, d);
  PrintWarnings(decoder->session());
  ListenForInterrupt();
  const int64_t v = decoder->vocabulary();
  std::vector<float> rows(static_cast<size_t>(decoder->chunk() * v));
  std::optional<NpyRows> npy;
  if (const auto path = args.Value("--logits")) npy.emplace(*path, v);
  double sum = 0;
  int64_t counted = 0;
  for (const auto& sequence : sequences) {
    for (size_t window = 0; window < sequence.size(); window += static_cast<size_t>(decoder->context())) {
      const auto ids = std::span(sequence).subspan(
          window, std::min(sequence.size() - window, static_cast<size_t>(decoder->context())));
      decoder->Rewind(0);
      for (size_t at = 0; at < ids.size(); at += static_cast<size_t>(decoder->chunk())) {
        const auto part = ids.subspan(at, std::min(ids.size() - at, static_cast<size_t>(decoder->chunk())));
        decoder->Feed(part, &g_interrupted);
        if (decoder->logit_rows() != static_cast<int64_t>(part.size()))
          Throw(Code::kUnsupported, source.name, " gives logits for the last token only");
        decoder->CopyLogits(rows.data());
        for (size_t k = 0; k < part.size() && at + k + 1 < ids.size(); ++k) {
          sum -= dense::LogSoftmaxAt({rows.data() + static_cast<int64_t>(k) * v, DType::kFloat}, v,
                                     ids[at + k + 1]);
          ++counted;
        }
        if (npy) npy->Add(rows.data(), static_cast<int64_t>(part.size()));
      }
    }
  }
  if (npy) npy->Close();
  if (counted == 0) throw Error(Code::kInvalidInput, "the text has fewer than two tokens");
  const double mean = sum / static_cast<double>(counted);
  if (options.json)
    std::cout << Line({{"tokens", counted}, {"mean_nll", mean}, {"perplexity", std::exp(mean)}}) << "\n";
  else
    std::cout << "perplexity " << std::exp(mean) << " over " << counted
              << " tokens (mean negative log likelihood " << mean << ")\n";
  return 0;
}

}  // namespace ullage::cli
