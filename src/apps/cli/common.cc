#include "apps/cli/common.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/error.h"
#include "memory/allocator.h"
#include "placement/place.h"

namespace ullage::cli {

using Json = nlohmann::ordered_json;

namespace {
const auto kStart = std::chrono::steady_clock::now();

/// Rules and limits, checked before a model is read. Limits of devices other than the host become budgets of
/// the session.
void ReadPlacement(const Args& args, ModelOptions* m) {
  constexpr std::string_view kBudgets = "session.resource_partitioning_settings";
  const auto devices = placement::ReadDevices(m->options, providers::AllProviders(m->options));
  std::vector<providers::DeviceInfo> infos;
  for (const auto& d : devices) infos.push_back(d.info);
  for (const auto& rule : placement::ReadRules(m->options).rules)
    placement::RequireDevice(rule.device, infos);
  m->cpu_limit = placement::ResolveBudgets(
                     std::nullopt, placement::ParseBudgetSettings(m->options.Str(kBudgets)), infos,
                     m->options.Size("session.resource_reserve"), m->options.Int("session.resource_percent"))
                     .back()
                     .limit_bytes;
  for (const auto& limit : args.Values("--limit")) {
    const auto eq = limit.find('=');
    if (eq == std::string::npos) Throw(Code::kUsage, "--limit: expected DEVICE=SIZE, found \"", limit, "\"");
    const std::string name = limit.substr(0, eq);
    const size_t device = placement::RequireDevice(placement::ParseDesignator(name), infos);
    const int64_t bytes = ParseSize(std::string_view(limit).substr(eq + 1));
    if (device + 1 == infos.size())
      m->cpu_limit = std::min(bytes, m->cpu_limit.value_or(bytes));
    else
      m->options.Set(kBudgets, StrCat(m->options.Str(kBudgets), ";", name, ":", bytes));
  }
}
}  // namespace

std::atomic<bool> g_interrupted{false};

void ListenForInterrupt() {
  struct sigaction action = {};
  action.sa_handler = [](int) { g_interrupted.store(true); };
  sigaction(SIGINT, &action, nullptr);
}

double SecondsSinceStart() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - kStart).count();
}

std::set<std::string> ModelFlags(std::set<std::string> more) {
  more.insert({"--option", "--threads", "--device", "--limit", "--assign", "--annotations", "--context",
               "--batch-chunk", "--variant", "--log-level", "--kv-type"});
  return more;
}

std::set<std::string> ModelSwitches(std::set<std::string> more) {
  more.insert({"--json", "--strict", "-v", "--log-json"});
  return more;
}

ModelOptions ReadModelOptions(const Args& args) {
  ModelOptions m;
  m.json = args.Has("--json");
  for (const auto& pair : args.Values("--option")) m.options.SetPair(pair);
  m.threads = static_cast<int>(args.Int("--threads", 0, 1));
  m.context = args.Value("--context") == "auto" ? llm::kLargestContext : args.Int("--context", 0, 1);
  m.chunk = args.Int("--batch-chunk", 0, 1);
  m.variant = args.Value("--variant").value_or("");
  if (const auto kv = args.Value("--kv-type")) m.options.Set("session.kv_type", *kv);
  if (const auto devices = args.Value("--device")) m.options.Set("session.devices", *devices);
  if (const auto rules = args.Value("--assign")) m.options.Set("session.name_based_layer_assignment", *rules);
  if (const auto rules = args.Value("--annotations"))
    m.options.Set("session.layer_assignment_settings", *rules);
  if (args.Has("--strict")) m.options.Set("session.strict", "1");
  ReadPlacement(args, &m);
  return m;
}

llm::DecoderOptions DecoderOptionsOf(const ModelOptions& m, const llm::Tokenizer* tokenizer) {
  llm::DecoderOptions d;
  d.options = m.options;
  d.threads = m.threads;
  d.context = m.context;
  d.chunk = m.chunk;
  d.cpu_limit = m.cpu_limit;
  if (tokenizer)
    d.extra.push_back({"tokenizer", memory::Tag::kOverhead, static_cast<int64_t>(tokenizer->memory_bytes())});
  return d;
}

std::shared_ptr<const llm::Tokenizer> TokenizerIfAny(const llm::ModelSource& source) {
  std::shared_ptr<const llm::Tokenizer> tokenizer;
  try {
    tokenizer = llm::LoadTokenizer(source);
  } catch (const Error&) {
  }
  memory::TrimHeap();
  return tokenizer;
}

void PrintWarnings(const session::Session& session) {
  for (const auto* list : {&session.placed().warnings(), &session.warnings()})
    for (const auto& warning : *list) std::cerr << "ullage: warning: " << warning << "\n";
}

int PrintError(const Error& error, bool json) {
  if (json) {
    Json details = Json::parse(error.details_json(), nullptr, false);
    if (details.is_discarded()) details = Json::object();
    std::cout
        << Line({{"error",
                  {{"code", CodeName(error.code())}, {"message", error.message()}, {"details", details}}}})
        << "\n";
  } else {
    std::cerr << "ullage: " << error.message() << "\n";
  }
  return ExitStatus(error.code());
}

std::string Line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace ullage::cli
