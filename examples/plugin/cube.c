/* A plugin with one device and one operator, com.example:Cube, in plain C. The device is host memory under
 * another name and works while it is called, so there are no streams. */
#include <stdlib.h>
#include <string.h>

#include "ullage/plugin/abi.h"

static const ullage_host_api* host;

struct ullage_device {
  uint64_t used; /* bytes */
};
struct ullage_buffer {
  void* data;
  uint64_t bytes;
};
static const uint64_t kCapacity = 1u << 30;

/* ---- the device ---- */
static ullage_status* Create(const ullage_options* options, ullage_provider** out) {
  static char the_provider; /* there is nothing to know of it */
  (void)options;
  *out = (ullage_provider*)&the_provider;
  return NULL;
}
static void Release(ullage_provider* provider) {
  (void)provider;
}
static ullage_status* Devices(ullage_provider* provider, ullage_device_info* infos, size_t capacity,
                              size_t* needed) {
  (void)provider;
  *needed = 1;
  if (capacity < 1) return NULL;
  infos->type = ULLAGE_DEVICE_ACCELERATOR;
  infos->name = "cube";
  infos->vendor = "example";
  infos->flags = ULLAGE_DEVICE_CONCURRENT | ULLAGE_DEVICE_ONLY_WHEN_NAMED;
  infos->total_bytes = kCapacity;
  infos->alignment = 256;
  return NULL;
}
static ullage_status* Open(ullage_provider* provider, int32_t ordinal, ullage_device** out) {
  (void)provider, (void)ordinal;
  *out = calloc(1, sizeof(**out));
  return *out ? NULL : host->create_status(ULLAGE_OUT_OF_MEMORY, "no memory");
}
static void Close(ullage_device* device) {
  free(device);
}
static ullage_status* Reserve(ullage_device* device, ullage_space_kind space, uint64_t bytes,
                              uint32_t alignment, ullage_buffer** out) {
  (void)space;
  ullage_buffer* buffer = calloc(1, sizeof(*buffer));
  if (buffer && bytes <= kCapacity - device->used)
    buffer->data = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (!buffer || !buffer->data)
    return free(buffer), host->create_status(ULLAGE_OUT_OF_MEMORY, "the device is full");
  device->used += buffer->bytes = bytes;
  *out = buffer;
  return NULL;
}
static void Free(ullage_device* device, ullage_buffer* buffer, ullage_stream* stream) {
  (void)stream;
  device->used -= buffer->bytes;
  free(buffer->data);
  free(buffer);
}
static void* Pointer(ullage_buffer* buffer) {
  return buffer->data;
}
static ullage_status* Copy(ullage_device* device, const ullage_copy* copies, size_t count,
                           ullage_stream* stream) {
  (void)device, (void)stream;
  for (size_t i = 0; i < count; ++i) {
    const ullage_copy* copy = ULLAGE_AT(const ullage_copy, copies, i);
    memmove(copy->target.pointer, copy->source.pointer, copy->source.bytes);
  }
  return NULL;
}

/* ---- the operator ---- */
static void ReleaseKernel(ullage_kernel* kernel) {
  (void)kernel;
}
static ullage_status* Compute(ullage_kernel* kernel, ullage_context* context) {
  (void)kernel;
  ullage_tensor x = {.size = sizeof(x)}, y = {.size = sizeof(y)};
  ullage_status* status = host->input(context, 0, &x);
  if (!status) status = host->output(context, 0, &y);
  if (status) return status;
  const float* from = x.region.pointer;
  float* to = y.region.pointer;
  for (uint64_t i = 0; i < x.region.bytes / sizeof(float); ++i) to[i] = from[i] * from[i] * from[i];
  return NULL;
}
static const ullage_kernel_api kCube = {.size = sizeof(kCube), .release = ReleaseKernel, .compute = Compute};

static ullage_kernel the_kernel = {&kCube};
static ullage_status* CreateKernel(void* state, const ullage_kernel_info* info, ullage_kernel** out) {
  (void)state, (void)info;
  *out = &the_kernel; /* it keeps nothing, so one does for all nodes */
  return NULL;
}
/* The host does not know the operator: the result has the shape of the input, whatever bounds that has. */
static ullage_status* ShapeBound(void* state, const ullage_node* node, ullage_shapes* shapes) {
  (void)state, (void)node;
  ullage_value_info x = {.size = sizeof(x)};
  ullage_status* status = host->shape_input(shapes, 0, &x);
  if (status || x.presence != ULLAGE_SHAPE_KNOWN) return status;
  return host->set_shape_output(shapes, 0, x.dtype, x.rank, x.lower, x.upper);
}
static ullage_status* Register(ullage_provider* provider, ullage_registry* registry) {
  (void)provider;
  static const uint64_t kFloat32 = 1u << 1;
  const ullage_kernel_entry entry = {.size = sizeof(entry),
                                     .domain = "com.example",
                                     .op = "Cube",
                                     .since = 1,
                                     .input_types = &kFloat32,
                                     .input_type_count = 1,
                                     .create = CreateKernel,
                                     .shape_bound = ShapeBound};
  return host->add_kernel(registry, &entry);
}

/* ---- the plugin ---- */
static const ullage_provider_api kProvider = {.size = sizeof(kProvider),
                                              .name = "cube",
                                              .vendor = "example",
                                              .version = "1",
                                              .create = Create,
                                              .release = Release,
                                              .devices = Devices,
                                              .open_device = Open,
                                              .close_device = Close,
                                              .reserve = Reserve,
                                              .free = Free,
                                              .pointer = Pointer,
                                              .copy = Copy,
                                              .register_kernels = Register};
static const ullage_provider_api* const kProviders[] = {&kProvider};
static const ullage_plugin_api kPlugin = {sizeof(kPlugin), ULLAGE_ABI_VERSION, 1, kProviders, NULL};

ullage_status* ullage_plugin_entry(const ullage_host_api* api, const ullage_plugin_api** plugin) {
  host = api;
  *plugin = &kPlugin;
  return NULL;
}
