/// ullage bench: tokens per second, load time, bytes and the machine's read bandwidth.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "apps/cli/common.h"
#include "apps/cli/graph_session.h"
#include "core/error.h"
#include "llm/fit.h"
#include "memory/allocator.h"

namespace ullage::cli {

using Json = nlohmann::ordered_json;

namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Json Spread(std::vector<double> v) {
  if (v.empty()) return nullptr;
  std::sort(v.begin(), v.end());
  const size_t n = v.size();
  const double median = n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
  return {{"min", v.front()}, {"median", median}, {"max", v.back()}};
}

/// Bytes per second that the team reads from memory: the best of several passes over 256 MiB.
double ReadBandwidth(ThreadTeam& team) {
  const size_t bytes = size_t{256} << 20;
  memory::HostRegion region(bytes);
  std::memset(region.data(), 1, bytes);
  const auto* words = reinterpret_cast<const uint64_t*>(region.data());
  const int64_t chunk = 1 << 16, chunks = static_cast<int64_t>(bytes / 8) / chunk;
  std::vector<uint64_t> sums(static_cast<size_t>(chunks));
  double best = 0;
  for (int pass = 0; pass < 5; ++pass) {
    const double start = Now();
    team.Run(chunks, [&](int64_t c, int) {
      uint64_t s[8] = {};
      for (int64_t i = c * chunk; i < (c + 1) * chunk; i += 8)
        for (int k = 0; k < 8; ++k) s[k] += words[i + k];
      sums[static_cast<size_t>(c)] = s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7];
    });
    best = std::max(best, static_cast<double>(bytes) / (Now() - start));
  }
  return best;
}

/// Latency of a plain graph on zeros (or ones for masks of ids), at the bounds given.
int BenchGraph(const llm::ModelSource& source, const ModelOptions& options, const Args& args) {
  const auto flags = args.Values("--shape");
  const auto plan = PlanGraph(source, options, flags);
  std::map<std::string, Shape> shapes;
  std::vector<std::vector<std::byte>> data;
  std::vector<TensorView> views;
  const auto profiles = plan->profile_plans();
  for (const auto& [name, dims] : profiles.front().bounds) {
    TensorView v;
    v.dtype = plan->graph().value(plan->graph().FindValue(name)).dtype;
    v.shape = Shape(std::span<const int64_t>(dims));
    data.emplace_back(v.bytes() + 64);
    v.data = data.back().data();
    views.push_back(v);
    shapes[name] = v.shape;
  }
  api::GraphOptions exact = GraphOptionsOf(source, options, flags);
  exact.actual = api::ExactFacts(plan->graph(), shapes);
  exact.one_run = true;
  const double start = Now();
  const auto session = api::CreateGraphSession(LoaderOf(source, options), source.name, exact);
  const double load = Now() - start;
  std::vector<double> latency;
  session::Execution execution = session->Run(0, views);
  for (int64_t r = 0; r < args.Int("-r", 5, 1); ++r) {
    const double t = Now();
    execution.Run(0);
    latency.push_back(Now() - t);
  }
  Json out;
  out["latency_s"] = Spread(latency);
  out["load_s"] = load;
  out["memory"] = Json::parse(session::MemoryJson(*session));
  if (options.json)
    std::cout << Line(out) << "\n";
  else
    std::cout << "latency " << out["latency_s"]["median"].get<double>() * 1e3 << " ms, load " << load
              << " s\n";
  return 0;
}

}  // namespace

int BenchCommand(const std::vector<std::string>& arguments) {
  const Args args(arguments, ModelFlags({"-p", "-n", "--depth", "-r", "--shape", "--seed"}), ModelSwitches());
  const ModelOptions options = ReadModelOptions(args);
  const llm::ModelSource source = llm::FindModel(args.Model(), options.variant, false);
  const int64_t prompt = args.Int("-p", 512, 0), decode = args.Int("-n", 128, 0),
                depth = args.Int("--depth", 0, 0);
  const int64_t repeat = args.Int("-r", 5, 1);
  if (args.Has("--shape")) return BenchGraph(source, options, args);
  const auto tokenizer = TokenizerIfAny(source);  // not used, but held as by `run`
  llm::DecoderOptions d = DecoderOptionsOf(options, tokenizer.get());
  if (d.context == 0) d.context = std::max<int64_t>(depth + std::max(prompt, decode + 1), 64);
  const double load_start = Now();
  std::unique_ptr<llm::Decoder> decoder;
  try {
    decoder = llm::CreateFitting(source, d);
  } catch (const Error& error) {
    if (error.code() != Code::kUnsupported) throw;
    return BenchGraph(source, options, args);
  }
  const double load = Now() - load_start;
  PrintWarnings(decoder->session());
  std::mt19937 random(static_cast<uint32_t>(args.Int("--seed", 1)));
  const auto tokens = [&](int64_t n) {
    std::vector<int32_t> ids(static_cast<size_t>(n));
    for (auto& id : ids) id = static_cast<int32_t>(random() % static_cast<uint64_t>(decoder->vocabulary()));
    return ids;
  };
  std::vector<double> prefill_rates, decode_rates;
  double first_token = 0;
  const auto set_depth = [&](int64_t n) {
    if (static_cast<int64_t>(decoder->tokens().size()) >= n && decoder->Rewind(n) == n) return;
    decoder->Feed(tokens(n - static_cast<int64_t>(decoder->tokens().size())));
  };
  decoder->Feed(tokens(1));  // the first call touches every page
  for (int64_t r = 0; r < repeat; ++r) {
    if (prompt > 0) {
      decoder->Rewind(0);
      if (depth > 0) set_depth(depth);
      const auto ids = tokens(prompt);
      const double start = Now();
      decoder->Feed(ids);
      const double took = Now() - start;
      prefill_rates.push_back(static_cast<double>(prompt) / took);
      if (r == 0) first_token = load + took;
    }
    if (decode > 0) {
      decoder->Rewind(0);
      if (depth > 0) set_depth(depth);
      const auto ids = tokens(decode);
      const double start = Now();
      for (const int32_t& id : ids) decoder->Feed({&id, 1});
      decode_rates.push_back(static_cast<double>(decode) / (Now() - start));
    }
  }
  Json out;
  out["prefill_tokens_per_s"] = Spread(prefill_rates);
  out["decode_tokens_per_s"] = Spread(decode_rates);
  out["load_s"] = load;
  out["first_token_s"] = first_token;
  out["weight_bytes_per_token"] = decoder->session().step_weight_bytes();
  out["read_bandwidth_bytes_per_s"] = ReadBandwidth(decoder->session().team());
  out["memory"] = Json::parse(session::MemoryJson(decoder->session()));
  if (options.json) {
    std::cout << Line(out) << "\n";
    return 0;
  }
  const auto show = [](const char* name, const Json& s) {
    if (s.is_null()) return;
    std::printf("%-9s %8.1f tokens/s   (%.1f to %.1f)\n", name, s["median"].get<double>(),
                s["min"].get<double>(), s["max"].get<double>());
  };
  show("prefill", out["prefill_tokens_per_s"]);
  show("decode", out["decode_tokens_per_s"]);
  const double bandwidth = out["read_bandwidth_bytes_per_s"].get<double>();
  std::printf("load      %8.3f s, first token after %.3f s\n", load, first_token);
  std::printf("weights   %s per token; memory reads %.1f GB/s",
              FormatSize(decoder->session().step_weight_bytes()).c_str(), bandwidth / 1e9);
  if (!decode_rates.empty())
    std::printf(", decoding uses %.0f %% of it",
                100 * out["decode_tokens_per_s"]["median"].get<double>() *
                    static_cast<double>(decoder->session().step_weight_bytes()) / bandwidth);
  std::printf("\n");
  const auto& plans = decoder->session().device_plans();
  for (size_t i = 0; i < plans.size(); ++i)
    std::printf("memory    %s: %s planned, %s at the peak\n", plans[i].name.c_str(),
                FormatSize(plans[i].tags.Sum()).c_str(),
                FormatSize(decoder->session().peak_bytes(i)).c_str());
  return 0;
}

}  // namespace ullage::cli
