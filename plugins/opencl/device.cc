#include "device.h"

#include <algorithm>

#include "program_cache.h"

namespace ullage_opencl {
namespace {

std::string Text(cl_device_id id, cl_device_info what) {
  size_t size = 0;
  if (Cl().GetDeviceInfo(id, what, 0, nullptr, &size) != CL_SUCCESS || size == 0) return "";
  std::string text(size, '\0');
  if (Cl().GetDeviceInfo(id, what, size, text.data(), nullptr) != CL_SUCCESS) return "";
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

template <class T>
T Number(cl_device_id id, cl_device_info what, T otherwise) {
  T value{};
  return Cl().GetDeviceInfo(id, what, sizeof value, &value, nullptr) == CL_SUCCESS ? value : otherwise;
}

DeviceFacts FactsOf(cl_platform_id platform, cl_device_id id) {
  DeviceFacts f;
  f.platform = platform;
  f.id = id;
  f.type = Number<cl_device_type>(id, CL_DEVICE_TYPE, 0);
  f.name = Text(id, CL_DEVICE_NAME);
  f.vendor = Text(id, CL_DEVICE_VENDOR);
  f.driver = Text(id, CL_DRIVER_VERSION);
  f.version = Text(id, CL_DEVICE_VERSION);
  f.vendor_id = Number<cl_uint>(id, CL_DEVICE_VENDOR_ID, 0);
  f.units = Number<cl_uint>(id, CL_DEVICE_MAX_COMPUTE_UNITS, 0);
  f.alignment = std::max<uint32_t>(64, Number<cl_uint>(id, CL_DEVICE_MEM_BASE_ADDR_ALIGN, 1024) / 8);
  f.total_bytes = Number<cl_ulong>(id, CL_DEVICE_GLOBAL_MEM_SIZE, 0);
  f.max_allocation = Number<cl_ulong>(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, 0);
  f.local_bytes = Number<cl_ulong>(id, CL_DEVICE_LOCAL_MEM_SIZE, 0);
  f.unified = Number<cl_bool>(id, CL_DEVICE_HOST_UNIFIED_MEMORY, CL_FALSE) != CL_FALSE;
  f.max_group = Number<size_t>(id, CL_DEVICE_MAX_WORK_GROUP_SIZE, 1);
  return f;
}

/// What the kernels take for granted.
bool Usable(cl_device_id id, const DeviceFacts& f) {
  if (Number<cl_bool>(id, CL_DEVICE_AVAILABLE, CL_FALSE) == CL_FALSE) return false;
  if (Number<cl_bool>(id, CL_DEVICE_COMPILER_AVAILABLE, CL_FALSE) == CL_FALSE) return false;
  if (Number<cl_bool>(id, CL_DEVICE_ENDIAN_LITTLE, CL_FALSE) == CL_FALSE) return false;
  if (f.max_group < 128 || f.local_bytes < 16 * 1024) return false;
  int major = 0, minor = 0;
  return std::sscanf(f.version.c_str(), "OpenCL %d.%d", &major, &minor) == 2 &&
         (major > 1 || (major == 1 && minor >= 2));
}

}  // namespace

std::vector<DeviceFacts> FindDevices() {
  std::vector<DeviceFacts> found;
  const ClApi* cl = FindCl();
  cl_uint count = 0;
  if (!cl || cl->GetPlatformIDs(0, nullptr, &count) != CL_SUCCESS || count == 0) return found;
  std::vector<cl_platform_id> platforms(count);
  if (cl->GetPlatformIDs(count, platforms.data(), nullptr) != CL_SUCCESS) return found;
  for (cl_platform_id platform : platforms) {
    cl_uint devices = 0;
    if (cl->GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &devices) != CL_SUCCESS) continue;
    std::vector<cl_device_id> ids(devices);
    if (cl->GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, devices, ids.data(), nullptr) != CL_SUCCESS) continue;
    for (cl_device_id id : ids)
      if (DeviceFacts f = FactsOf(platform, id); Usable(id, f)) found.push_back(std::move(f));
  }
  const auto rank = [](const DeviceFacts& f) {
    return f.type & CL_DEVICE_TYPE_GPU ? 0 : f.type & CL_DEVICE_TYPE_CPU ? 2 : 1;
  };
  std::stable_sort(found.begin(), found.end(),
                   [&](const DeviceFacts& a, const DeviceFacts& b) { return rank(a) < rank(b); });
  return found;
}

void CheckCl(cl_int code, const std::string& what) {
  if (code == CL_SUCCESS) return;
  const bool memory = code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_HOST_MEMORY ||
                      code == CL_INVALID_BUFFER_SIZE;
  const ullage_code kind = memory                            ? ULLAGE_OUT_OF_MEMORY
                           : code == CL_DEVICE_NOT_AVAILABLE ? ULLAGE_DEVICE_LOST
                                                             : ULLAGE_FAILED;
  Fail(kind, what + ": " + ErrorName(code) + " (" + std::to_string(code) + ")");
}

Device::Device(const DeviceFacts& facts) : facts_(facts) {
  const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                              reinterpret_cast<cl_context_properties>(facts_.platform), 0};
  cl_int code = CL_SUCCESS;
  context_ = Cl().CreateContext(properties, 1, &facts_.id, nullptr, nullptr, &code);
  CheckCl(code, facts_.name + ": context");
  queue_ = CreateQueue();
  nothing_ = Cl().CreateBuffer(context_, CL_MEM_READ_WRITE, 64, nullptr, &code);
  CheckCl(code, facts_.name + ": buffer");
}

Device::~Device() {
  for (auto& [key, kernel] : kernels_) Cl().ReleaseKernel(kernel);
  for (auto& [key, program] : programs_) Cl().ReleaseProgram(program);
  if (nothing_) Cl().ReleaseMemObject(nothing_);
  if (queue_) Cl().ReleaseCommandQueue(queue_);
  if (context_) Cl().ReleaseContext(context_);
}

ullage_buffer* Device::Allocate(ullage_space_kind space, uint64_t bytes) {
  if (bytes > facts_.max_allocation)
    Fail(ULLAGE_OUT_OF_MEMORY, facts_.name + ": a buffer of " + std::to_string(bytes) +
                                   " bytes, the most is " + std::to_string(facts_.max_allocation));
  auto buffer = std::make_unique<ullage_buffer>();
  buffer->device = this;
  buffer->bytes = bytes;
  const bool pinned = space == ULLAGE_SPACE_PINNED;
  cl_int code = CL_SUCCESS;
  // Weights are written by the host once, so no flag says more than read and write.
  buffer->memory = Cl().CreateBuffer(context_, CL_MEM_READ_WRITE | (pinned ? CL_MEM_ALLOC_HOST_PTR : 0),
                                     std::max<uint64_t>(bytes, 1), nullptr, &code);
  CheckCl(code, facts_.name + ": buffer of " + std::to_string(bytes) + " bytes");
  if (pinned) {
    buffer->pointer = Cl().EnqueueMapBuffer(queue_, buffer->memory, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                                            std::max<uint64_t>(bytes, 1), 0, nullptr, nullptr, &code);
    if (code != CL_SUCCESS) Cl().ReleaseMemObject(buffer->memory);
    CheckCl(code, facts_.name + ": mapping of pinned memory");
  }
  allocated_ += pinned ? 0 : bytes;
  return buffer.release();
}

void Device::Free(ullage_buffer* buffer) {
  if (!buffer) return;
  if (buffer->pointer) {
    Cl().EnqueueUnmapMemObject(queue_, buffer->memory, buffer->pointer, 0, nullptr, nullptr);
    Cl().Finish(queue_);
  } else {
    allocated_ -= buffer->bytes;
  }
  Cl().ReleaseMemObject(buffer->memory);
  delete buffer;
}

void Device::Copy(const ullage_copy* copies, size_t count, cl_command_queue queue) {
  for (size_t i = 0; i < count; ++i) {
    const ullage_copy& copy = *ULLAGE_AT(const ullage_copy, copies, i);
    const ullage_region &from = copy.source, &to = copy.target;
    if (from.bytes == 0) continue;
    const auto host = [](const ullage_region& r) { return !r.buffer || r.buffer->pointer; };
    const auto pointer = [](const ullage_region& r) {
      return r.buffer ? static_cast<char*>(r.buffer->pointer) + r.offset : static_cast<char*>(r.pointer);
    };
    cl_int code = CL_SUCCESS;
    if (host(from) && host(to))
      Fail(ULLAGE_INVALID_ARGUMENT, "a copy from host to host memory");
    else if (host(from))
      code = Cl().EnqueueWriteBuffer(queue, to.buffer->memory, CL_FALSE, to.offset, from.bytes, pointer(from),
                                     0, nullptr, nullptr);
    else if (host(to))
      code = Cl().EnqueueReadBuffer(queue, from.buffer->memory, CL_FALSE, from.offset, from.bytes,
                                    pointer(to), 0, nullptr, nullptr);
    else
      code = Cl().EnqueueCopyBuffer(queue, from.buffer->memory, to.buffer->memory, from.offset, to.offset,
                                    from.bytes, 0, nullptr, nullptr);
    CheckCl(code, facts_.name + ": copy of " + std::to_string(from.bytes) + " bytes");
  }
}

void Device::Write(const ullage_region& target, uint64_t at, const void* source, uint64_t bytes) {
  if (at > target.bytes || bytes > target.bytes - at) Fail(ULLAGE_FAILED, "a write beyond a region");
  CheckCl(Cl().EnqueueWriteBuffer(queue_, target.buffer->memory, CL_TRUE, target.offset + at, bytes, source,
                                  0, nullptr, nullptr),
          facts_.name + ": write");
}

cl_command_queue Device::CreateQueue() {
  cl_int code = CL_SUCCESS;
  cl_command_queue queue = Cl().CreateCommandQueue(context_, facts_.id, 0, &code);
  CheckCl(code, facts_.name + ": queue");
  return queue;
}

cl_program Device::Build(const KernelRef& ref) {
  const std::string key = ref.program + " " + ref.options + " " + ref.text;
  if (const auto it = programs_.find(key); it != programs_.end()) return it->second;
  cl_program program = BuildProgram(context_, facts_, ref.program, ref.options, ref.text);
  programs_.emplace(key, program);
  return program;
}

cl_kernel Device::Get(const KernelRef& ref) {
  if (cl_kernel kernel = ref.kernel.load(std::memory_order_acquire)) return kernel;
  std::lock_guard lock(programs_mutex_);
  const std::string key = ref.program + " " + ref.options + " " + ref.name + " " + ref.text;
  auto it = kernels_.find(key);
  if (it == kernels_.end()) {
    cl_int code = CL_SUCCESS;
    cl_kernel kernel = Cl().CreateKernel(Build(ref), ref.name.c_str(), &code);
    CheckCl(code, facts_.name + ": kernel " + ref.name + " of " + ref.program);
    it = kernels_.emplace(key, kernel).first;
  }
  ref.kernel.store(it->second, std::memory_order_release);
  return it->second;
}

Launch::Launch(Device& device, const KernelRef& ref, cl_command_queue queue)
    : device_(device), kernel_(device.Get(ref)), queue_(queue), ref_(ref), lock_(device.launch_mutex()) {}

Launch::~Launch() = default;

void Launch::Set(size_t size, const void* value) {
  const cl_int code = Cl().SetKernelArg(kernel_, next_, size, value);
  if (code != CL_SUCCESS)
    CheckCl(code, "parameter " + std::to_string(next_) + " of kernel " + ref_.name + " of " + ref_.program);
  ++next_;
}

void Launch::Memory(cl_mem memory, uint64_t offset) {
  Set(sizeof memory, &memory);
  const cl_ulong at = offset;
  Set(sizeof at, &at);
}

Launch& Launch::Add(const Tensor* tensor) {
  if (!tensor) {
    Memory(device_.nothing(), 0);
    return *this;
  }
  if (!tensor->buffer) {
    if (tensor->elements() == 0) {
      Memory(device_.nothing(), 0);
      return *this;
    }
    Fail(ULLAGE_FAILED, "a tensor that kernel " + ref_.name + " reads lies in host memory");
  }
  Memory(tensor->buffer->memory, tensor->offset);
  return *this;
}

Launch& Launch::Add(const ullage_region& region) {
  Memory(region.buffer ? region.buffer->memory : device_.nothing(), region.buffer ? region.offset : 0);
  return *this;
}

Launch& Launch::Int(int64_t value) {
  if (value > INT32_MAX || value < INT32_MIN)
    Fail(ULLAGE_UNSUPPORTED, "kernel " + ref_.name + ": a size of " + std::to_string(value));
  return Value<cl_int>(static_cast<cl_int>(value));
}

void Launch::Run(int64_t x, int64_t y, int64_t z, size_t local_x, size_t local_y) {
  if (x <= 0 || y <= 0 || z <= 0) return;
  const size_t global[3] = {static_cast<size_t>(x) * local_x, static_cast<size_t>(y) * local_y,
                            static_cast<size_t>(z)};
  const size_t local[3] = {local_x, local_y, 1};
  CheckCl(Cl().EnqueueNDRangeKernel(queue_, kernel_, 3, nullptr, global, local, 0, nullptr, nullptr),
          "kernel " + ref_.name + " of " + ref_.program);
}

}  // namespace ullage_opencl
