#include "apps/cli/common.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/error.h"
#include "providers/provider.h"

namespace ullage::cli {

using Json = nlohmann::ordered_json;

namespace {
const auto kStart = std::chrono::steady_clock::now();

/// Refuses device names other than the host's.
void CheckDevice(std::string_view name) {
  const std::string_view base = name.substr(0, name.find(':'));
  if (base == "cpu" && (base.size() == name.size() || name == "cpu:0")) return;
  std::string known;
  for (const auto& d : providers::CpuProvider().devices()) known += (known.empty() ? "" : ", ") + d.name;
  Throw(Code::kUnsupported, "there is no device ", name, "; this machine has ", known);
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
  if (const auto devices = args.Value("--device")) {
    std::stringstream list(*devices);
    for (std::string name; std::getline(list, name, ',');) CheckDevice(name);
  }
  for (const auto& limit : args.Values("--limit")) {
    const auto eq = limit.find('=');
    if (eq == std::string::npos) Throw(Code::kUsage, "--limit: expected DEVICE=SIZE, found \"", limit, "\"");
    CheckDevice(limit.substr(0, eq));
    m.cpu_limit = ParseSize(std::string_view(limit).substr(eq + 1));
  }
  for (const char* flag : {"--assign", "--annotations"})
    if (args.Has(flag))
      Throw(Code::kUnsupported, flag, ": placement on several devices is not built; all nodes run on cpu");
  return m;
}

llm::DecoderOptions DecoderOptionsOf(const ModelOptions& m) {
  llm::DecoderOptions d;
  d.options = m.options;
  d.threads = m.threads;
  d.context = m.context;
  d.chunk = m.chunk;
  d.cpu_limit = m.cpu_limit;
  return d;
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
