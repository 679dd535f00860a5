/// An open OpenCL device: its memory, queues, programs and launches.
///
/// Thread-safe: buffers, queues and launches may be used by several threads, each queue by one at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cl_api.h"
#include "host.h"

namespace ullage_opencl {

/// What is known of a device before it is opened.
struct DeviceFacts {
  cl_platform_id platform = nullptr;
  cl_device_id id = nullptr;
  cl_device_type type = 0;
  std::string name, vendor, driver, version;
  uint32_t vendor_id = 0, units = 0, alignment = 128;
  uint64_t total_bytes = 0, max_allocation = 0, local_bytes = 0;
  bool unified = false;
  size_t max_group = 1;
};

/// GPUs first, then accelerators, then processors, platform by platform; those without a compiler left out.
std::vector<DeviceFacts> FindDevices();

/// Throws a failure that names the call; memory errors as ULLAGE_OUT_OF_MEMORY.
void CheckCl(cl_int code, const std::string& what);

/// A kernel of a program in cl/, specialised by macros ("-DT=1") and, where there is some, by text that is
/// made for it and follows the program's. Compiled when it is first wanted.
struct KernelRef {
  std::string program, options, name, text;
  mutable std::atomic<cl_kernel> kernel{nullptr};

  KernelRef() = default;
  KernelRef(std::string p, std::string o, std::string n, std::string t = "")
      : program(std::move(p)), options(std::move(o)), name(std::move(n)), text(std::move(t)) {}
  KernelRef(const KernelRef& other) : KernelRef(other.program, other.options, other.name, other.text) {}
  KernelRef& operator=(const KernelRef& other) {
    program = other.program;
    options = other.options;
    name = other.name;
    text = other.text;
    kernel = nullptr;
    return *this;
  }
};

class Device;

}  // namespace ullage_opencl

// The ABI's handles.
struct ullage_buffer {
  ullage_opencl::Device* device = nullptr;
  cl_mem memory = nullptr;
  uint64_t bytes = 0;
  void* pointer = nullptr;  ///< of pinned memory, mapped for good
};
struct ullage_stream {
  ullage_opencl::Device* device = nullptr;
  cl_command_queue queue = nullptr;
};
struct ullage_event {
  cl_event event = nullptr;
};
struct ullage_device {};

namespace ullage_opencl {

class Device : public ullage_device {
 public:
  /// Makes a context and a queue; compiles nothing.
  explicit Device(const DeviceFacts& facts);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const DeviceFacts& facts() const { return facts_; }
  cl_context context() const { return context_; }

  ullage_buffer* Allocate(ullage_space_kind space, uint64_t bytes);
  void Free(ullage_buffer* buffer);
  /// That Allocate() gave and was not given back.
  uint64_t allocated() const { return allocated_; }
  void Copy(const ullage_copy* copies, size_t count, cl_command_queue queue);
  /// Writes host memory; done on return.
  void Write(const ullage_region& target, uint64_t at, const void* source, uint64_t bytes);

  cl_command_queue CreateQueue();
  /// Of calls that come without one.
  cl_command_queue own_queue() const { return queue_; }
  /// A few bytes that stand for tensors that are left out.
  cl_mem nothing() const { return nothing_; }

  cl_kernel Get(const KernelRef& ref);
  /// Held from the first SetKernelArg to the enqueue: kernels are shared by the nodes of all sessions.
  std::mutex& launch_mutex() { return launch_mutex_; }

 private:
  cl_program Build(const KernelRef& ref);

  DeviceFacts facts_;
  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr;
  cl_mem nothing_ = nullptr;
  std::atomic<uint64_t> allocated_{0};
  std::mutex programs_mutex_, launch_mutex_;
  std::map<std::string, cl_program> programs_;
  std::map<std::string, cl_kernel> kernels_;
};

/// Sets arguments in the order of the kernel's parameters and puts it into a queue.
class Launch {
 public:
  Launch(Device& device, const KernelRef& ref, cl_command_queue queue);
  ~Launch();
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  /// Two parameters: the buffer, and the byte where the tensor begins. Null: left out.
  Launch& Add(const Tensor* tensor);
  Launch& Add(const Tensor& tensor) { return Add(&tensor); }
  Launch& Add(const ullage_region& region);
  /// A number or structure, as wide as the parameter.
  template <class T>
  Launch& Value(const T& value) {
    Set(sizeof value, &value);
    return *this;
  }
  Launch& Int(int64_t value);  ///< a parameter of type int
  Launch& Long(int64_t value) { return Value<cl_long>(value); }
  Launch& Float(float value) { return Value<cl_float>(value); }
  /// Groups along each axis, of `local` items; nothing is done for none.
  void Run(int64_t x, int64_t y, int64_t z, size_t local_x, size_t local_y = 1);
  /// One item per element, in groups of 64.
  void RunOver(int64_t items) { Run((items + 63) / 64, 1, 1, 64); }

 private:
  void Set(size_t size, const void* value);
  void Memory(cl_mem memory, uint64_t offset);

  Device& device_;
  cl_kernel kernel_;
  cl_command_queue queue_;
  const KernelRef& ref_;
  std::unique_lock<std::mutex> lock_;
  cl_uint next_ = 0;
};

}  // namespace ullage_opencl
