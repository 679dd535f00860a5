#include "llm/model_source.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/read_file.h"
#include "gguf/import.h"
#include "gguf/tokenizer_data.h"
#include "onnx/import.h"
#include "ops/catalogue.h"

namespace ullage::llm {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

Json ReadJson(const fs::path& path) {
  try {
    Json json = Json::parse(ReadFile(path, Code::kInvalidModel));
    if (!json.is_object()) Throw(Code::kInvalidModel, path.string(), ": expected a JSON object");
    return json;
  } catch (const Json::exception& e) {
    Throw(Code::kInvalidModel, path.string(), " is not valid JSON: ", e.what());
  }
}

std::optional<Json> ReadIfThere(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return std::nullopt;
  return ReadJson(path);
}

const Json* Member(const Json& json, std::string_view key) {
  const auto it = json.find(std::string(key));
  return it == json.end() || it->is_null() ? nullptr : &*it;
}

int64_t IntOr(const Json& json, std::string_view key, int64_t def) {
  const Json* m = Member(json, key);
  if (!m || !m->is_number()) return def;
  return m->is_number_integer() ? m->get<int64_t>() : static_cast<int64_t>(m->get<double>());
}
float FloatOr(const Json& json, std::string_view key, float def) {
  const Json* m = Member(json, key);
  return m && m->is_number() ? m->get<float>() : def;
}
std::string StrOr(const Json& json, std::string_view key, const std::string& def) {
  const Json* m = Member(json, key);
  return m && m->is_string() ? m->get<std::string>() : def;
}

void AddStops(const Json* ids, ModelSource* source) {
  if (!ids) return;
  const auto add = [&](const Json& id) {
    if (!id.is_number_integer()) return;
    const auto n = id.get<int64_t>();
    if (n < 0 || n > INT32_MAX) return;
    const auto v = static_cast<int32_t>(n);
    if (std::find(source->stop_ids.begin(), source->stop_ids.end(), v) == source->stop_ids.end())
      source->stop_ids.push_back(v);
  };
  if (ids->is_array()) {
    for (const auto& id : *ids) add(id);
  } else {
    add(*ids);
  }
}

void ReadDefaults(const Json& json, GenerationDefaults* d) {
  const Json* sample = Member(json, "do_sample");
  if (sample && sample->is_boolean()) d->do_sample = sample->get<bool>();
  d->temperature = FloatOr(json, "temperature", d->temperature);
  d->top_k = IntOr(json, "top_k", d->top_k);
  d->top_p = FloatOr(json, "top_p", d->top_p);
  d->min_p = FloatOr(json, "min_p", d->min_p);
  d->repetition_penalty = FloatOr(json, "repetition_penalty", d->repetition_penalty);
}

/// A file named in a configuration: inside the folder, or an error.
fs::path Inside(const fs::path& folder, const std::string& name, const char* where) {
  const fs::path relative(name);
  const bool climbs =
      std::any_of(relative.begin(), relative.end(), [](const fs::path& p) { return p == ".."; });
  if (name.empty() || relative.is_absolute() || climbs)
    Throw(Code::kInvalidModel, where, " names the file \"", name, "\", which is not inside the folder");
  return folder / relative;
}

void ReadHfConfig(const fs::path& folder, ModelSource* source) {
  if (const auto config = ReadIfThere(folder / "config.json")) {
    const Json* text = Member(*config, "text_config");
    const Json& c = text && text->is_object() ? *text : *config;
    if (source->type.empty()) source->type = StrOr(c, "model_type", "");
    if (source->context_length <= 0)
      source->context_length = IntOr(c, "max_position_embeddings", IntOr(c, "n_positions", 0));
    const int64_t heads = IntOr(c, "num_attention_heads", IntOr(c, "n_head", 0));
    if (source->kv_heads <= 0) source->kv_heads = IntOr(c, "num_key_value_heads", heads);
    if (source->head_size <= 0)
      source->head_size =
          IntOr(c, "head_dim", heads > 0 ? IntOr(c, "hidden_size", IntOr(c, "n_embd", 0)) / heads : 0);
    AddStops(Member(c, "eos_token_id"), source);
  }
  if (const auto g = ReadIfThere(folder / "generation_config.json")) {
    AddStops(Member(*g, "eos_token_id"), source);
    ReadDefaults(*g, &source->defaults);
  }
}

void ReadGenAi(const fs::path& folder, ModelSource* source) {
  const fs::path path = folder / "genai_config.json";
  const Json config = ReadJson(path);
  const Json* model = Member(config, "model");
  if (!model || !model->is_object()) Throw(Code::kInvalidModel, path.string(), ": \"model\" is missing");
  source->kind = ModelSource::Kind::kGenAi;
  source->type = StrOr(*model, "type", "");
  source->context_length = IntOr(*model, "context_length", 0);
  const Json* eos = Member(*model, "eos_token_id");
  AddStops(eos ? eos : Member(*model, "pad_token_id"), source);
  const Json* decoder = Member(*model, "decoder");
  if (!decoder || !decoder->is_object())
    Throw(Code::kInvalidModel, path.string(), ": \"model.decoder\" is missing");
  if (const Json* pipeline = Member(*decoder, "pipeline"); pipeline && !pipeline->empty())
    Throw(Code::kUnsupported, path.string(), ": decoder pipelines of several graphs are not supported");
  source->file = Inside(folder, StrOr(*decoder, "filename", "model.onnx"), "model.decoder.filename").string();
  source->head_size = IntOr(*decoder, "head_size", 0);
  source->kv_heads = IntOr(*decoder, "num_key_value_heads", 0);
  if (const Json* window = Member(*decoder, "sliding_window"); window && window->is_object())
    source->sliding_window = IntOr(*window, "window_size", 0);
  TensorNames& n = source->names;
  if (const Json* in = Member(*decoder, "inputs"); in && in->is_object()) {
    n.input_ids = StrOr(*in, "input_ids", n.input_ids);
    n.inputs_embeds = StrOr(*in, "inputs_embeds", n.inputs_embeds);
    n.attention_mask = StrOr(*in, "attention_mask", n.attention_mask);
    n.position_ids = StrOr(*in, "position_ids", n.position_ids);
    n.past_key = StrOr(*in, "past_key_names", n.past_key);
    n.past_value = StrOr(*in, "past_value_names", n.past_value);
  }
  if (const Json* out = Member(*decoder, "outputs"); out && out->is_object()) {
    n.logits = StrOr(*out, "logits", n.logits);
    n.present_key = StrOr(*out, "present_key_names", n.present_key);
    n.present_value = StrOr(*out, "present_value_names", n.present_value);
  }
  if (const Json* search = Member(config, "search"); search && search->is_object())
    ReadDefaults(*search, &source->defaults);
  if (Member(*model, "encoder"))
    Throw(Code::kUnsupported, folder.string(), " is an encoder-decoder model (", source->type,
          "), which `run` cannot drive");
  ReadHfConfig(folder, source);
}

/// Preference of graph files for the CPU, best first.
int VariantRank(const std::string& suffix) {
  const char* order[] = {"q4", "q4f16", "quantized", "int8", "uint8", "fp16", "", "bnb4"};
  for (int i = 0; i < 8; ++i)
    if (suffix == order[i]) return i;
  return 100;
}

void ReadHuggingFace(const fs::path& folder, const std::string& variant, bool, ModelSource* source) {
  source->kind = ModelSource::Kind::kHuggingFace;
  struct Found {
    std::string suffix;
    int stem;
    fs::path path;
  };
  std::vector<Found> found;
  const char* stems[] = {"decoder_model_merged", "model"};
  std::error_code error;
  for (const fs::path& dir : {folder / "onnx", folder}) {
    for (const auto& entry : fs::directory_iterator(dir, error)) {
      const std::string name = entry.path().filename().string();
      if (name.size() < 5 || name.substr(name.size() - 5) != ".onnx") continue;
      const std::string base = name.substr(0, name.size() - 5);
      for (int s = 0; s < 2; ++s) {
        const std::string stem = stems[s];
        if (base == stem)
          found.push_back({"", s, entry.path()});
        else if (base.rfind(stem + "_", 0) == 0 && (s == 0 || base.rfind("decoder_", 0) != 0))
          found.push_back({base.substr(stem.size() + 1), s, entry.path()});
      }
      if (base == "encoder_model" || base.rfind("encoder_model_", 0) == 0) source->type = "encoder-decoder";
    }
    if (!found.empty()) break;
  }
  ReadHfConfig(folder, source);
  if (found.empty())
    Throw(Code::kInvalidModel, folder.string(), " holds no model.onnx and no onnx/model*.onnx");
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    return std::tuple(a.stem, VariantRank(a.suffix), a.suffix) <
           std::tuple(b.stem, VariantRank(b.suffix), b.suffix);
  });
  const Found* chosen = variant.empty() ? &found.front() : nullptr;
  std::string names;
  const auto name_of = [](const Found& f) { return f.suffix.empty() ? std::string("fp32") : f.suffix; };
  for (const auto& f : found) {
    if (!chosen && name_of(f) == variant) chosen = &f;
    names += (names.empty() ? "" : ", ") + name_of(f);
  }
  if (!chosen) Throw(Code::kUsage, folder.string(), " has no variant ", variant, "; it has ", names);
  source->file = chosen->path.string();
  for (const auto& f : found)
    if (f.stem == chosen->stem && f.suffix != chosen->suffix) source->variants.push_back(name_of(f));
}

void ReadGguf(const fs::path& path, bool plan_only, ModelSource* source) {
  source->kind = ModelSource::Kind::kGguf;
  source->file = path.string();
  source->folder = path.parent_path().string();
  source->gguf = gguf::GgufFile::Open(path.string(), !plan_only);
  source->type = gguf::ReadDescription(*source->gguf).architecture;
  source->context_length = source->gguf->Int(source->type + ".context_length").value_or(0);
  source->stop_ids = gguf::ReadTokenizerData(source->gguf).stop_ids;
  source->gguf->DropHeader();
}

}  // namespace

std::string ModelStore() {
  if (const char* home = std::getenv("ULLAGE_HOME"); home && *home) return home;
  const char* user = std::getenv("HOME");
  return std::string(user ? user : ".") + "/.ullage/models";
}

ModelSource FindModel(const std::string& model, const std::string& variant, bool plan_only) {
  ModelSource source;
  source.name = model;
  fs::path path(model);
  std::error_code error;
  if (!fs::exists(path, error)) {
    const fs::path store(ModelStore());
    for (const char* ending : {"", ".gguf", ".onnx"})
      if (!fs::path(model).is_absolute() && fs::exists(store / (model + ending), error)) {
        path = store / (model + ending);
        break;
      }
    if (!fs::exists(path, error))
      Throw(Code::kUsage, "there is no model \"", model, "\": neither a file or folder, nor a name in ",
            store.string());
  }
  if (fs::is_directory(path, error)) {
    source.folder = path.string();
    if (fs::exists(path / "genai_config.json", error)) {
      ReadGenAi(path, &source);
    } else {
      // A folder that holds one .gguf file, and no graph, stands for that file.
      std::vector<fs::path> ggufs;
      bool onnx = fs::exists(path / "onnx", error);
      for (const auto& entry : fs::directory_iterator(path, error)) {
        if (entry.path().extension() == ".gguf") ggufs.push_back(entry.path());
        onnx = onnx || entry.path().extension() == ".onnx";
      }
      if (ggufs.size() == 1 && !onnx) {
        ReadGguf(ggufs.front(), plan_only, &source);
      } else {
        ReadHuggingFace(path, variant, plan_only, &source);
      }
    }
    return source;
  }
  const std::string ending = path.extension().string();
  if (ending == ".gguf") {
    ReadGguf(path, plan_only, &source);
  } else if (ending == ".onnx") {
    source.kind = ModelSource::Kind::kOnnx;
    source.file = path.string();
    source.folder = path.parent_path().string();
    const fs::path folder = path.parent_path().empty() ? fs::path(".") : path.parent_path();
    ReadHfConfig(fs::exists(folder / "config.json", error) ? folder : folder / "..", &source);
  } else {
    Throw(Code::kUsage, model, " is neither a folder nor an .onnx or .gguf file");
  }
  return source;
}

std::shared_ptr<graph::Graph> LoadGraph(const ModelSource& source, bool plan_only, int64_t max_positions) {
  if (source.kind == ModelSource::Kind::kGguf) {
    gguf::ImportOptions options;
    options.require_data = !plan_only;
    options.max_positions = std::max<int64_t>(max_positions, 0);
    return gguf::ImportGguf(source.gguf, options);
  }
  onnx::ImportOptions options;
  options.require_data = !plan_only;
  options.is_known = [](std::string_view domain, std::string_view op, int version) {
    return ops::FindOp(domain, op, version) != nullptr;
  };
  return onnx::ImportOnnx(source.file, options);
}

}  // namespace ullage::llm
