/// libullage_plugin_reference: simulated devices that run the host's own kernels.
#include <algorithm>
#include <optional>
#include <set>

#include "kernels/lookup.h"
#include "ops/catalogue.h"
#include "providers/cpu/kernels/all_families.h"
#include "reference/group.h"
#include "reference/kernel.h"

namespace ullage::reference {

using plugin::Failure;

namespace {

/// Operators whose kernels state the shape of their results: compute then lasts until they are done.
constexpr std::string_view kLate[] = {"NonZero", "Compress", "Unique", "NonMaxSuppression"};

class Provider {
 public:
  explicit Provider(const plugin::Options& options)
      : bag_(plugin::BagOf(options)), faults_(std::make_shared<Faults>(options.Int("ep.reference.fail_at"))) {
    const auto number = [&](const char* key, int64_t least, int64_t most) {
      const int64_t n = options.Int(key);
      if (n < least || n > most)
        throw Failure(ULLAGE_INVALID_ARGUMENT,
                      StrCat("option ", key, ": expected ", least, " to ", most, ", found ", n));
      return static_cast<uint64_t>(n);
    };
    settings_.devices = static_cast<int>(number("ep.reference.devices", 1, 64));
    settings_.capacity = number("ep.reference.capacity", 0, int64_t{1} << 50);
    settings_.bandwidth = number("ep.reference.copy_bandwidth", 0, INT64_MAX);
    settings_.jitter_us = number("ep.reference.jitter_us", 0, 1000000);
    settings_.fuse = number("ep.reference.fuse", 0, 256);
    settings_.overlap = number("ep.reference.overlap", 0, 1) != 0;
    settings_.peer_copies = number("ep.reference.peer_copies", 0, 1) != 0;
    const std::string type = options.Text("ep.reference.type");
    if (type != "gpu" && type != "npu")
      throw Failure(ULLAGE_INVALID_ARGUMENT,
                    "option ep.reference.type: expected gpu or npu, found \"" + type + "\"");
    settings_.type = type == "gpu" ? ULLAGE_DEVICE_GPU : ULLAGE_DEVICE_NPU;
    Register(TypesOf(options.Text("ep.reference.types")));
    ChooseKernels(options.Text("ep.reference.kernels"));
  }

  std::vector<ullage_device_info> devices() const {
    std::vector<ullage_device_info> all;
    for (int i = 0; i < settings_.devices; ++i) {
      auto& info = all.emplace_back(plugin::Sized<ullage_device_info>());
      info.type = settings_.type;
      info.name = "simulated device";
      info.vendor = "ullage";
      info.ordinal = i;
      info.flags = ULLAGE_DEVICE_CONCURRENT | ULLAGE_DEVICE_ONLY_WHEN_NAMED;
      info.total_bytes = settings_.capacity;
      info.units = 1;
      info.alignment = kAlignment;
      info.copy_bandwidth = settings_.bandwidth;
    }
    return all;
  }
  std::unique_ptr<Device> Open(int32_t ordinal) {
    if (ordinal < 0 || ordinal >= settings_.devices)
      throw Failure(ULLAGE_INVALID_ARGUMENT, StrCat("there is no device ", ordinal));
    faults_->Call("open_device");
    return std::make_unique<Device>(settings_, faults_);
  }
  void Register(ullage_registry* registry) {
    for (auto& entry : entries_) entry->Register(registry);
  }
  void Propose(Device&, const plugin::Graph& graph, plugin::Sink& sink) {
    sink.OfferRest();
    for (const auto& nodes : FindChains(graph, settings_.fuse, [&](const auto& info) { return Find(info); }))
      sink.Propose(nodes, true, EstimateGroup(graph, nodes), ++proposals_);
  }
  void Tell(uint64_t, ullage_verdict) {}
  std::unique_ptr<plugin::Kernel> Compile(Device& device, uint64_t, const plugin::Graph& group) {
    auto kernel = std::make_unique<GroupKernel>(group, [&](const auto& info) { return Find(info); });
    return std::make_unique<QueuedKernel>(std::move(kernel), device, group.inputs(), group.outputs());
  }

 private:
  /// Of the kernels that were chosen; null: none.
  const kernels::KernelDef* Find(const kernels::KernelInfo& info) const {
    kernels::Refusal refusal;
    const auto* def = kernels::FindKernel(registry_, info, &refusal);
    const bool chosen = std::any_of(entries_.begin(), entries_.end(),
                                    [&](const auto& entry) { return &entry->def() == def; });
    return chosen ? def : nullptr;
  }

  using Words = std::set<std::string, std::less<>>;
  static Words Split(const std::string& list) {
    Words words;
    for (size_t at = 0; at < list.size();) {
      const size_t comma = std::min(list.find(',', at), list.size());
      words.insert(list.substr(at, comma - at));
      at = comma + 1;
    }
    return words;
  }

  /// "all", or element types by their names, comma separated; nothing: all.
  static std::optional<kernels::TypeSet> TypesOf(const std::string& list) {
    Words wanted = Split(list);
    if (wanted.count("all")) return std::nullopt;
    kernels::TypeSet types;
    for (int t = 1; t < 64; ++t)
      if (wanted.erase(std::string(NameOf(static_cast<DType>(t)))) > 0)
        types = types | kernels::TypeSet{static_cast<DType>(t)};
    if (!wanted.empty())
      throw Failure(ULLAGE_INVALID_ARGUMENT,
                    "option ep.reference.types: there is no type " + *wanted.begin());
    return types;
  }

  /// The host's kernels, for tensors of those types only.
  void Register(const std::optional<kernels::TypeSet>& types) {
    if (!types) return cpu::RegisterAll(registry_);
    kernels::Registry all;
    cpu::RegisterAll(all);
    for (kernels::KernelDef def : all.all()) {
      def.refuse = [types = *types,
                    finer = def.refuse](const kernels::KernelInfo& info) -> std::optional<std::string> {
        for (const auto facts : {info.inputs, info.outputs})
          for (const ops::ValueFacts& f : facts)
            if (f.dtype != DType::kUndefined && !types.contains(f.dtype))
              return StrCat("no kernel for ", info.node.OpName(), " with type ", NameOf(f.dtype));
        return finer ? finer(info) : std::nullopt;
      };
      registry_.Add(std::move(def));
    }
  }

  /// "all", or operators with or without their domain, comma separated.
  void ChooseKernels(const std::string& list) {
    const Words wanted = Split(list);
    Words found;
    const bool all = wanted.count("all") > 0;
    for (const auto& def : registry_.all()) {
      const std::string op(def.op), name = def.domain.empty() ? op : StrCat(def.domain, ":", op);
      if (!all && !wanted.count(name) && !wanted.count(op)) continue;
      found.insert(name);
      found.insert(op);
      if (!ops::FindOp(def.domain, def.op, 0)) continue;  // a helper kernel that no graph names
      const bool late =
          def.domain.empty() && std::find(std::begin(kLate), std::end(kLate), op) != std::end(kLate);
      entries_.push_back(std::make_unique<plugin::SharedEntry>(
          def, bag_, 1, late, plugin::CreateKernel<QueuedKernel, plugin::SharedEntry>));
    }
    for (const auto& name : wanted)
      if (name != "all" && !found.count(name))
        throw Failure(ULLAGE_INVALID_ARGUMENT, "option ep.reference.kernels: there is no kernel for " + name);
  }

  OptionBag bag_;
  std::shared_ptr<Faults> faults_;
  Settings settings_;
  kernels::Registry registry_;
  std::vector<std::unique_ptr<plugin::SharedEntry>> entries_;
  std::atomic<uint64_t> proposals_{0};
};

constexpr ullage_option_info Option(const char* key, ullage_option_type type, const char* value,
                                    const char* doc) {
  return {sizeof(ullage_option_info), key, type, 0, value, doc};
}

constexpr ullage_option_info kOptions[] = {
    Option("ep.reference.capacity", ULLAGE_OPTION_SIZE, "4GiB",
           "Bytes of each simulated device; it hands out no more."),
    Option("ep.reference.copy_bandwidth", ULLAGE_OPTION_SIZE, "0",
           "Bytes per second between the host and a simulated device; 0: no limit."),
    Option("ep.reference.devices", ULLAGE_OPTION_INT, "1", "Number of simulated devices."),
    Option("ep.reference.fail_at", ULLAGE_OPTION_INT, "0",
           "Call of a simulated device that fails, counted from 1 over all of them; 0: none."),
    Option("ep.reference.fuse", ULLAGE_OPTION_INT, "0",
           "Most element-wise nodes that a simulated device proposes to run as one; below 2: none."),
    Option("ep.reference.jitter_us", ULLAGE_OPTION_INT, "0",
           "Most microseconds that a simulated device delays each command, at random."),
    Option("ep.reference.kernels", ULLAGE_OPTION_STRING, "all",
           "Operators that a simulated device supports, comma separated."),
    Option("ep.reference.overlap", ULLAGE_OPTION_BOOL, "1", "A simulated device copies while it computes."),
    Option("ep.reference.peer_copies", ULLAGE_OPTION_BOOL, "1",
           "Copies between two simulated devices skip the host."),
    Option("ep.reference.type", ULLAGE_OPTION_STRING, "gpu",
           "What a simulated device is taken for: gpu or npu."),
    Option("ep.reference.types", ULLAGE_OPTION_STRING, "all",
           "Element types that a simulated device computes with, comma separated, as \"float32,int64\"."),
};

const ullage_plugin_api& Plugin() {
  static const ullage_provider_api provider = [] {
    auto table = plugin::ProviderTable<Provider, Device, Buffer, Stream, Event>();
    table.name = "reference";
    table.vendor = "ullage";
    table.version = "1";
    table.options = kOptions;
    table.option_count = std::size(kOptions);
    table.probe = []() -> uint32_t { return 0; };  // takes part only when it is named
    plugin::g_code_of = plugin::CodeOf;
    return table;
  }();
  static const ullage_provider_api* const providers[] = {&provider};
  static const ullage_plugin_api api{sizeof(ullage_plugin_api), ULLAGE_ABI_VERSION, 1, providers, [] {}};
  return api;
}

}  // namespace
}  // namespace ullage::reference

ULLAGE_PLUGIN(ullage::reference::Plugin())
