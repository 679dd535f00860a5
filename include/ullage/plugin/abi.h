/* The device ABI: what a plugin that brings devices and kernels, and the host that loads it, know of each
 * other.
 *
 * Plain C11. The rules:
 * - Every struct and table begins with its size in bytes as its maker knows it. A reader uses no member
 * beyond that size and ignores what it does not know. Members are only ever appended; none is moved or
 * reused. A null function is a feature that is not there.
 * - Who passes a struct sets its size, also of one that the other side is to fill. Elements of an array of
 *   structs lie as far apart as the size of its first one says: ULLAGE_AT steps through them. Structs that
 * lie within others (regions, the estimate of a proposal) never grow.
 * - Objects of the other side are opaque pointers. Who creates an object releases it, through the same table:
 *   no memory is allocated on one side and freed on the other, and no allocator is handed over. Arrays belong
 *   to the caller, who states a capacity; the callee always sets `needed`, and fills nothing beyond the
 *   capacity.
 * - A function returns a status, null when all is well; statuses are made and released by the host. No
 *   exception, signal or longjmp crosses.
 * - Text is UTF-8, ends with NUL, and lives as long as the object that it was read from, or the call. The
 * view of a node that a kernel is created from lives as long as that kernel, with the bytes of its constants;
 *   other views live for the call.
 * - The host owns budgets. A plugin estimates, declares and proposes; it is told what was refused and never
 *   asks for more. The host allocates all planned memory through `reserve` and hands out regions of it.
 * - With a stream, compute may return before its work is done, but for what lies in host memory: such inputs
 * may change and such outputs are read as soon as it has returned. The ends of a copy rest until it is done.
 * What fails in a stream is reported by the next call that waits for it.
 * - Every function may be called from any thread, not concurrently on the same object unless said otherwise.
 *   `compute` may run concurrently on one kernel where the device says so. */
#ifndef ULLAGE_PLUGIN_ABI_H_
#define ULLAGE_PLUGIN_ABI_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ULLAGE_ABI_VERSION 1u

/* Element `index` of an array of structs that begin with their size. */
#define ULLAGE_AT(type, array, index) ((type*)((char*)(array) + (size_t)(index) * (array)->size))

/* ---- objects ---- */
typedef struct ullage_status ullage_status;     /* host: why a call failed */
typedef struct ullage_options ullage_options;   /* host: the session's options, resolved once */
typedef struct ullage_graph ullage_graph;       /* host: read-only view of nodes offered */
typedef struct ullage_node ullage_node;         /* host: read-only view of one node */
typedef struct ullage_registry ullage_registry; /* host: receives kernels */
typedef struct ullage_sink ullage_sink;         /* host: receives proposals */
typedef struct ullage_shapes ullage_shapes;     /* host: one call of a shape-bound rule */
typedef struct ullage_context ullage_context;   /* host: one call of compute */
typedef struct ullage_provider ullage_provider; /* plugin: an instance with its options */
typedef struct ullage_device ullage_device;     /* plugin: an open device */
typedef struct ullage_buffer ullage_buffer;     /* plugin: memory of a device */
typedef struct ullage_stream ullage_stream;     /* plugin: a queue of a device */
typedef struct ullage_event ullage_event;       /* plugin: a point in a queue */
typedef struct ullage_kernel ullage_kernel;     /* plugin: code for one node or fused group */

typedef enum ullage_code {
  ULLAGE_INVALID_ARGUMENT = 1,
  ULLAGE_OUT_OF_MEMORY = 2,
  ULLAGE_UNSUPPORTED = 3,
  ULLAGE_FAILED = 4,
  ULLAGE_DEVICE_LOST = 5,
  ULLAGE_INTERRUPTED = 6,
  ULLAGE_CODE_FORCE_32 = 0x7fffffff
} ullage_code;

/* ---- amounts ---- */
typedef enum ullage_resource_kind {
  ULLAGE_RESOURCE_NONE = 0,
  ULLAGE_RESOURCE_BYTES = 1,
  ULLAGE_RESOURCE_FORCE_32 = 0x7fffffff
} ullage_resource_kind;

/* Fixed at 56 bytes; further kinds take other members of the union. */
typedef struct ullage_resource_count {
  ullage_resource_kind kind;
  uint32_t reserved; /* 0 */
  union {
    uint64_t bytes;
    uint8_t room[48];
  } value;
} ullage_resource_count;

/* ---- devices ---- */
typedef enum ullage_device_type {
  ULLAGE_DEVICE_UNKNOWN = 0,
  ULLAGE_DEVICE_CPU = 1,
  ULLAGE_DEVICE_GPU = 2,
  ULLAGE_DEVICE_NPU = 3,
  ULLAGE_DEVICE_FPGA = 4,
  ULLAGE_DEVICE_ACCELERATOR = 5,
  ULLAGE_DEVICE_FORCE_32 = 0x7fffffff
} ullage_device_type;

enum {
  ULLAGE_DEVICE_UNIFIED_MEMORY = 1u << 0, /* its memory is the host's: spilling frees nothing */
  ULLAGE_DEVICE_CONCURRENT = 1u << 1,     /* compute may run concurrently on one kernel */
  ULLAGE_DEVICE_BUFFER_OFFSETS = 1u << 2, /* memory is addressed as buffer and offset, never by pointer */
  ULLAGE_DEVICE_ONLY_WHEN_NAMED = 1u << 3 /* takes part only when the user names it or its provider */
};

typedef struct ullage_device_info {
  size_t size;
  ullage_device_type type;
  uint32_t vendor_id; /* PCI vendor, 0: unknown */
  const char* name;
  const char* vendor;
  int32_t ordinal; /* number that programs use, from 0 per provider; never a hardware id */
  uint32_t flags;
  const char* bus_id; /* "0000:01:00.0"; null: unknown */
  uint8_t uuid[16];   /* zeros: unknown */
  uint64_t total_bytes;
  uint32_t units;          /* multiprocessors, cores; 0: unknown */
  uint32_t alignment;      /* of allocations and offsets, a power of two */
  uint64_t free_bytes;     /* now; 0: unknown */
  uint64_t copy_bandwidth; /* host to device, bytes per second; 0: unknown */
} ullage_device_info;

/* ---- memory ---- */
typedef enum ullage_space_kind {
  ULLAGE_SPACE_HOST = 0, /* ordinary host memory: what a value lies in unless a kernel says otherwise */
  ULLAGE_SPACE_DEVICE = 1,
  ULLAGE_SPACE_PINNED = 2,  /* host memory that copies at full speed */
  ULLAGE_SPACE_WEIGHTS = 3, /* device memory that is written once, then only read */
  ULLAGE_SPACE_FORCE_32 = 0x7fffffff
} ullage_space_kind;

typedef struct ullage_space_info {
  size_t size;
  ullage_space_kind kind;
  uint32_t host_accessible; /* 1: the host may read and write through pointers */
  uint64_t max_allocation;  /* 0: no limit but memory */
  uint32_t alignment;
  uint32_t reserved;
} ullage_space_info;

/* Bytes within a buffer. `pointer` is null where memory has no addresses. */
typedef struct ullage_region {
  size_t size;
  ullage_buffer* buffer; /* null: host memory */
  uint64_t offset;
  uint64_t bytes;
  void* pointer;
} ullage_region;

/* Parts of buffers: weights are streamed piece by piece. The bytes of both regions are equal in number. */
typedef struct ullage_copy {
  size_t size;
  ullage_region source;
  ullage_region target;
} ullage_copy;

typedef struct ullage_memory_info {
  size_t size;
  uint64_t free_bytes;
  uint64_t total_bytes;
  uint64_t reserve_bytes; /* that the plugin's libraries take outside of the host's reservations */
} ullage_memory_info;

/* ---- values ---- */
typedef enum ullage_presence {
  ULLAGE_ABSENT = 0,        /* an optional input or output that is left out */
  ULLAGE_SHAPE_KNOWN = 1,   /* rank and bounds are given; -1 as upper end: unbounded */
  ULLAGE_SHAPE_UNKNOWN = 2, /* there is a value, nothing is known of its shape */
  ULLAGE_PRESENCE_FORCE_32 = 0x7fffffff
} ullage_presence;

typedef enum ullage_shape_source {
  ULLAGE_SHAPE_FROM_MODEL = 0,
  ULLAGE_SHAPE_FROM_BOUND = 1, /* the user's bounds: every Run is held to them */
  ULLAGE_SHAPE_SOURCE_FORCE_32 = 0x7fffffff
} ullage_shape_source;

typedef struct ullage_value_info {
  size_t size;
  ullage_presence presence;
  int32_t dtype; /* onnx.TensorProto.DataType */
  ullage_shape_source source;
  uint32_t is_constant;
  size_t rank; /* 0: a scalar */
  const int64_t* lower;
  const int64_t* upper;
  uint64_t max_elements; /* tighter than the product of the upper ends, where known; UINT64_MAX: not */
} ullage_value_info;

typedef struct ullage_tensor {
  size_t size;
  int32_t dtype;
  ullage_space_kind space;
  size_t rank;
  const int64_t* dims;
  int64_t capacity; /* of axis rank-2 where the value is a cache with room; 0: dense */
  ullage_region region;
} ullage_tensor;

typedef enum ullage_attribute_type {
  ULLAGE_ATTRIBUTE_ABSENT = 0,
  ULLAGE_ATTRIBUTE_INT = 1,
  ULLAGE_ATTRIBUTE_FLOAT = 2,
  ULLAGE_ATTRIBUTE_STRING = 3,
  ULLAGE_ATTRIBUTE_TENSOR = 4,
  ULLAGE_ATTRIBUTE_INTS = 5,
  ULLAGE_ATTRIBUTE_FLOATS = 6,
  ULLAGE_ATTRIBUTE_STRINGS = 7,
  ULLAGE_ATTRIBUTE_OTHER = 8, /* graphs, lists of tensors */
  ULLAGE_ATTRIBUTE_FORCE_32 = 0x7fffffff
} ullage_attribute_type;

/* ---- level 1: an estimate before there is a kernel ---- */
typedef enum ullage_certainty {
  ULLAGE_UNAVAILABLE = 0, /* nobody knows; never zero */
  ULLAGE_BOUND = 1,       /* enough for every shape within the bounds */
  ULLAGE_EXACT = 2,
  ULLAGE_CERTAINTY_FORCE_32 = 0x7fffffff
} ullage_certainty;

typedef struct ullage_estimate {
  size_t size;
  ullage_certainty certainty;
  uint32_t alignment;
  uint64_t workspace_bytes;         /* while the node runs */
  uint64_t transient_bytes;         /* that ends before the node does its work */
  uint64_t prepack_bytes;           /* for good; not what is reused in place of its source */
  uint64_t temporary_prepack_bytes; /* while weights are packed */
  uint64_t replaced_inputs;         /* bit i: the source of input i is not read again */
  uint64_t route;                   /* which implementation was meant, for reports */
} ullage_estimate;

/* ---- level 2: what a kernel declares ---- */
typedef enum ullage_slot_state {
  ULLAGE_SLOT_KNOWN = 0,
  ULLAGE_SLOT_ZERO = 1,    /* proven: nothing is needed */
  ULLAGE_SLOT_UNKNOWN = 2, /* the kernel asks for scratch at run time */
  ULLAGE_SLOT_FORCE_32 = 0x7fffffff
} ullage_slot_state;

enum {
  ULLAGE_SLOT_OF_SESSION = 1u << 0,  /* alive between steps and Runs; else for the step only */
  ULLAGE_SLOT_ACROSS_SYNC = 1u << 1, /* still in use on the device when compute returns */
  ULLAGE_SLOT_PLANNED = 1u << 2      /* the kernel takes planned memory for it */
};

typedef struct ullage_slot {
  size_t size;
  uint32_t id; /* a small constant of the kernel's author */
  ullage_slot_state state;
  uint64_t bytes;
  uint32_t alignment; /* 0: the device's */
  uint32_t flags;
  ullage_space_kind space;
  uint32_t reserved;
} ullage_slot;

/* A block of weights in the kernel's own layout. Kernels with equal, non-empty keys and the same constants
 * share one block: it is filled once, and all are given the same region. */
typedef struct ullage_prepack_block {
  size_t size;
  uint64_t bytes;
  uint32_t alignment;
  uint32_t reserved;
  uint64_t replaced_inputs; /* bit i: the source of input i is not read after this */
  const char* share_key;    /* null or "": not shared */
} ullage_prepack_block;

/* ---- kernels ---- */
typedef struct ullage_kernel_api {
  size_t size;
  void (*release)(ullage_kernel* kernel);
  ullage_status* (*compute)(ullage_kernel* kernel, ullage_context* context);
  /* Optional from here. Shapes are positional, one per input, then one per output. Without declare a kernel
   * needs no scratch, and is given none. */
  ullage_status* (*declare)(ullage_kernel* kernel, const ullage_value_info* inputs, size_t input_count,
                            const ullage_value_info* outputs, size_t output_count, ullage_slot* slots,
                            size_t capacity, size_t* needed);
  ullage_status* (*plan_prepack)(ullage_kernel* kernel, ullage_prepack_block* blocks, size_t capacity,
                                 size_t* needed);
  /* Fills block `index` in `target`; sources are constants of the node, which rest until the stream is done.
   * Without a stream it is done on return. */
  ullage_status* (*prepack)(ullage_kernel* kernel, size_t index, const ullage_region* target,
                            ullage_stream* stream);
  /* Where block `index` lies for good, whoever filled it. */
  ullage_status* (*set_prepacked)(ullage_kernel* kernel, size_t index, const ullage_region* region);
  /* Once, when the session loads, after all blocks are set: what the first compute would otherwise do for the
   * first time (compiling programs, loading libraries). Not called when a session is only planned. */
  ullage_status* (*prepare)(ullage_kernel* kernel, ullage_stream* stream);
} ullage_kernel_api;

/* What a plugin's kernel objects begin with. */
struct ullage_kernel {
  const ullage_kernel_api* api;
};

typedef struct ullage_kernel_info {
  size_t size;
  const ullage_node* node;
  ullage_device* device;
  const ullage_options* options; /* the same bag for estimate, create and declare */
} ullage_kernel_info;

typedef struct ullage_pair {
  uint32_t input, output;
} ullage_pair;

enum {
  /* compute states the shapes of its results with set_output_shape, before it returns and before it asks for
   * their memory. */
  ULLAGE_KERNEL_LATE = 1u << 0
};

typedef struct ullage_kernel_entry {
  size_t size;
  const char* domain; /* "": ai.onnx */
  const char* op;
  int32_t since, until; /* opsets of the domain, both included; until 0: no end */
  /* Per input: bit t set: element type t is taken. Inputs beyond the list are not checked. */
  const uint64_t* input_types;
  size_t input_type_count;
  const ullage_space_kind* input_spaces; /* default: device */
  size_t input_space_count;
  const ullage_space_kind* output_spaces;
  size_t output_space_count;
  const ullage_pair* aliases; /* the output begins as the input: its memory, or a copy made before compute */
  size_t alias_count;
  const ullage_pair* may_alias; /* the output may be written over the input */
  size_t may_alias_count;
  const ullage_pair* caches; /* past, present: appended in place where there is room */
  size_t cache_count;
  uint32_t flags;
  uint32_t reserved;
  void* state; /* handed to the functions below */
  ullage_status* (*create)(void* state, const ullage_kernel_info* info, ullage_kernel** kernel);
  /* Optional. Needs no kernel and no device work. */
  ullage_status* (*estimate)(void* state, const ullage_kernel_info* info, ullage_estimate* estimate);
  /* Optional: a reason why this node is refused, in the caller's buffer; needed 0: it is taken. */
  ullage_status* (*refuse)(void* state, const ullage_kernel_info* info, char* reason, size_t capacity,
                           size_t* needed);
  /* Optional, for operators that the host does not know: bounds of the outputs from those of the inputs. Must
   * be sound. Called when planning and, with exact shapes, when running. */
  ullage_status* (*shape_bound)(void* state, const ullage_node* node, ullage_shapes* shapes);
} ullage_kernel_entry;

/* ---- capability ---- */
typedef struct ullage_proposal {
  size_t size;
  const size_t* nodes; /* indices in the graph view */
  size_t node_count;
  uint32_t fused; /* 1: the plugin compiles them into one kernel; 0: each runs with its own, all or none do */
  uint32_t reserved;
  ullage_estimate estimate; /* of the group */
  uint64_t id;              /* the plugin's own, given back to it */
} ullage_proposal;

typedef enum ullage_verdict {
  ULLAGE_ACCEPTED = 0,
  ULLAGE_REFUSED_BUDGET = 1,
  ULLAGE_REFUSED_GROUP = 2, /* the nodes cannot run as one: a node outside reads one of them and is read by
                             * another, one decides the shape of what another makes, or one has no kernel */
  ULLAGE_REFUSED_TAKEN = 3, /* an earlier proposal has one of them */
  ULLAGE_VERDICT_FORCE_32 = 0x7fffffff
} ullage_verdict;

/* ---- what a plugin gives ---- */
typedef enum ullage_option_type {
  ULLAGE_OPTION_BOOL = 0, /* "0" or "1" */
  ULLAGE_OPTION_INT = 1,
  ULLAGE_OPTION_SIZE = 2, /* "512MiB"; read as plain bytes */
  ULLAGE_OPTION_STRING = 3,
  ULLAGE_OPTION_TYPE_FORCE_32 = 0x7fffffff
} ullage_option_type;

typedef struct ullage_option_info {
  size_t size;
  const char* key; /* "ep.NAME.…", NAME being the provider's */
  ullage_option_type type;
  uint32_t reserved;
  const char* default_value;
  const char* doc;
} ullage_option_info;

typedef struct ullage_provider_api {
  size_t size;
  const char* name; /* "opencl" */
  const char* vendor;
  const char* version;
  const ullage_option_info* options; /* that its sessions understand; lives as long as the plugin */
  size_t option_count;

  /* Optional, quick, touches no driver: 0: there is nothing here that would take part without being named. */
  uint32_t (*probe)(void);
  ullage_status* (*create)(const ullage_options* options, ullage_provider** provider);
  void (*release)(ullage_provider* provider);
  ullage_status* (*devices)(ullage_provider* provider, ullage_device_info* infos, size_t capacity,
                            size_t* needed);
  ullage_status* (*open_device)(ullage_provider* provider, int32_t ordinal, ullage_device** device);
  void (*close_device)(ullage_device* device);

  ullage_status* (*spaces)(ullage_device* device, ullage_space_info* spaces, size_t capacity, size_t* needed);
  /* Memory for good, outside of any pool. */
  ullage_status* (*reserve)(ullage_device* device, ullage_space_kind space, uint64_t bytes,
                            uint32_t alignment, ullage_buffer** buffer);
  /* Memory that comes and goes, in the order of the stream where there is one. */
  ullage_status* (*allocate)(ullage_device* device, ullage_space_kind space, uint64_t bytes,
                             uint32_t alignment, ullage_stream* stream, ullage_buffer** buffer);
  void (*free)(ullage_device* device, ullage_buffer* buffer, ullage_stream* stream);
  void* (*pointer)(ullage_buffer* buffer); /* null where it has no address */
  ullage_status* (*memory)(ullage_device* device, ullage_memory_info* info);

  uint32_t (*can_copy)(ullage_device* device, ullage_space_kind source, ullage_space_kind target);
  /* All copies of the batch, in any order; without a stream they are done on return. */
  ullage_status* (*copy)(ullage_device* device, const ullage_copy* copies, size_t count,
                         ullage_stream* stream);

  ullage_status* (*create_stream)(ullage_device* device, ullage_stream** stream);
  void (*release_stream)(ullage_stream* stream);
  void* (*native_stream)(ullage_stream* stream);
  ullage_status* (*flush)(ullage_stream* stream);
  ullage_status* (*finish)(ullage_stream* stream); /* waits on the host */
  ullage_status* (*create_event)(ullage_device* device, ullage_event** event);
  void (*release_event)(ullage_event* event);
  ullage_status* (*record)(ullage_event* event, ullage_stream* stream);
  ullage_status* (*stream_wait)(ullage_stream* stream, ullage_event* event);
  ullage_status* (*host_wait)(ullage_event* event);

  ullage_status* (*register_kernels)(ullage_provider* provider, ullage_registry* registry);
  /* Optional. Without it nodes are offered one by one, to whoever has a kernel. */
  ullage_status* (*propose)(ullage_provider* provider, ullage_device* device, const ullage_graph* graph,
                            ullage_sink* sink);
  void (*verdict)(ullage_provider* provider, uint64_t proposal, ullage_verdict verdict);
  /* Makes the kernel of an accepted fused group; its nodes are those of the view. The kernel's inputs are the
   * values that the group reads and does not make, in order of first use; its outputs those that it makes and
   * others read, in the order of the nodes (see group_input). An input whose contents decide a shape lies in
   * host memory; all others, and the outputs, lie on the device. */
  ullage_status* (*compile)(ullage_provider* provider, ullage_device* device, uint64_t proposal,
                            const ullage_graph* group, const ullage_options* options, ullage_kernel** kernel);
  /* Optional, around each Run that uses the device; Runs may overlap. */
  void (*run_begin)(ullage_device* device);
  void (*run_end)(ullage_device* device);
  /* Optional: 1: between these two devices of the provider, both open, no copy needs the host: `copy` and the
   * queues of `target` take sources in buffers of `source` and wait for its events. Else the host is in
   * between. */
  uint32_t (*can_copy_between)(ullage_device* source, ullage_device* target);
} ullage_provider_api;

typedef struct ullage_plugin_api {
  size_t size;
  uint32_t abi_version; /* that it was built with */
  uint32_t provider_count;
  const ullage_provider_api* const* providers;
  void (*release)(void);
} ullage_plugin_api;

/* ---- what the host gives ---- */
typedef struct ullage_host_api {
  size_t size;
  uint32_t abi_version;
  uint32_t reserved;

  ullage_status* (*create_status)(ullage_code code, const char* message);
  void (*release_status)(ullage_status* status);
  void (*log)(int32_t level, const char* message); /* 0 debug, 1 info, 2 warning, 3 error */
  /* The value of a key (sizes as plain bytes, booleans as "0" or "1"), its default, or null for an unknown
   * key. */
  const char* (*option)(const ullage_options* options, const char* key);

  size_t (*graph_size)(const ullage_graph* graph); /* nodes, in topological order */
  const ullage_node* (*graph_node)(const ullage_graph* graph, size_t index);
  const char* (*node_name)(const ullage_node* node);
  const char* (*node_domain)(const ullage_node* node);
  const char* (*node_op)(const ullage_node* node);
  int32_t (*node_opset)(const ullage_node* node);
  size_t (*node_inputs)(const ullage_node* node);
  size_t (*node_outputs)(const ullage_node* node);
  ullage_status* (*node_input)(const ullage_node* node, size_t index, ullage_value_info* info);
  ullage_status* (*node_output)(const ullage_node* node, size_t index, ullage_value_info* info);
  /* Index in the graph view of the node that makes input `index`; SIZE_MAX: none of them. */
  size_t (*node_producer)(const ullage_graph* graph, const ullage_node* node, size_t index);
  /* A constant input in host memory; bytes is null where the data are not there (planning), count their
   * number, which is 0 where the input is no constant. */
  ullage_status* (*node_constant)(const ullage_node* node, size_t index, const void** bytes, uint64_t* count);
  size_t (*node_attributes)(const ullage_node* node);
  const char* (*attribute_name)(const ullage_node* node, size_t index);
  ullage_attribute_type (*attribute_type)(const ullage_node* node, const char* name);
  /* Attributes: `found` is 0 for one that is not there; another type is an error. */
  ullage_status* (*attribute_int)(const ullage_node* node, const char* name, int64_t* value, uint32_t* found);
  ullage_status* (*attribute_float)(const ullage_node* node, const char* name, float* value, uint32_t* found);
  ullage_status* (*attribute_string)(const ullage_node* node, const char* name, const char** text,
                                     uint64_t* count, uint32_t* found);
  ullage_status* (*attribute_ints)(const ullage_node* node, const char* name, const int64_t** values,
                                   size_t* count, uint32_t* found);
  ullage_status* (*attribute_floats)(const ullage_node* node, const char* name, const float** values,
                                     size_t* count, uint32_t* found);
  ullage_status* (*attribute_tensor)(const ullage_node* node, const char* name, ullage_value_info* info,
                                     const void** bytes, uint64_t* count, uint32_t* found);

  ullage_status* (*add_kernel)(ullage_registry* registry, const ullage_kernel_entry* entry);
  ullage_status* (*add_proposal)(ullage_sink* sink, const ullage_proposal* proposal);
  /* What the host would still grant this device; a view for choosing proposals, not a promise. */
  ullage_status* (*remaining_budget)(ullage_sink* sink, ullage_resource_count* count);

  ullage_status* (*shape_input)(ullage_shapes* shapes, size_t index, ullage_value_info* info);
  ullage_status* (*set_shape_output)(ullage_shapes* shapes, size_t index, int32_t dtype, size_t rank,
                                     const int64_t* lower, const int64_t* upper);

  /* An input that is left out, or an output that is not wanted, has dtype 0. A constant that packed blocks
   * stand for, and a late result without a bound, has a region of no bytes. */
  ullage_status* (*input)(ullage_context* context, size_t index, ullage_tensor* tensor);
  ullage_status* (*output)(ullage_context* context, size_t index, ullage_tensor* tensor);
  /* The final shape of an output whose size the data decide; within its bound. */
  ullage_status* (*set_output_shape)(ullage_context* context, size_t index, size_t rank, const int64_t* dims);
  /* Memory planned for a slot: `region.bytes` 0 where none was planned or fewer than `bytes` were. */
  ullage_status* (*workspace)(ullage_context* context, uint32_t slot, uint64_t bytes, ullage_region* region);
  /* Memory that was not planned, until compute returns (with a stream: until its work is done). Refused in
   * sessions that allocate nothing while they run. Every call is counted for the node. */
  ullage_status* (*scratch)(ullage_context* context, uint32_t slot, uint64_t bytes, uint32_t alignment,
                            ullage_region* region);
  ullage_stream* (*stream)(ullage_context* context); /* null: compute is done on return */

  /* Element `at` of a list of strings; `found` is 0 beyond its end and where there is no such attribute. */
  ullage_status* (*attribute_string_at)(const ullage_node* node, const char* name, size_t at,
                                        const char** text, uint64_t* count, uint32_t* found);
  /* How a constant input is stored whose elements share scales in blocks: GGUF's name in lower case ("q4_k").
   * Its dims are those of the elements, its bytes blocks, row by row. Null: it is stored as its type says. */
  const char* (*node_block_type)(const ullage_node* node, size_t index);

  /* What no proposal names is offered node by node, to kernels that were registered; without this call it
   * goes to other devices. */
  ullage_status* (*offer_rest)(ullage_sink* sink);
  /* Which output of its producer input `index` is; SIZE_MAX where node_producer has none. */
  size_t (*node_producer_output)(const ullage_graph* graph, const ullage_node* node, size_t index);
  /* Of a group to compile: how many inputs and outputs its kernel has, which of them input or output `index`
   * of one of its nodes is; SIZE_MAX: none. */
  size_t (*group_inputs)(const ullage_graph* group);
  size_t (*group_outputs)(const ullage_graph* group);
  size_t (*group_input)(const ullage_graph* group, const ullage_node* node, size_t index);
  size_t (*group_output)(const ullage_graph* group, const ullage_node* node, size_t index);
} ullage_host_api;

/* The one symbol of a plugin. `host` outlives the plugin. A plugin that cannot work with `host->abi_version`
 * leaves `plugin` null and returns a status. */
#define ULLAGE_PLUGIN_ENTRY "ullage_plugin_entry"
typedef ullage_status* (*ullage_plugin_entry_fn)(const ullage_host_api* host,
                                                 const ullage_plugin_api** plugin);

#ifdef __cplusplus
}
#endif

#endif /* ULLAGE_PLUGIN_ABI_H_ */
