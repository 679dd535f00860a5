// The plugin's entry and the tables of its one provider, "opencl".
#include <dirent.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "op.h"

struct ullage_provider {
  std::vector<ullage_opencl::DeviceFacts> devices = ullage_opencl::FindDevices();
  bool fuse = true;
};

namespace ullage_opencl {
namespace {

Device& Of(ullage_device* device) {
  return *static_cast<Device*>(device);
}

bool Exists(const char* path) {
  return ::access(path, F_OK) == 0;
}

/// A file in `folder` whose name begins with `prefix`.
bool HasFile(const char* folder, const char* prefix) {
  DIR* dir = ::opendir(folder);
  if (!dir) return false;
  bool found = false;
  while (const dirent* entry = ::readdir(dir))
    found = found || std::strncmp(entry->d_name, prefix, std::strlen(prefix)) == 0;
  ::closedir(dir);
  return found;
}

/// Only files are looked at: loading drivers takes long, and starts threads.
uint32_t Probe() {
  return Exists("/dev/nvidiactl") || Exists("/dev/kfd") || HasFile("/dev/dri", "renderD") ||
         HasFile("/dev", "mali") || Exists("/dev/kgsl-3d0") || Exists("/dev/dxg");
}

ullage_status* CreateProvider(const ullage_options* options, ullage_provider** provider) {
  *provider = nullptr;
  return Guard([&] {
    const char* fuse = Host().option(options, "ep.opencl.fuse");
    *provider = new ullage_provider;
    (*provider)->fuse = !fuse || std::strcmp(fuse, "0") != 0;
  });
}

void ReleaseProvider(ullage_provider* provider) {
  delete provider;
}

ullage_status* Devices(ullage_provider* provider, ullage_device_info* infos, size_t capacity,
                       size_t* needed) {
  return Guard([&] {
    *needed = provider->devices.size();
    for (size_t i = 0; i < *needed && i < capacity; ++i) {
      const DeviceFacts& f = provider->devices[i];
      ullage_device_info& info = *ULLAGE_AT(ullage_device_info, infos, i);
      info.type = f.type & CL_DEVICE_TYPE_GPU   ? ULLAGE_DEVICE_GPU
                  : f.type & CL_DEVICE_TYPE_CPU ? ULLAGE_DEVICE_CPU
                                                : ULLAGE_DEVICE_ACCELERATOR;
      info.vendor_id = f.vendor_id;
      info.name = f.name.c_str();
      info.vendor = f.vendor.c_str();
      info.ordinal = static_cast<int32_t>(i);
      info.flags = ULLAGE_DEVICE_CONCURRENT | ULLAGE_DEVICE_BUFFER_OFFSETS;
      if (f.unified) info.flags |= ULLAGE_DEVICE_UNIFIED_MEMORY;
      if (info.type == ULLAGE_DEVICE_CPU) info.flags |= ULLAGE_DEVICE_ONLY_WHEN_NAMED;
      info.total_bytes = f.total_bytes;
      info.units = f.units;
      info.alignment = f.alignment;
    }
  });
}

ullage_status* OpenDevice(ullage_provider* provider, int32_t ordinal, ullage_device** device) {
  *device = nullptr;
  return Guard([&] {
    if (ordinal < 0 || static_cast<size_t>(ordinal) >= provider->devices.size())
      Fail(ULLAGE_INVALID_ARGUMENT, "there is no device opencl:" + std::to_string(ordinal));
    *device = new Device(provider->devices[static_cast<size_t>(ordinal)]);
  });
}

void CloseDevice(ullage_device* device) {
  delete &Of(device);
}

ullage_status* Spaces(ullage_device* device, ullage_space_info* spaces, size_t capacity, size_t* needed) {
  return Guard([&] {
    constexpr ullage_space_kind kKinds[] = {ULLAGE_SPACE_DEVICE, ULLAGE_SPACE_WEIGHTS, ULLAGE_SPACE_PINNED};
    *needed = 3;
    for (size_t i = 0; i < 3 && i < capacity; ++i) {
      ullage_space_info& info = *ULLAGE_AT(ullage_space_info, spaces, i);
      info.kind = kKinds[i];
      info.host_accessible = kKinds[i] == ULLAGE_SPACE_PINNED;
      info.max_allocation = Of(device).facts().max_allocation;
      info.alignment = Of(device).facts().alignment;
    }
  });
}

ullage_status* Reserve(ullage_device* device, ullage_space_kind space, uint64_t bytes, uint32_t,
                       ullage_buffer** buffer) {
  *buffer = nullptr;
  return Guard([&] { *buffer = Of(device).Allocate(space, bytes); });
}

ullage_status* Allocate(ullage_device* device, ullage_space_kind space, uint64_t bytes, uint32_t,
                        ullage_stream*, ullage_buffer** buffer) {
  *buffer = nullptr;
  return Guard([&] { *buffer = Of(device).Allocate(space, bytes); });
}

/// OpenCL keeps the memory until what was put into queues before is done.
void Free(ullage_device* device, ullage_buffer* buffer, ullage_stream*) {
  Of(device).Free(buffer);
}

void* Pointer(ullage_buffer* buffer) {
  return buffer->pointer;
}

ullage_status* Memory(ullage_device* device, ullage_memory_info* info) {
  return Guard([&] {
    // OpenCL tells the size only; what other programs have taken is not known.
    const uint64_t total = Of(device).facts().total_bytes, used = Of(device).allocated();
    info->total_bytes = total;
    info->free_bytes = total > used ? total - used : 0;
    info->reserve_bytes = 0;
  });
}

uint32_t CanCopy(ullage_device*, ullage_space_kind source, ullage_space_kind target) {
  const auto host = [](ullage_space_kind s) { return s == ULLAGE_SPACE_HOST || s == ULLAGE_SPACE_PINNED; };
  return !host(source) || !host(target);
}

ullage_status* Copy(ullage_device* device, const ullage_copy* copies, size_t count, ullage_stream* stream) {
  return Guard([&] {
    const cl_command_queue queue = stream ? stream->queue : Of(device).own_queue();
    Of(device).Copy(copies, count, queue);
    if (!stream) CheckCl(Cl().Finish(queue), "copy");
  });
}

ullage_status* CreateStream(ullage_device* device, ullage_stream** stream) {
  *stream = nullptr;
  return Guard([&] { *stream = new ullage_stream{&Of(device), Of(device).CreateQueue()}; });
}

void ReleaseStream(ullage_stream* stream) {
  Cl().Finish(stream->queue);
  Cl().ReleaseCommandQueue(stream->queue);
  delete stream;
}

void* NativeStream(ullage_stream* stream) {
  return stream->queue;
}

ullage_status* Flush(ullage_stream* stream) {
  return Guard([&] { CheckCl(Cl().Flush(stream->queue), "flush"); });
}

ullage_status* Finish(ullage_stream* stream) {
  return Guard([&] { CheckCl(Cl().Finish(stream->queue), "finish"); });
}

ullage_status* CreateEvent(ullage_device*, ullage_event** event) {
  *event = nullptr;
  return Guard([&] { *event = new ullage_event; });
}

void ReleaseEvent(ullage_event* event) {
  if (event->event) Cl().ReleaseEvent(event->event);
  delete event;
}

ullage_status* Record(ullage_event* event, ullage_stream* stream) {
  return Guard([&] {
    cl_event recorded = nullptr;
    CheckCl(Cl().EnqueueMarkerWithWaitList(stream->queue, 0, nullptr, &recorded), "event");
    if (event->event) Cl().ReleaseEvent(event->event);
    event->event = recorded;
    // Another queue that waits for it does not start this one.
    CheckCl(Cl().Flush(stream->queue), "flush");
  });
}

ullage_status* StreamWait(ullage_stream* stream, ullage_event* event) {
  return Guard([&] {
    if (!event->event) return;
    CheckCl(Cl().EnqueueBarrierWithWaitList(stream->queue, 1, &event->event, nullptr), "wait for an event");
  });
}

ullage_status* HostWait(ullage_event* event) {
  return Guard([&] {
    if (event->event) CheckCl(Cl().WaitForEvents(1, &event->event), "wait for an event");
  });
}

ullage_status* Register(ullage_provider*, ullage_registry* registry) {
  return Guard([&] { RegisterOps(registry); });
}

ullage_status* Propose(ullage_provider* provider, ullage_device* device, const ullage_graph* graph,
                       ullage_sink* sink) {
  return Guard([&] {
    Check(Host().offer_rest(sink));
    if (provider->fuse) ProposeGroups(Of(device), graph, sink);
  });
}

void Verdict(ullage_provider*, uint64_t, ullage_verdict) {}

ullage_status* Compile(ullage_provider*, ullage_device* device, uint64_t, const ullage_graph* group,
                       const ullage_options*, ullage_kernel** kernel) {
  *kernel = nullptr;
  return Guard([&] { *kernel = MakeGroup(Of(device), group).release(); });
}

constexpr ullage_option_info kOptions[] = {
    {sizeof(ullage_option_info), "ep.opencl.fuse", ULLAGE_OPTION_BOOL, 0, "1",
     "Run element-wise nodes that follow each other as one."},
};

const ullage_provider_api kProvider = {
    .size = sizeof(ullage_provider_api),
    .name = "opencl",
    .vendor = "Ullage",
    .version = "1",
    .options = kOptions,
    .option_count = 1,
    .probe = Probe,
    .create = CreateProvider,
    .release = ReleaseProvider,
    .devices = Devices,
    .open_device = OpenDevice,
    .close_device = CloseDevice,
    .spaces = Spaces,
    .reserve = Reserve,
    .allocate = Allocate,
    .free = Free,
    .pointer = Pointer,
    .memory = Memory,
    .can_copy = CanCopy,
    .copy = Copy,
    .create_stream = CreateStream,
    .release_stream = ReleaseStream,
    .native_stream = NativeStream,
    .flush = Flush,
    .finish = Finish,
    .create_event = CreateEvent,
    .release_event = ReleaseEvent,
    .record = Record,
    .stream_wait = StreamWait,
    .host_wait = HostWait,
    .register_kernels = Register,
    .propose = Propose,
    .verdict = Verdict,
    .compile = Compile,
    .run_begin = nullptr,
    .run_end = nullptr,
    .can_copy_between = nullptr,
};
const ullage_provider_api* const kProviders[] = {&kProvider};

const ullage_plugin_api kPlugin = {sizeof(ullage_plugin_api), ULLAGE_ABI_VERSION, 1, kProviders, [] {}};

}  // namespace
}  // namespace ullage_opencl

extern "C" __attribute__((visibility("default"))) ullage_status* ullage_plugin_entry(
    const ullage_host_api* host, const ullage_plugin_api** plugin) {
  *plugin = nullptr;
  if (host->size < sizeof(ullage_host_api) || host->abi_version < ULLAGE_ABI_VERSION)
    return host->create_status(ULLAGE_UNSUPPORTED, "opencl: a newer host is needed");
  ullage_opencl::SetHost(host);
  *plugin = &ullage_opencl::kPlugin;
  return nullptr;
}
