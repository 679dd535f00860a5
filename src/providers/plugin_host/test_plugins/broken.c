/* Plugins that are none: one fault each, chosen by -DFAULT=n. */
#include "ullage/plugin/abi.h"

#if FAULT != 1 /* 1: the symbol is missing */

static void Nothing(void) {}

#if FAULT == 2
static const ullage_plugin_api kPlugin = {0, 1, 0, NULL, NULL};
#elif FAULT == 3
static const ullage_plugin_api kPlugin = {sizeof(kPlugin), 1, 4000000000u, NULL, Nothing};
#elif FAULT == 4
static const ullage_provider_api kProvider = {.size = sizeof(kProvider), .name = "cpu"};
#elif FAULT == 5
static const ullage_provider_api kProvider = {.size = sizeof(kProvider), .name = "lacking"};
#elif FAULT == 6
static const ullage_provider_api kProvider = {.size = (size_t)-1, .name = "endless"};
#endif
#if FAULT >= 4 && FAULT <= 6
static const ullage_provider_api* const kProviders[] = {&kProvider};
static const ullage_plugin_api kPlugin = {sizeof(kPlugin), 1, 1, kProviders, Nothing};
#endif

ullage_status* ullage_plugin_entry(const ullage_host_api* host, const ullage_plugin_api** plugin);
ullage_status* ullage_plugin_entry(const ullage_host_api* host, const ullage_plugin_api** plugin) {
  (void)host;
  (void)Nothing;
#if FAULT == 7
  *plugin = NULL;
  return (ullage_status*)(uintptr_t)0x77;
#elif FAULT == 8
  *plugin = NULL;
  return host->create_status(ULLAGE_UNSUPPORTED, "of another time");
#elif FAULT == 9
  return NULL;
#else
  *plugin = &kPlugin;
  return NULL;
#endif
}

#endif
