/* A plugin that uses every feature of the device ABI once, in plain C. Its devices' memory is addressed by
 * buffer and offset; streams do their work at once. Built again with -DOLDER=1 it knows less than the host
 * does: it states shorter structs and tables, and what lies behind them is rubbish. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ullage/plugin/abi.h"

#ifndef OLDER
#define OLDER 0
#endif
#define RUBBISH(T) ((T)(uintptr_t)0x11)
/* Size of a struct up to `member`, for the plugin that does not know of it. */
#define SIZE_OF(T, member) (OLDER ? offsetof(T, member) : sizeof(T))

static const ullage_host_api* host;

static ullage_status* Fail(ullage_code code, const char* text) {
  return host->create_status(code, text);
}

#define TRY(call)                    \
  do {                               \
    ullage_status* status_ = (call); \
    if (status_) return status_;     \
  } while (0)

/* ---- devices and memory ---- */
struct ullage_provider {
  int devices;
  char fault[64]; /* what goes wrong on purpose */
  uint64_t capacity;
  uint32_t accepted, refused;
};
struct ullage_device {
  ullage_provider* provider;
  int ordinal;
  uint64_t used;
  int runs;
};
struct ullage_buffer {
  unsigned char* bytes;
  uint64_t size;
};
struct ullage_stream {
  ullage_device* device;
  int work;
};
struct ullage_event {
  int at;
};

static int Faulty(const ullage_provider* p, const char* what) {
  return strcmp(p->fault, what) == 0;
}

static ullage_status* Create(const ullage_options* options, ullage_provider** out) {
  ullage_provider* p = calloc(1, sizeof(*p));
  p->devices = atoi(host->option(options, "ep.features.devices"));
  p->capacity = strtoull(host->option(options, "ep.features.capacity"), NULL, 10);
  snprintf(p->fault, sizeof(p->fault), "%s", host->option(options, "ep.features.fault"));
  if (host->option(options, "ep.features.no_such_key")) abort();
  if (p->devices < 0) {
    free(p);
    return Fail(ULLAGE_INVALID_ARGUMENT, "ep.features.devices must not be negative");
  }
  *out = p;
  if (Faulty(p, "no provider")) *out = NULL;
  if (Faulty(p, "wild status")) return RUBBISH(ullage_status*);
  return NULL;
}
static void Release(ullage_provider* p) {
  free(p);
}

static ullage_status* Devices(ullage_provider* p, ullage_device_info* infos, size_t capacity,
                              size_t* needed) {
  *needed = Faulty(p, "many devices") ? SIZE_MAX : (size_t)p->devices;
  for (size_t i = 0; i < capacity && i < (size_t)p->devices; ++i) {
    ullage_device_info* d = ULLAGE_AT(ullage_device_info, infos, i);
    d->type = ULLAGE_DEVICE_NPU;
    d->vendor_id = 0x1234;
    d->name = "test device\x01";
    d->vendor = "nobody";
    d->ordinal = Faulty(p, "twins") ? 0 : p->devices - 1 - (int)i;
    d->flags = ULLAGE_DEVICE_BUFFER_OFFSETS | ULLAGE_DEVICE_ONLY_WHEN_NAMED;
    d->total_bytes = p->capacity;
    d->alignment = Faulty(p, "odd alignment") ? 48 : 128;
    if (!OLDER) d->copy_bandwidth = 1000000;
  }
  return NULL;
}
static ullage_status* Open(ullage_provider* p, int32_t ordinal, ullage_device** out) {
  ullage_device* d = calloc(1, sizeof(*d));
  d->provider = p;
  d->ordinal = ordinal;
  *out = Faulty(p, "no device") ? NULL : d;
  if (!*out) free(d);
  return NULL;
}
static void Close(ullage_device* d) {
  free(d);
}

static ullage_status* Spaces(ullage_device* d, ullage_space_info* spaces, size_t capacity, size_t* needed) {
  (void)d;
  *needed = 1;
  if (capacity >= 1) {
    spaces->kind = ULLAGE_SPACE_DEVICE;
    spaces->max_allocation = 1 << 20;
    spaces->alignment = 256;
  }
  return NULL;
}
static ullage_status* Reserve(ullage_device* d, ullage_space_kind space, uint64_t bytes, uint32_t alignment,
                              ullage_buffer** out) {
  if (space != ULLAGE_SPACE_DEVICE || alignment != 256) return Fail(ULLAGE_FAILED, "not what was offered");
  if (d->used + bytes > d->provider->capacity) return Fail(ULLAGE_OUT_OF_MEMORY, "the device is full");
  ullage_buffer* b = calloc(1, sizeof(*b));
  b->bytes = malloc(bytes);
  b->size = bytes;
  d->used += bytes;
  *out = b;
  return NULL;
}
static void Free(ullage_device* d, ullage_buffer* b, ullage_stream* s) {
  (void)s;
  d->used -= b->size;
  free(b->bytes);
  free(b);
}
static ullage_status* Memory(ullage_device* d, ullage_memory_info* info) {
  info->total_bytes = d->provider->capacity;
  info->free_bytes = d->provider->capacity - d->used;
  info->reserve_bytes = 7;
  return NULL;
}
static unsigned char* Bytes(const ullage_region* r) {
  return r->buffer ? r->buffer->bytes + r->offset : (unsigned char*)r->pointer;
}
static ullage_status* Copy(ullage_device* d, const ullage_copy* copies, size_t count, ullage_stream* s) {
  (void)d;
  for (size_t i = 0; i < count; ++i) {
    const ullage_copy* c = ULLAGE_AT(const ullage_copy, copies, i);
    memcpy(Bytes(&c->target), Bytes(&c->source), c->source.bytes);
  }
  if (s) s->work++;
  return NULL;
}
static ullage_status* CreateStream(ullage_device* d, ullage_stream** out) {
  *out = calloc(1, sizeof(**out));
  (*out)->device = d;
  return NULL;
}
static void ReleaseStream(ullage_stream* s) {
  free(s);
}
static ullage_status* Finish(ullage_stream* s) {
  return s->work >= 0 ? NULL : Fail(ULLAGE_DEVICE_LOST, "the queue is broken");
}
static ullage_status* CreateEvent(ullage_device* d, ullage_event** out) {
  (void)d;
  *out = calloc(1, sizeof(**out));
  return NULL;
}
static void ReleaseEvent(ullage_event* e) {
  free(e);
}
static ullage_status* Record(ullage_event* e, ullage_stream* s) {
  e->at = s->work;
  return NULL;
}
static ullage_status* StreamWait(ullage_stream* s, ullage_event* e) {
  s->work += e->at;
  return NULL;
}
static ullage_status* HostWait(ullage_event* e) {
  return e->at >= 0 ? NULL : Fail(ULLAGE_FAILED, "the event failed");
}
static void RunBegin(ullage_device* d) {
  d->runs++;
}
static void RunEnd(ullage_device* d) {
  d->runs--;
}

/* ---- kernels ---- */
typedef struct Kernel {
  ullage_kernel base;
  const ullage_node* node;
  ullage_provider* provider;
  const unsigned char* weights; /* where the packed block lies */
  float factor;
  int prepared;
} Kernel;

static void KernelRelease(ullage_kernel* k) {
  free(k);
}

static uint64_t Count(const ullage_tensor* t) {
  uint64_t n = 1;
  for (size_t d = 0; d < t->rank; ++d) n *= (uint64_t)t->dims[d];
  return n;
}

static ullage_status* Values(ullage_context* c, size_t in, size_t out, ullage_tensor* x, ullage_tensor* y) {
  x->size = y->size = sizeof(*x);
  TRY(host->input(c, in, x));
  return host->output(c, out, y);
}

/* com.test:Scale(x, w): x * factor * w[0], through one slot of scratch that is planned. */
static ullage_status* ScaleCompute(ullage_kernel* kernel, ullage_context* c) {
  Kernel* k = (Kernel*)kernel;
  ullage_tensor x, y;
  TRY(Values(c, 0, 0, &x, &y));
  ullage_region room = {sizeof(room), NULL, 0, 0, NULL};
  TRY(host->workspace(c, 3, x.region.bytes, &room));
  if (room.bytes == 0) TRY(host->scratch(c, 3, x.region.bytes, 64, &room));
  float* scratch = (float*)Bytes(&room);
  const float* from = (const float*)Bytes(&x.region);
  float w;
  memcpy(&w, k->weights, sizeof(w));
  for (uint64_t i = 0; i < Count(&x); ++i) scratch[i] = from[i] * k->factor;
  float* to = (float*)Bytes(&y.region);
  for (uint64_t i = 0; i < Count(&x); ++i) to[i] = scratch[i] * w;
  ullage_stream* s = host->stream(c);
  if (s) s->work++;
  return Faulty(k->provider, "compute") ? Fail(ULLAGE_FAILED, "no more power") : NULL;
}
static ullage_status* ScaleDeclare(ullage_kernel* kernel, const ullage_value_info* inputs, size_t input_count,
                                   const ullage_value_info* outputs, size_t output_count, ullage_slot* slots,
                                   size_t capacity, size_t* needed) {
  Kernel* k = (Kernel*)kernel;
  (void)outputs;
  (void)output_count;
  *needed = Faulty(k->provider, "many slots") ? SIZE_MAX : 3;
  if (input_count < 1 || capacity < 3) return NULL;
  ullage_slot* s = ULLAGE_AT(ullage_slot, slots, 0);
  uint64_t n = 4;
  for (size_t d = 0; d < inputs->rank; ++d) n *= (uint64_t)inputs->upper[d];
  s->id = 3;
  s->state = ULLAGE_SLOT_KNOWN;
  s->bytes = n;
  s->alignment = Faulty(k->provider, "odd slot") ? 3 : 64;
  s->flags = ULLAGE_SLOT_PLANNED;
  s->space = ULLAGE_SPACE_DEVICE;
  s = ULLAGE_AT(ullage_slot, slots, 1);
  s->id = 4;
  s->state = ULLAGE_SLOT_ZERO;
  s = ULLAGE_AT(ullage_slot, slots, 2);
  s->id = 5;
  s->state = ULLAGE_SLOT_KNOWN;
  s->bytes = 16;
  s->flags = ULLAGE_SLOT_PLANNED | ULLAGE_SLOT_ACROSS_SYNC;
  s->space = ULLAGE_SPACE_HOST;
  return NULL;
}
static ullage_status* ScalePlan(ullage_kernel* kernel, ullage_prepack_block* blocks, size_t capacity,
                                size_t* needed) {
  (void)kernel;
  *needed = 1;
  if (capacity < 1) return NULL;
  blocks->bytes = 4;
  blocks->replaced_inputs = 2;
  blocks->share_key = "w";
  return NULL;
}
static ullage_status* ScalePrepack(ullage_kernel* kernel, size_t index, const ullage_region* target,
                                   ullage_stream* s) {
  Kernel* k = (Kernel*)kernel;
  (void)s;
  const void* bytes = NULL;
  uint64_t count = 0;
  if (index != 0 || target->bytes != 4) return Fail(ULLAGE_FAILED, "not the block that was planned");
  TRY(host->node_constant(k->node, 1, &bytes, &count));
  if (!bytes) return Fail(ULLAGE_FAILED, "the weights are not there");
  memcpy(Bytes(target), bytes, 4);
  return NULL;
}
static ullage_status* ScaleSet(ullage_kernel* kernel, size_t index, const ullage_region* region) {
  (void)index;
  ((Kernel*)kernel)->weights = Bytes(region);
  return NULL;
}
static ullage_status* ScalePrepare(ullage_kernel* kernel, ullage_stream* s) {
  (void)s;
  ((Kernel*)kernel)->prepared = 1;
  return NULL;
}
static const ullage_kernel_api kScale = {
    SIZE_OF(ullage_kernel_api, prepare),
    KernelRelease,
    ScaleCompute,
    ScaleDeclare,
    ScalePlan,
    ScalePrepack,
    ScaleSet,
    OLDER ? RUBBISH(ullage_status* (*)(ullage_kernel*, ullage_stream*)) : ScalePrepare};

/* com.test:Positive(x): the positive elements; com.test:AddTo(a, b): a + b in place of a. */
static ullage_status* PositiveCompute(ullage_kernel* kernel, ullage_context* c) {
  (void)kernel;
  ullage_tensor x, y;
  x.size = y.size = sizeof(x);
  TRY(host->input(c, 0, &x));
  const float* from = (const float*)Bytes(&x.region);
  int64_t n = 0;
  for (uint64_t i = 0; i < Count(&x); ++i) n += from[i] > 0;
  TRY(host->set_output_shape(c, 0, 1, &n));
  TRY(host->output(c, 0, &y));
  float* to = (float*)Bytes(&y.region);
  for (uint64_t i = 0; i < Count(&x); ++i)
    if (from[i] > 0) *to++ = from[i];
  return NULL;
}
static ullage_status* AddToCompute(ullage_kernel* kernel, ullage_context* c) {
  (void)kernel;
  ullage_tensor b, y;
  TRY(Values(c, 1, 0, &b, &y));
  const float* from = (const float*)Bytes(&b.region);
  float* to = (float*)Bytes(&y.region);
  for (uint64_t i = 0; i < Count(&b); ++i) to[i] += from[i];
  ullage_region room = {sizeof(room), NULL, 0, 0, NULL};
  ullage_status* refused = host->scratch(c, 0, 16, 0, &room); /* was not declared */
  if (!refused) return Fail(ULLAGE_FAILED, "the host gave scratch that it should not");
  host->release_status(refused);
  return NULL;
}
static const ullage_kernel_api kPositive = {
    SIZE_OF(ullage_kernel_api, declare), KernelRelease, PositiveCompute, NULL, NULL, NULL, NULL, NULL};
static const ullage_kernel_api kAddTo = {
    offsetof(ullage_kernel_api, declare),
    KernelRelease,
    AddToCompute,
    RUBBISH(ullage_status* (*)(ullage_kernel*, const ullage_value_info*, size_t, const ullage_value_info*,
                               size_t, ullage_slot*, size_t, size_t*)),
    NULL,
    NULL,
    NULL,
    NULL};

static ullage_status* CreateKernel(void* state, const ullage_kernel_info* info, ullage_kernel** out) {
  const char* op = host->node_op(info->node);
  Kernel* k = calloc(1, sizeof(*k));
  k->provider = state;
  k->node = info->node;
  k->base.api = strcmp(op, "Scale") == 0 || OLDER ? &kScale
                : strcmp(op, "Positive") == 0     ? &kPositive
                                                  : &kAddTo;
  k->factor = 1;
  uint32_t found = 0;
  ullage_status* status = host->attribute_float(info->node, "factor", &k->factor, &found);
  if (status) {
    free(k);
    return status;
  }
  if (!info->device && Faulty(k->provider, "needs device")) {
    free(k);
    return Fail(ULLAGE_FAILED, "no device");
  }
  *out = Faulty(k->provider, "no kernel") ? NULL : &k->base;
  if (!*out) free(k);
  return NULL;
}
static ullage_status* Estimate(void* state, const ullage_kernel_info* info, ullage_estimate* e) {
  ullage_value_info x;
  x.size = sizeof(x);
  (void)state;
  TRY(host->node_input(info->node, 0, &x));
  if (x.presence != ULLAGE_SHAPE_KNOWN) return NULL;
  e->certainty = x.source == ULLAGE_SHAPE_FROM_BOUND ? ULLAGE_BOUND : ULLAGE_EXACT;
  e->workspace_bytes = 4;
  for (size_t d = 0; d < x.rank; ++d) e->workspace_bytes *= (uint64_t)x.upper[d];
  e->prepack_bytes = 4;
  e->transient_bytes = 9;
  e->temporary_prepack_bytes = 11;
  e->replaced_inputs = 2;
  return Faulty(state, "estimate") ? Fail(ULLAGE_FAILED, "cannot say") : NULL;
}
static ullage_status* Refuse(void* state, const ullage_kernel_info* info, char* reason, size_t capacity,
                             size_t* needed) {
  const int64_t* axes;
  const float* weights;
  const char *text, *item;
  const void* bytes;
  size_t n = 0;
  uint64_t length = 0, count = 0;
  uint32_t found = 0;
  int64_t whole = 0;
  ullage_value_info tensor;
  tensor.size = sizeof(tensor);
  (void)state;
  *needed = 0;
  for (size_t i = 0; i < host->node_attributes(info->node); ++i)
    if (host->attribute_type(info->node, host->attribute_name(info->node, i)) == ULLAGE_ATTRIBUTE_ABSENT)
      abort();
  TRY(host->attribute_int(info->node, "mode", &whole, &found));
  if (!found || whole != 2) return NULL;
  TRY(host->attribute_ints(info->node, "axes", &axes, &n, &found));
  if (!found || n != 2 || axes[1] != -1) return Fail(ULLAGE_FAILED, "axes");
  TRY(host->attribute_floats(info->node, "weights", &weights, &n, &found));
  if (!found || n != 1 || weights[0] != 0.5f) return Fail(ULLAGE_FAILED, "weights");
  TRY(host->attribute_string(info->node, "name", &text, &length, &found));
  if (!found || length != 4 || memcmp(text, "four", 4) != 0) return Fail(ULLAGE_FAILED, "name");
  TRY(host->attribute_string_at(info->node, "names", 1, &item, &length, &found));
  if (!found || strcmp(item, "b") != 0) return Fail(ULLAGE_FAILED, "names");
  TRY(host->attribute_tensor(info->node, "table", &tensor, &bytes, &count, &found));
  if (!found || count != 8 || tensor.rank != 1 || tensor.upper[0] != 2) return Fail(ULLAGE_FAILED, "table");
  TRY(host->attribute_float(info->node, "nothing", NULL, &found));
  if (found) return Fail(ULLAGE_FAILED, "nothing");
  *needed = (size_t)snprintf(reason, capacity, "mode %d of %s is not built", (int)whole, text);
  return NULL;
}
static ullage_status* SameShape(void* state, const ullage_node* node, ullage_shapes* shapes) {
  ullage_value_info x;
  x.size = sizeof(x);
  (void)node;
  TRY(host->shape_input(shapes, 0, &x));
  if (Faulty(state, "negative shape")) {
    const int64_t below = -3, above = 4;
    return host->set_shape_output(shapes, 0, x.dtype, 1, &below, &above);
  }
  return host->set_shape_output(shapes, 0, x.dtype, x.rank, x.lower, x.upper);
}
static ullage_status* UpToCount(void* state, const ullage_node* node, ullage_shapes* shapes) {
  ullage_value_info x;
  x.size = sizeof(x);
  (void)state;
  (void)node;
  TRY(host->shape_input(shapes, 0, &x));
  int64_t none = 0, most = 1;
  for (size_t d = 0; d < x.rank; ++d) most = x.upper[d] < 0 || most < 0 ? -1 : most * x.upper[d];
  return host->set_shape_output(shapes, 0, x.dtype, 1, &none, &most);
}

static ullage_status* RegisterKernels(ullage_provider* p, ullage_registry* registry) {
  static const uint64_t kFloats[] = {1u << 1, 1u << 1};
  static const ullage_pair kFirst[] = {{0, 0}};
  static const ullage_space_kind kHost[] = {ULLAGE_SPACE_DEVICE, ULLAGE_SPACE_HOST};
  ullage_kernel_entry scale;
  memset(&scale, OLDER ? 0x11 : 0, sizeof(scale));
  scale.size = SIZE_OF(ullage_kernel_entry, estimate);
  scale.domain = "com.test";
  scale.op = "Scale";
  scale.since = 1;
  scale.until = 2;
  scale.input_types = kFloats;
  scale.input_type_count = 2;
  scale.input_spaces = scale.output_spaces = NULL;
  scale.input_space_count = scale.output_space_count = 0;
  scale.aliases = scale.may_alias = scale.caches = NULL;
  scale.alias_count = scale.may_alias_count = scale.cache_count = 0;
  scale.flags = 0;
  scale.state = p;
  scale.create = CreateKernel;
  if (OLDER) { /* no bound rule: an operator that the host knows */
    scale.domain = "";
    scale.op = "Mul";
    scale.until = 0;
    return host->add_kernel(registry, &scale);
  }
  scale.estimate = Estimate;
  scale.refuse = Refuse;
  scale.shape_bound = SameShape;
  TRY(host->add_kernel(registry, &scale));

  ullage_kernel_entry positive = {.size = sizeof(positive)};
  positive.domain = "com.test";
  positive.op = "Positive";
  positive.flags = ULLAGE_KERNEL_LATE;
  positive.state = p;
  positive.create = CreateKernel;
  positive.shape_bound = UpToCount;
  TRY(host->add_kernel(registry, &positive));

  ullage_kernel_entry add = {.size = sizeof(add)};
  add.domain = "com.test";
  add.op = "AddTo";
  add.aliases = kFirst;
  add.alias_count = 1;
  add.caches = kFirst;
  add.cache_count = 1;
  add.input_spaces = kHost;
  add.input_space_count = 2;
  add.state = p;
  add.create = CreateKernel;
  add.shape_bound = Faulty(p, "no rule") ? NULL : SameShape;
  return host->add_kernel(registry, &add);
}

/* ---- groups: two nodes of which the second reads the first are fused ---- */
static ullage_status* Propose(ullage_provider* p, ullage_device* d, const ullage_graph* graph,
                              ullage_sink* sink) {
  ullage_resource_count left;
  (void)d;
  TRY(host->remaining_budget(sink, &left));
  if (left.kind == ULLAGE_RESOURCE_BYTES && left.value.bytes < 100) return NULL;
  if (!Faulty(p, "no rest")) TRY(host->offer_rest(sink));
  for (size_t i = 1; i < host->graph_size(graph); ++i) {
    const ullage_node* node = host->graph_node(graph, i);
    const size_t nodes[] = {i, host->node_producer(graph, node, 0)};
    if (nodes[1] == SIZE_MAX) continue;
    ullage_proposal proposal = {.size = sizeof(proposal)};
    proposal.nodes = nodes;
    proposal.node_count = Faulty(p, "wild group") ? 1000 : 2;
    proposal.fused = 1;
    proposal.id = 40 + i;
    proposal.estimate.size = sizeof(proposal.estimate);
    proposal.estimate.certainty = ULLAGE_EXACT;
    proposal.estimate.workspace_bytes = 64;
    TRY(host->add_proposal(sink, &proposal));
  }
  return NULL;
}
static void Verdict(ullage_provider* p, uint64_t proposal, ullage_verdict verdict) {
  if (verdict == ULLAGE_ACCEPTED)
    p->accepted += (uint32_t)proposal;
  else
    p->refused += (uint32_t)proposal;
}
static ullage_status* Compile(ullage_provider* p, ullage_device* d, uint64_t proposal,
                              const ullage_graph* group, const ullage_options* options, ullage_kernel** out) {
  (void)d;
  (void)options;
  if (p->accepted != proposal) return Fail(ULLAGE_INVALID_ARGUMENT, "that group was not accepted");
  if (host->graph_size(group) != 2) return Fail(ULLAGE_FAILED, "not the group that was proposed");
  const ullage_node* first = host->graph_node(group, 0);
  const ullage_node* second = host->graph_node(group, 1);
  if (host->group_inputs(group) != 1 || host->group_outputs(group) != 1 ||
      host->group_input(group, first, 0) != 0 || host->group_input(group, first, 1) != 0 ||
      host->group_input(group, second, 0) != SIZE_MAX || host->group_output(group, first, 0) != SIZE_MAX ||
      host->group_output(group, second, 0) != 0 || host->node_producer(group, second, 0) != 0 ||
      host->node_producer_output(group, second, 0) != 0)
    return Fail(ULLAGE_FAILED, "not the borders of that group");
  Kernel* k = calloc(1, sizeof(*k));
  k->base.api = &kPositive;
  k->provider = p;
  *out = &k->base;
  return NULL;
}

static uint32_t Probe(void) {
  return 0;
}

static const ullage_option_info kOptions[] = {
    {sizeof(ullage_option_info), OLDER ? "ep.older.devices" : "ep.features.devices", ULLAGE_OPTION_INT, 0,
     "1", "How many devices."},
    {sizeof(ullage_option_info), OLDER ? "ep.older.capacity" : "ep.features.capacity", ULLAGE_OPTION_SIZE, 0,
     "1MiB", "Bytes of each."},
    {sizeof(ullage_option_info), OLDER ? "ep.older.fault" : "ep.features.fault", ULLAGE_OPTION_STRING, 0, "",
     "What goes wrong."},
};

#if OLDER
static ullage_status* CreateOlder(const ullage_options* options, ullage_provider** out) {
  (void)options;
  *out = calloc(1, sizeof(**out));
  (*out)->devices = 2;
  (*out)->capacity = 1 << 20;
  return NULL;
}
#endif

static const ullage_provider_api kProvider = {
    .size = SIZE_OF(ullage_provider_api, propose),
    .name = OLDER ? "older" : "features",
    .vendor = "nobody",
    .version = "1",
    .options = kOptions,
    .option_count = 3,
    .probe = Probe,
#if OLDER
    .create = CreateOlder,
#else
    .create = Create,
#endif
    .release = Release,
    .devices = Devices,
    .open_device = Open,
    .close_device = Close,
    .spaces = Spaces,
    .reserve = Reserve,
    .free = Free,
    .memory = Memory,
    .copy = Copy,
    .create_stream = CreateStream,
    .release_stream = ReleaseStream,
    .finish = Finish,
    .create_event = CreateEvent,
    .release_event = ReleaseEvent,
    .record = Record,
    .stream_wait = StreamWait,
    .host_wait = HostWait,
    .register_kernels = RegisterKernels,
#if OLDER
    .propose =
        RUBBISH(ullage_status * (*)(ullage_provider*, ullage_device*, const ullage_graph*, ullage_sink*)),
    .run_begin = RUBBISH(void (*)(ullage_device*)),
    .run_end = RUBBISH(void (*)(ullage_device*)),
    .can_copy_between = RUBBISH(uint32_t(*)(ullage_device*, ullage_device*)),
#else
    .propose = Propose,
    .verdict = Verdict,
    .compile = Compile,
    .run_begin = RunBegin,
    .run_end = RunEnd,
#endif
};
static const ullage_provider_api* const kProviders[] = {&kProvider};
static const ullage_plugin_api kPlugin = {offsetof(ullage_plugin_api, release), 1, 1, kProviders,
                                          RUBBISH(void (*)(void))};

ullage_status* ullage_plugin_entry(const ullage_host_api* api, const ullage_plugin_api** plugin);
ullage_status* ullage_plugin_entry(const ullage_host_api* api, const ullage_plugin_api** plugin) {
  host = api;
  *plugin = NULL;
  if (api->size < offsetof(ullage_host_api, node_block_type))
    return api->create_status(ULLAGE_UNSUPPORTED, "a newer host is needed");
  *plugin = &kPlugin;
  return NULL;
}
