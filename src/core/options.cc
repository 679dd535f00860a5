#include "core/options.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <mutex>
#include <vector>

#include "core/error.h"

namespace ullage {
namespace {

constexpr OptionSpec kOptions[] = {
    {"ep.cpu.activation_bits", OptionType::kInt, "0",
     "Bits of the activations in products with block-quantised weights: 8 (fastest prompts), 16, 24 (as "
     "exact as float "
     "arithmetic), or 0: 16 for GGUF and where an export permits quantised activations (accuracy_level 4), "
     "else 24."},
    {"ep.cpu.arena.extend_strategy", OptionType::kInt, "0",
     "How the arena for sizes without a bound grows: 0 in powers of two, 1 by what is asked for."},
    {"ep.cpu.arena.initial_chunk_size_bytes", OptionType::kSize, "1MiB", "The arena's first region."},
    {"ep.cpu.arena.initial_growth_chunk_size_bytes", OptionType::kSize, "2MiB",
     "The arena's second region, and the first one after it was shrunk."},
    {"ep.cpu.arena.max_dead_bytes_per_chunk", OptionType::kSize, "0",
     "Bytes that a block of the arena may leave unused before it is cut."},
    {"ep.cpu.arena.max_mem", OptionType::kSize, "0",
     "Most bytes that the arena takes; 0: no limit of its own."},
    {"ep.cpu.arena.max_power_of_two_extend_bytes", OptionType::kSize, "1GiB",
     "Size up to which the arena's regions double."},
    {"memory.enable_memory_arena_shrinkage", OptionType::kString, "",
     "Devices whose arena gives back what is free after each Run, as \"cpu:0\"; empty: none."},
    {"session.collect_node_memory_stats_live_peak", OptionType::kBool, "0",
     "Add a column with each node's largest scratch at one time to the node memory statistics."},
    {"session.collect_node_memory_stats_to_file", OptionType::kString, "",
     "CSV file that receives each node's memory statistics when the session ends; relative to the model's "
     "folder. Runs then allocate."},
    {"session.devices", OptionType::kString, "",
     "Devices that take part, in order of preference, comma separated; the host is always last. Empty: every "
     "real device."},
    {"session.disabled_passes", OptionType::kString, "",
     "Level-1 passes to leave out, comma separated; \"all\" for every optional one."},
    {"session.enable_static_workspace_preallocation", OptionType::kBool, "1",
     "The scratch of kernels has its places in the plan. It always has: 0 is refused."},
    {"session.insert_casts", OptionType::kBool, "1",
     "Nodes of float16 or bfloat16 may run in float32, between casts, on a device that has their kernel in "
     "that "
     "type only; 0: they go elsewhere. In strict mode only where it is given."},
    {"session.intra_op_num_threads", OptionType::kInt, "0", "Threads of a session; 0: physical cores."},
    {"session.kv_type", OptionType::kString, "",
     "How key/value caches are stored: float32, float16, bfloat16, int8 (a scale per 32 elements) or "
     "int8_head (a scale per head and token); empty: as the model says, float16 for GGUF."},
    {"session.layer_assignment_settings", OptionType::kString, "",
     "Where nodes go, by their layer_ann annotation: DEVICE(PREFIX, =TEXT, ...); DEVICE(...). The earliest "
     "matching prefix wins."},
    {"session.lock_execution_buffers", OptionType::kBool, "1",
     "Lock pre-allocated execution buffers in memory where the system permits it."},
    {"session.max_shape_override", OptionType::kString, "",
     "Upper bounds of graph inputs: name:[d0,d1];name2:[...], kept by every run."},
    {"session.name_based_layer_assignment", OptionType::kString, "",
     "Where nodes go, by their names: DEVICE(PART, layers.[0-15]/, ...); DEVICE(...). The longest match "
     "wins."},
    {"session.plan_concat", OptionType::kBool, "1",
     "Let nodes write their results to their places in the result of a Concat, where that takes no more "
     "memory."},
    {"session.plan_in_place", OptionType::kBool, "1",
     "Let nodes write their results over inputs that are not needed afterwards."},
    {"session.plan_order", OptionType::kBool, "1",
     "Run nodes in an order that takes less memory than the model's, where there is one."},
    {"session.plan_tile_rows", OptionType::kInt, "0",
     "Rows of a tile, of everything that can be cut in tiles; 0: chosen, and used where it takes less "
     "memory."},
    {"session.plan_tiles", OptionType::kBool, "1",
     "Run what works on each row by itself (the MLP of a layer, the head) for some rows after the other, "
     "where that takes less memory."},
    {"session.plan_views", OptionType::kBool, "1",
     "Let the results of Split and Slice lie inside their input, where their bytes lie together."},
    {"session.pre_allocate_execution_buffers", OptionType::kBool, "0",
     "Reserve all execution buffers when the session is made; a Run then allocates nothing, and one Run at a "
     "time is "
     "allowed."},
    {"session.prepacked_cache", OptionType::kString, "",
     "Folder in which packed weights are kept, so that the next session over the same model maps them; "
     "empty: none."},
    {"session.prepacked_cache_limit", OptionType::kSize, "16GiB",
     "Bytes that the files in session.prepacked_cache may take together: those that were used longest ago "
     "go."},
    {"session.resource_cuda_partitioning_settings", OptionType::kString, "",
     "Budget of the CUDA device: LIMIT_KB,STATS_FILE; either may be empty (free memory; no statistics)."},
    {"session.resource_partitioning_settings", OptionType::kString, "",
     "Budgets of devices: DEVICE:SIZE[,STATS_FILE]; ...; \"auto\" as the size: what is free."},
    {"session.resource_percent", OptionType::kInt, "100",
     "Of a device's free memory, less the reserve, how much a budget that is taken from it may be."},
    {"session.resource_reserve", OptionType::kSize, "256MiB",
     "Free memory that a budget taken from it leaves alone."},
    {"session.strict", OptionType::kBool, "0",
     "Everything that would be worked around silently is an error: rules without effect, nodes that do not "
     "go "
     "where they were sent, unknown workspaces, more workspace than was reserved."},
    {"session.strict_layer_assignment", OptionType::kBool, "0",
     "Rules that match nothing, that others shadow, or that cut numbers of names are errors."},
    {"session.strict_workspace_verification", OptionType::kBool, "0",
     "A kernel that declares more workspace than was reserved for its node is an error."},
    {"session.use_device_allocator_for_initializers", OptionType::kBool, "1",
     "Weights in memory are reserved outside of the arena. They always are: 0 is refused."},
    {"session.use_huge_pages", OptionType::kBool, "1",
     "Ask for huge pages behind prepacked weights and buffers."},
    {"session.weights_resident", OptionType::kString, "mapped",
     "Where weights lie that kernels read as the file stores them: mapped (in the file's pages, which the "
     "system "
     "may drop and read again), copied (in memory of the session), locked (mapped, and kept in memory with "
     "the "
     "prepacked ones), copied_locked."},
};

std::string Lower(std::string_view s) {
  std::string out(s);
  for (char& c : out) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return out;
}

bool ParseBool(std::string_view key, std::string_view value) {
  const std::string v = Lower(value);
  if (v == "1" || v == "true" || v == "on") return true;
  if (v == "0" || v == "false" || v == "off" || v.empty()) return false;
  Throw(Code::kUsage, "option ", key, ": expected 0 or 1, found \"", value, "\"");
}

int64_t ParseInt(std::string_view key, std::string_view value) {
  int64_t n = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), n);
  if (error != std::errc() || end != value.data() + value.size())
    Throw(Code::kUsage, "option ", key, ": expected an integer, found \"", value, "\"");
  return n;
}

void CheckValue(const OptionSpec& spec, std::string_view value) {
  switch (spec.type) {
    case OptionType::kBool:
      ParseBool(spec.key, value);
      break;
    case OptionType::kInt:
      ParseInt(spec.key, value);
      break;
    case OptionType::kSize:
      ParseSize(value);
      break;
    case OptionType::kString:
      break;
  }
}

/// Keys that were registered while the program runs. Never destroyed: their texts are handed out.
struct Registered {
  std::mutex mutex;
  std::deque<std::string> texts;
  std::deque<OptionSpec> specs;
  std::atomic<void (*)()> source{nullptr};
  std::once_flag asked;

  static Registered& Get() {
    static Registered& registered = *new Registered;
    return registered;
  }
  std::string_view Keep(std::string_view text) { return texts.emplace_back(text); }
  void AskSource() {
    if (const auto ask = source.load()) std::call_once(asked, ask);
  }
  const OptionSpec* Find(std::string_view key) {
    const std::lock_guard lock(mutex);
    for (const auto& spec : specs)
      if (spec.key == key) return &spec;
    return nullptr;
  }
};

const OptionSpec* FindOption(std::string_view key) {
  for (const auto& spec : kOptions)
    if (spec.key == key) return &spec;
  return Registered::Get().Find(key);
}

const OptionSpec& KnownOption(std::string_view key) {
  if (const auto* spec = FindOption(key)) return *spec;
  Registered::Get().AskSource();
  if (const auto* spec = FindOption(key)) return *spec;
  std::vector<std::string_view> keys;
  for (const auto& spec : AllOptions()) keys.push_back(spec.key);
  Throw(Code::kUsage, "unknown option ", key, "; the nearest is ", Nearest(key, keys));
}

}  // namespace

std::vector<OptionSpec> AllOptions() {
  Registered& more = Registered::Get();
  more.AskSource();
  std::vector<OptionSpec> all(std::begin(kOptions), std::end(kOptions));
  {
    const std::lock_guard lock(more.mutex);
    all.insert(all.end(), more.specs.begin(), more.specs.end());
  }
  std::sort(all.begin(), all.end(), [](const OptionSpec& a, const OptionSpec& b) { return a.key < b.key; });
  return all;
}

void RegisterOption(const OptionSpec& spec) {
  CheckValue(spec, spec.default_value);
  if (spec.key.empty() || FindOption(spec.key)) Throw(Code::kUsage, "option ", spec.key, " exists already");
  Registered& more = Registered::Get();
  const std::lock_guard lock(more.mutex);
  more.specs.push_back({more.Keep(spec.key), spec.type, more.Keep(spec.default_value), more.Keep(spec.doc)});
}

void SetOptionSource(void (*source)()) {
  Registered::Get().source = source;
}

void OptionBag::Set(std::string_view key, std::string_view value) {
  CheckValue(KnownOption(key), value);
  values_[std::string(key)] = value;
}

void OptionBag::SetPair(std::string_view pair) {
  const auto eq = pair.find('=');
  if (eq == std::string_view::npos) Throw(Code::kUsage, "expected KEY=VALUE, found \"", pair, "\"");
  Set(pair.substr(0, eq), pair.substr(eq + 1));
}

std::string OptionBag::Str(std::string_view key) const {
  const auto it = values_.find(key);
  return it != values_.end() ? it->second : std::string(KnownOption(key).default_value);
}

bool OptionBag::Bool(std::string_view key) const {
  return ParseBool(key, Str(key));
}
int64_t OptionBag::Int(std::string_view key) const {
  return ParseInt(key, Str(key));
}
int64_t OptionBag::Size(std::string_view key) const {
  return ParseSize(Str(key));
}

int64_t ParseSize(std::string_view text) {
  struct Unit {
    std::string_view name;
    double factor;
  };
  constexpr Unit kUnits[] = {
      {"", 1},      {"b", 1},        {"kb", 1e3},        {"mb", 1e6},           {"gb", 1e9},
      {"tb", 1e12}, {"kib", 1024.0}, {"mib", 1048576.0}, {"gib", 1073741824.0}, {"tib", 1099511627776.0}};
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string unit = Lower(std::string_view(end, static_cast<size_t>(text.data() + text.size() - end)));
  if (error == std::errc() && number >= 0 && std::isfinite(number))
    for (const auto& u : kUnits)
      if (u.name == unit && number * u.factor < 9e18)
        return static_cast<int64_t>(std::llround(number * u.factor));
  Throw(Code::kUsage, "expected a size such as 512MiB, 6GiB, 1.5GB or plain bytes, found \"", text, "\"");
}

std::string FormatSize(int64_t bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double n = static_cast<double>(bytes);
  int u = 0;
  while (std::abs(n) >= 1024 && u < 4) {
    n /= 1024;
    ++u;
  }
  char text[48];
  std::snprintf(text, sizeof text, u == 0 ? "%.0f %s" : "%.1f %s", n, units[u]);
  return text;
}

std::string_view Nearest(std::string_view word, std::span<const std::string_view> candidates) {
  std::string_view best;
  size_t best_distance = SIZE_MAX;
  for (std::string_view c : candidates) {
    std::vector<size_t> row(c.size() + 1);
    for (size_t j = 0; j <= c.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= word.size(); ++i) {
      size_t diagonal = row[0];
      row[0] = i;
      for (size_t j = 1; j <= c.size(); ++j) {
        const size_t change = diagonal + (word[i - 1] == c[j - 1] ? 0 : 1);
        diagonal = row[j];
        row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
      }
    }
    if (row[c.size()] < best_distance) {
      best_distance = row[c.size()];
      best = c;
    }
  }
  return best;
}

}  // namespace ullage
