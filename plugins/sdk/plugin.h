/// C++ over the device ABI: exceptions for statuses, values for out-parameters, classes for tables.
///
/// A plugin derives from Kernel and, for a device of its own, gives ProviderTable() the classes that stand
/// for its objects. Nothing thrown leaves the plugin: every function that the host calls turns exceptions
/// into statuses. Header only; needs nothing but ullage/plugin/abi.h. docs/recipes tells how to begin.
#pragma once

#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "ullage/plugin/abi.h"

namespace ullage::plugin {

/// The host's table, of which no more than its size says may be used. Set by the plugin's entry.
inline const ullage_host_api* g_host = nullptr;
inline const ullage_host_api& Host() {
  return *g_host;
}

/// What a plugin throws.
class Failure : public std::exception {
 public:
  Failure(ullage_code code, std::string message) : code_(code), message_(std::move(message)) {}
  ullage_code code() const { return code_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  ullage_code code_;
  std::string message_;
};

/// A status of the host on its way back to it: handed on as it is.
struct HostFailure {
  ullage_status* status;
};

inline void Check(ullage_status* status) {
  if (status) throw HostFailure{status};
}

/// Turns exceptions that the SDK does not know into codes; null: FAILED.
using CodeOfFn = ullage_code (*)(const std::exception&);
inline CodeOfFn g_code_of = nullptr;

/// Runs `fn`; what it throws becomes a status.
template <class Fn>
ullage_status* Guard(const Fn& fn) noexcept {
  try {
    fn();
    return nullptr;
  } catch (const HostFailure& e) {
    return e.status;
  } catch (const Failure& e) {
    return Host().create_status(e.code(), e.what());
  } catch (const std::bad_alloc&) {
    return Host().create_status(ULLAGE_OUT_OF_MEMORY, "the plugin has no host memory left");
  } catch (const std::exception& e) {
    return Host().create_status(g_code_of ? g_code_of(e) : ULLAGE_FAILED, e.what());
  } catch (...) {
    return Host().create_status(ULLAGE_FAILED, "unknown failure");
  }
}

/// A struct that states its size.
template <class T>
T Sized() {
  T made{};
  made.size = sizeof(T);
  return made;
}

/// Options of a session. Valid as long as the host's object.
class Options {
 public:
  explicit Options(const ullage_options* options) : options_(options) {}
  std::string Text(const char* key) const {
    const char* text = Host().option(options_, key);
    if (!text) throw Failure(ULLAGE_FAILED, std::string("the host knows no option ") + key);
    return text;
  }
  int64_t Int(const char* key) const { return std::stoll(Text(key)); }
  const ullage_options* get() const { return options_; }

 private:
  const ullage_options* options_;
};

/// A node as the host shows it. Valid as long as the host's object.
class Node {
 public:
  explicit Node(const ullage_node* node) : node_(node) {}
  const ullage_node* get() const { return node_; }
  std::string name() const { return Host().node_name(node_); }
  std::string domain() const { return Host().node_domain(node_); }
  std::string op() const { return Host().node_op(node_); }
  int opset() const { return Host().node_opset(node_); }
  size_t inputs() const { return Host().node_inputs(node_); }
  size_t outputs() const { return Host().node_outputs(node_); }

  ullage_value_info input(size_t i) const { return Info(Host().node_input, i); }
  ullage_value_info output(size_t i) const { return Info(Host().node_output, i); }
  struct Bytes {
    const void* data = nullptr;
    uint64_t count = 0;
  };
  Bytes constant(size_t i) const {
    Bytes bytes;
    Check(Host().node_constant(node_, i, &bytes.data, &bytes.count));
    return bytes;
  }

  ullage_attribute_type type(const char* name) const { return Host().attribute_type(node_, name); }
  std::optional<int64_t> Int(const char* name) const { return Scalar<int64_t>(Host().attribute_int, name); }
  std::optional<float> Float(const char* name) const { return Scalar<float>(Host().attribute_float, name); }
  std::optional<std::string_view> Str(const char* name) const {
    const char* text = nullptr;
    uint64_t count = 0;
    uint32_t found = 0;
    Check(Host().attribute_string(node_, name, &text, &count, &found));
    return found ? std::optional(std::string_view(text, count)) : std::nullopt;
  }
  std::span<const int64_t> Ints(const char* name) const { return List<int64_t>(Host().attribute_ints, name); }
  std::span<const float> Floats(const char* name) const { return List<float>(Host().attribute_floats, name); }
  std::vector<std::string> Strings(const char* name) const {
    std::vector<std::string> all;
    for (size_t i = 0;; ++i) {
      const char* text = nullptr;
      uint64_t count = 0;
      uint32_t found = 0;
      Check(Host().attribute_string_at(node_, name, i, &text, &count, &found));
      if (!found) return all;
      all.emplace_back(text, count);
    }
  }

 private:
  template <class Fn>
  ullage_value_info Info(Fn fn, size_t i) const {
    auto info = Sized<ullage_value_info>();
    Check(fn(node_, i, &info));
    return info;
  }
  template <class T, class Fn>
  std::optional<T> Scalar(Fn fn, const char* name) const {
    T value{};
    uint32_t found = 0;
    Check(fn(node_, name, &value, &found));
    return found ? std::optional(value) : std::nullopt;
  }
  template <class T, class Fn>
  std::span<const T> List(Fn fn, const char* name) const {
    const T* values = nullptr;
    size_t count = 0;
    uint32_t found = 0;
    Check(fn(node_, name, &values, &count, &found));
    return {values, found ? count : 0};
  }
  const ullage_node* node_;
};

/// Nodes that are offered, in topological order, or a group to compile. Valid as long as the host's object.
class Graph {
 public:
  explicit Graph(const ullage_graph* graph) : graph_(graph) {}
  size_t size() const { return Host().graph_size(graph_); }
  Node node(size_t i) const { return Node(Host().graph_node(graph_, i)); }
  /// The node of this view that makes an input, and as which output; SIZE_MAX: none of them.
  size_t producer(const Node& node, size_t input) const {
    return Host().node_producer(graph_, node.get(), input);
  }
  size_t producer_output(const Node& node, size_t input) const {
    return Host().node_producer_output(graph_, node.get(), input);
  }
  /// Of a group: what its kernel has; which of them those of a node are, SIZE_MAX: none.
  size_t inputs() const { return Host().group_inputs(graph_); }
  size_t outputs() const { return Host().group_outputs(graph_); }
  size_t input(const Node& node, size_t i) const { return Host().group_input(graph_, node.get(), i); }
  size_t output(const Node& node, size_t o) const { return Host().group_output(graph_, node.get(), o); }

 private:
  const ullage_graph* graph_;
};

/// Takes proposals.
class Sink {
 public:
  explicit Sink(ullage_sink* sink) : sink_(sink) {}
  void Propose(std::span<const size_t> nodes, bool fused, const ullage_estimate& estimate, uint64_t id) {
    auto proposal = Sized<ullage_proposal>();
    proposal.nodes = nodes.data();
    proposal.node_count = nodes.size();
    proposal.fused = fused;
    proposal.estimate = estimate;
    proposal.id = id;
    Check(Host().add_proposal(sink_, &proposal));
  }
  /// Nodes of no proposal are to be offered one by one.
  void OfferRest() { Check(Host().offer_rest(sink_)); }
  /// Bytes that the device would still be granted; nothing: no limit.
  std::optional<uint64_t> budget() const {
    ullage_resource_count count{};
    Check(Host().remaining_budget(sink_, &count));
    return count.kind == ULLAGE_RESOURCE_BYTES ? std::optional(count.value.bytes) : std::nullopt;
  }

 private:
  ullage_sink* sink_;
};

/// One call of compute.
class Context {
 public:
  explicit Context(ullage_context* context) : context_(context) {}
  ullage_context* get() const { return context_; }
  /// dtype 0: left out, not wanted.
  ullage_tensor input(size_t i) const { return Tensor(Host().input, i); }
  ullage_tensor output(size_t i) const { return Tensor(Host().output, i); }
  void SetOutputShape(size_t i, std::span<const int64_t> dims) const {
    Check(Host().set_output_shape(context_, i, dims.size(), dims.data()));
  }
  /// `bytes` 0: nothing was planned, or less.
  ullage_region Workspace(uint32_t slot, uint64_t bytes) const {
    auto region = Sized<ullage_region>();
    Check(Host().workspace(context_, slot, bytes, &region));
    return region;
  }
  ullage_region Scratch(uint32_t slot, uint64_t bytes, uint32_t alignment) const {
    auto region = Sized<ullage_region>();
    Check(Host().scratch(context_, slot, bytes, alignment, &region));
    return region;
  }
  ullage_stream* stream() const { return Host().stream(context_); }

 private:
  template <class Fn>
  ullage_tensor Tensor(Fn fn, size_t i) const {
    auto tensor = Sized<ullage_tensor>();
    Check(fn(context_, i, &tensor));
    return tensor;
  }
  ullage_context* context_;
};

/// Fills the caller's array by the ABI's rule: as many as it has room for, each as far as the caller knows
/// it.
template <class T>
void Deliver(std::span<const T> from, T* to, size_t capacity, size_t* needed) {
  *needed = from.size();
  for (size_t i = 0; i < from.size() && i < capacity; ++i) {
    T* place = ULLAGE_AT(T, to, i);
    const size_t size = place->size;
    std::memcpy(place, &from[i], size < sizeof(T) ? size : sizeof(T));
    place->size = size;
  }
}

/// A kernel. The ABI's object is a part of it.
class Kernel : public ullage_kernel {
 public:
  Kernel() { api = &kTable; }
  virtual ~Kernel() = default;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  using Infos = std::span<const ullage_value_info>;
  virtual std::vector<ullage_slot> Declare(Infos, Infos) { return {}; }
  virtual std::vector<ullage_prepack_block> PlanPrepack() { return {}; }
  virtual void Prepack(size_t, const ullage_region&, ullage_stream*) {}
  virtual void SetPrepacked(size_t, const ullage_region&) {}
  virtual void Prepare(ullage_stream*) {}
  virtual void Compute(const Context& context) = 0;

 private:
  static Kernel& Of(ullage_kernel* kernel) { return *static_cast<Kernel*>(kernel); }
  static std::vector<ullage_value_info> Copied(const ullage_value_info* infos, size_t count) {
    std::vector<ullage_value_info> all;
    for (size_t i = 0; i < count; ++i) {
      const auto* from = ULLAGE_AT(const ullage_value_info, infos, i);
      auto& to = all.emplace_back(Sized<ullage_value_info>());
      std::memcpy(&to, from, from->size < sizeof(to) ? from->size : sizeof(to));
    }
    return all;
  }
  static const ullage_kernel_api kTable;
};

inline const ullage_kernel_api Kernel::kTable = {
    sizeof(ullage_kernel_api),
    [](ullage_kernel* k) { delete &Of(k); },
    [](ullage_kernel* k, ullage_context* c) { return Guard([&] { Of(k).Compute(Context(c)); }); },
    [](ullage_kernel* k, const ullage_value_info* in, size_t ins, const ullage_value_info* out, size_t outs,
       ullage_slot* slots, size_t capacity, size_t* needed) {
      return Guard([&] {
        const auto all = Of(k).Declare(Copied(in, ins), Copied(out, outs));
        Deliver<ullage_slot>(all, slots, capacity, needed);
      });
    },
    [](ullage_kernel* k, ullage_prepack_block* blocks, size_t capacity, size_t* needed) {
      return Guard([&] {
        const auto all = Of(k).PlanPrepack();
        Deliver<ullage_prepack_block>(all, blocks, capacity, needed);
      });
    },
    [](ullage_kernel* k, size_t index, const ullage_region* target, ullage_stream* stream) {
      return Guard([&] { Of(k).Prepack(index, *target, stream); });
    },
    [](ullage_kernel* k, size_t index, const ullage_region* region) {
      return Guard([&] { Of(k).SetPrepacked(index, *region); });
    },
    [](ullage_kernel* k, ullage_stream* stream) { return Guard([&] { Of(k).Prepare(stream); }); },
};

/// create of a kernel entry for class K, which is made from the node and what `state` points to.
template <class K, class State>
ullage_status* CreateKernel(void* state, const ullage_kernel_info* info, ullage_kernel** kernel) {
  return Guard([&] { *kernel = new K(*static_cast<State*>(state), *info); });
}

/// The table of a provider from classes:
///   Provider  Provider(Options); devices() -> std::vector<ullage_device_info>; Open(ordinal) ->
///             std::unique_ptr<Device>; Register(ullage_registry*); where it proposes groups:
///             Propose(Device&, Graph, Sink&); Tell(proposal, ullage_verdict); Compile(Device&, proposal,
///             Graph) -> std::unique_ptr<Kernel>
///   Device    spaces() -> std::vector<ullage_space_info>; Reserve(space, bytes, alignment) ->
///             std::unique_ptr<Buffer>; memory() -> ullage_memory_info; CanCopy(from, to); Copy(copies,
///             count, Stream*); BeginRun(); EndRun(); CreateStream(), CreateEvent() -> std::unique_ptr
///   Buffer    pointer()
///   Stream    Flush(); Finish(); Wait(Event&)
///   Event     Record(Stream&); Wait()
/// A device with CanCopyFrom(Device&) is asked whether copies between the two skip the host.
/// Without Stream and Event the device works while it is called; Copy() then has no queue. Of a device only
/// Reserve() and Copy() are needed.
/// The objects that the host holds are these; it releases them through the table. Names, options and the
/// optional functions are the caller's to fill in.
template <class Provider, class Device, class Buffer, class Stream = void, class Event = void>
ullage_provider_api ProviderTable() {
  // The ABI's handles are these objects' addresses.
  static const auto provider = [](ullage_provider* p) { return reinterpret_cast<Provider*>(p); };
  static const auto device = [](ullage_device* d) { return reinterpret_cast<Device*>(d); };
  static const auto buffer = [](ullage_buffer* b) { return reinterpret_cast<Buffer*>(b); };
  [[maybe_unused]] static const auto stream = [](ullage_stream* s) { return reinterpret_cast<Stream*>(s); };
  [[maybe_unused]] static const auto event = [](ullage_event* e) { return reinterpret_cast<Event*>(e); };
  constexpr bool kQueues = !std::is_void_v<Stream>;

  auto t = Sized<ullage_provider_api>();
  t.create = [](const ullage_options* options, ullage_provider** out) {
    return Guard([&] { *out = reinterpret_cast<ullage_provider*>(new Provider(Options(options))); });
  };
  t.release = [](ullage_provider* p) { delete provider(p); };
  t.devices = [](ullage_provider* p, ullage_device_info* infos, size_t capacity, size_t* needed) {
    return Guard([&] {
      const auto all = provider(p)->devices();
      Deliver<ullage_device_info>(all, infos, capacity, needed);
    });
  };
  t.open_device = [](ullage_provider* p, int32_t ordinal, ullage_device** out) {
    return Guard([&] { *out = reinterpret_cast<ullage_device*>(provider(p)->Open(ordinal).release()); });
  };
  t.close_device = [](ullage_device* d) { delete device(d); };
  if constexpr (requires(Device & d) { d.spaces(); })
    t.spaces = [](ullage_device* d, ullage_space_info* spaces, size_t capacity, size_t* needed) {
      return Guard([&] {
        const auto all = device(d)->spaces();
        Deliver<ullage_space_info>(all, spaces, capacity, needed);
      });
    };
  t.reserve = [](ullage_device* d, ullage_space_kind space, uint64_t bytes, uint32_t alignment,
                 ullage_buffer** out) {
    return Guard([&] {
      *out = reinterpret_cast<ullage_buffer*>(device(d)->Reserve(space, bytes, alignment).release());
    });
  };
  t.allocate = [](ullage_device* d, ullage_space_kind space, uint64_t bytes, uint32_t alignment,
                  ullage_stream*, ullage_buffer** out) {
    return Guard([&] {
      *out = reinterpret_cast<ullage_buffer*>(device(d)->Reserve(space, bytes, alignment).release());
    });
  };
  t.free = [](ullage_device*, ullage_buffer* b, [[maybe_unused]] ullage_stream* s) {
    if constexpr (kQueues)
      if (s) Host().release_status(Guard([&] { stream(s)->Finish(); }));
    delete buffer(b);
  };
  t.pointer = [](ullage_buffer* b) -> void* { return buffer(b)->pointer(); };
  if constexpr (requires(Device & d) { d.memory(); })
    t.memory = [](ullage_device* d, ullage_memory_info* info) {
      return Guard([&] {
        const ullage_memory_info from = device(d)->memory();
        size_t needed = 0;
        Deliver<ullage_memory_info>({&from, 1}, info, 1, &needed);
      });
    };
  if constexpr (requires(Device & d) { d.CanCopy(ULLAGE_SPACE_HOST, ULLAGE_SPACE_DEVICE); })
    t.can_copy = [](ullage_device* d, ullage_space_kind from, ullage_space_kind to) -> uint32_t {
      return device(d)->CanCopy(from, to);
    };
  t.copy = [](ullage_device* d, const ullage_copy* copies, size_t count, [[maybe_unused]] ullage_stream* s) {
    return Guard([&] {
      if constexpr (kQueues)
        device(d)->Copy(copies, count, s ? stream(s) : nullptr);
      else
        device(d)->Copy(copies, count);
    });
  };
  if constexpr (kQueues) {
    t.create_stream = [](ullage_device* d, ullage_stream** out) {
      return Guard([&] { *out = reinterpret_cast<ullage_stream*>(device(d)->CreateStream().release()); });
    };
    t.release_stream = [](ullage_stream* s) { delete stream(s); };
    t.flush = [](ullage_stream* s) { return Guard([&] { stream(s)->Flush(); }); };
    t.finish = [](ullage_stream* s) { return Guard([&] { stream(s)->Finish(); }); };
    t.create_event = [](ullage_device* d, ullage_event** out) {
      return Guard([&] { *out = reinterpret_cast<ullage_event*>(device(d)->CreateEvent().release()); });
    };
    t.release_event = [](ullage_event* e) { delete event(e); };
    t.record = [](ullage_event* e, ullage_stream* s) { return Guard([&] { event(e)->Record(*stream(s)); }); };
    t.stream_wait = [](ullage_stream* s, ullage_event* e) {
      return Guard([&] { stream(s)->Wait(*event(e)); });
    };
    t.host_wait = [](ullage_event* e) { return Guard([&] { event(e)->Wait(); }); };
  }
  t.register_kernels = [](ullage_provider* p, ullage_registry* registry) {
    return Guard([&] { provider(p)->Register(registry); });
  };
  if constexpr (requires(Provider & p, Device & d, Sink & s) { p.Propose(d, Graph(nullptr), s); }) {
    t.propose = [](ullage_provider* p, ullage_device* d, const ullage_graph* graph, ullage_sink* to) {
      return Guard([&] {
        Sink sink(to);
        provider(p)->Propose(*device(d), Graph(graph), sink);
      });
    };
    t.verdict = [](ullage_provider* p, uint64_t proposal, ullage_verdict verdict) {
      Host().release_status(Guard([&] { provider(p)->Tell(proposal, verdict); }));
    };
    t.compile = [](ullage_provider* p, ullage_device* d, uint64_t proposal, const ullage_graph* group,
                   const ullage_options*, ullage_kernel** kernel) {
      return Guard([&] { *kernel = provider(p)->Compile(*device(d), proposal, Graph(group)).release(); });
    };
  }
  if constexpr (requires(Device & d) { d.BeginRun(); }) {
    t.run_begin = [](ullage_device* d) { device(d)->BeginRun(); };
    t.run_end = [](ullage_device* d) { device(d)->EndRun(); };
  }
  if constexpr (requires(Device & d) { d.CanCopyFrom(d); })
    t.can_copy_between = [](ullage_device* from, ullage_device* to) -> uint32_t {
      return device(to)->CanCopyFrom(*device(from));
    };
  return t;
}

/// The plugin's symbol: takes the host's table, refuses hosts that lack functions, hands out `plugin`.
inline ullage_status* Enter(const ullage_host_api* host, const ullage_plugin_api& plugin,
                            const ullage_plugin_api** out) {
  *out = nullptr;
  if (host->size < sizeof(ullage_host_api))
    return host->create_status(ULLAGE_UNSUPPORTED, "the plugin needs a newer host");
  g_host = host;
  *out = &plugin;
  return nullptr;
}

}  // namespace ullage::plugin

/// Defines the entry; `table` is an expression of type const ullage_plugin_api&.
#define ULLAGE_PLUGIN(table)                                                            \
  extern "C" __attribute__((visibility("default"))) ullage_status* ullage_plugin_entry( \
      const ullage_host_api* host, const ullage_plugin_api** out) {                     \
    return ullage::plugin::Enter(host, (table), out);                                   \
  }
