/* The device ABI is plain C11, and its layout does not move: sizes and places of what version 1 has, where
 * pointers have 64 bits. Members are appended, so an offset here never changes. */
#include "ullage/plugin/abi.h"

#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), "size of " #type)
#define PLACE(type, member, bytes) _Static_assert(offsetof(type, member) == (bytes), #type "." #member)

_Static_assert(sizeof(void*) != 8 || sizeof(size_t) == 8, "64-bit pointers and sizes go together");
#if UINTPTR_MAX == UINT64_MAX
SIZE(ullage_code, 4);
SIZE(ullage_resource_count, 56);
PLACE(ullage_resource_count, value, 8);
PLACE(ullage_device_info, type, 8);
PLACE(ullage_device_info, ordinal, 32);
PLACE(ullage_device_info, total_bytes, 64);
SIZE(ullage_device_info, 96);
SIZE(ullage_space_info, 32);
SIZE(ullage_region, 40);
SIZE(ullage_copy, 88);
SIZE(ullage_memory_info, 32);
SIZE(ullage_value_info, 56);
SIZE(ullage_tensor, 80);
SIZE(ullage_estimate, 64);
SIZE(ullage_slot, 40);
SIZE(ullage_prepack_block, 40);
PLACE(ullage_kernel_api, compute, 16);
PLACE(ullage_kernel_api, prepare, 56);
PLACE(ullage_kernel_entry, state, 136);
PLACE(ullage_kernel_entry, shape_bound, 168);
PLACE(ullage_proposal, estimate, 32);
SIZE(ullage_option_info, 40);
PLACE(ullage_provider_api, create, 56);
PLACE(ullage_provider_api, run_end, 280);
PLACE(ullage_provider_api, can_copy_between, 288);
PLACE(ullage_host_api, create_status, 16);
PLACE(ullage_host_api, stream, 296);
PLACE(ullage_host_api, attribute_string_at, 304);
PLACE(ullage_host_api, node_block_type, 312);
PLACE(ullage_host_api, offer_rest, 320);
PLACE(ullage_host_api, group_output, 360);
#endif

/* A plugin without providers: everything that the header asks for can be written in C. */
static void Release(void) {}

static const ullage_plugin_api kPlugin = {sizeof(ullage_plugin_api), ULLAGE_ABI_VERSION, 0, NULL, Release};

ullage_status* ullage_abi_c11_entry(const ullage_host_api* host, const ullage_plugin_api** plugin);
ullage_status* ullage_abi_c11_entry(const ullage_host_api* host, const ullage_plugin_api** plugin) {
  *plugin = NULL;
  if (host->size < offsetof(ullage_host_api, create_status) + sizeof(host->create_status)) return NULL;
  if (host->abi_version < ULLAGE_ABI_VERSION)
    return host->create_status(ULLAGE_UNSUPPORTED, "a newer host is needed");
  *plugin = &kPlugin;
  return NULL;
}
