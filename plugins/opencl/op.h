/// What the kernels of the plugin are made of: an Op computes one node, an OpEntry says which nodes it takes.
///
/// An Op is made from headers alone (also when a session is only planned) and compiles nothing before
/// Prepare(). Compute() is const and allocates nothing on the device: it puts launches into the queue of the
/// call and returns. It may run on several threads at once.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device.h"

namespace ullage_opencl {

/// Workspace for the largest shapes; bytes -1: nothing bounds it.
struct Slot {
  uint32_t id = 0;
  int64_t bytes = 0;
};

/// A block of weights that the op keeps in a layout of its own.
struct Block {
  int64_t bytes = 0;
  uint64_t replaced_inputs = 0;
  std::string share_key;
};

/// One call of Compute().
class Context {
 public:
  Context(ullage_context* context, Device& device, size_t inputs, size_t outputs);
  /// Null: left out (an output: not wanted).
  const Tensor* in(size_t i) const { return At(inputs_, i); }
  const Tensor* out(size_t i) const { return At(outputs_, i); }
  /// Planned memory of a slot; memory that was not planned where nothing bounded it.
  ullage_region Workspace(uint32_t slot, int64_t bytes) const;
  Device& device() const { return device_; }
  cl_command_queue queue() const { return queue_; }
  bool own_queue() const { return own_; }
  Launch Start(const KernelRef& ref) const { return Launch(device_, ref, queue_); }

 private:
  static const Tensor* At(const std::vector<Tensor>& all, size_t i) {
    return i < all.size() && all[i].dtype != kNone ? &all[i] : nullptr;
  }
  ullage_context* context_;
  Device& device_;
  cl_command_queue queue_;
  bool own_ = false;
  std::vector<Tensor> inputs_, outputs_;
};

class Op : public ullage_kernel {
 public:
  explicit Op(const ullage_kernel_info& info);
  /// Of a group, which messages name by its last node.
  Op(const ullage_node* last, Device& device, size_t inputs, size_t outputs);
  virtual ~Op() = default;
  Op(const Op&) = delete;
  Op& operator=(const Op&) = delete;

  /// Level 1 and level 2: the same formula.
  virtual void Declare(const Facts& shapes, std::vector<Slot>& slots) const;
  virtual std::vector<Block> Blocks() const { return {}; }
  virtual void Prepack(size_t index, const ullage_region& target);
  virtual void Compute(const Context& context) const = 0;

  void SetPrepacked(size_t index, const ullage_region& region);
  void Prepare();
  void Run(ullage_context* context) const;

 protected:
  /// Of block `index`, once it is set.
  const ullage_region& block(size_t index) const;
  /// A program that Prepare() compiles.
  KernelRef& Use(const std::string& program, const std::string& options, const std::string& kernel,
                 const std::string& text = "");

  Node node_;
  Device& device_;

 private:
  std::vector<std::unique_ptr<KernelRef>> kernels_;
  std::vector<ullage_region> blocks_;
  size_t inputs_, outputs_;
};

using MakeOp = std::unique_ptr<Op> (*)(const ullage_kernel_info&);
template <class T>
std::unique_ptr<Op> Make(const ullage_kernel_info& info) {
  return std::make_unique<T>(info);
}

/// Which nodes an Op takes. `types`, per input: a set of element types.
struct OpEntry {
  std::string domain, op;
  std::vector<uint64_t> types;
  MakeOp make = nullptr;
  int32_t since = 1, until = 0;
  std::vector<ullage_space_kind> input_spaces, output_spaces;
  std::vector<ullage_pair> may_alias, caches;
  /// A reason for a refusal, or ""; null: makes the op and takes its ULLAGE_UNSUPPORTED for a refusal.
  std::string (*refuse)(const Node&) = nullptr;
};

inline constexpr const char* kMicrosoft = "com.microsoft";
inline constexpr const char* kUllage = "ullage";

/// All of them; made once.
const std::vector<OpEntry>& AllOps();
void RegisterOps(ullage_registry* registry);
/// Why the entry does not take the node; "": it does.
std::string Refusal(const OpEntry& entry, const ullage_kernel_info& info);

/// Proposes to run element-wise nodes together, and makes the op of such a group (ops/group.cc).
void ProposeGroups(Device& device, const ullage_graph* graph, ullage_sink* sink);
std::unique_ptr<Op> MakeGroup(Device& device, const ullage_graph* group);

// One per file in ops/.
void AddElementwise(std::vector<OpEntry>& ops);
void AddMovement(std::vector<OpEntry>& ops);
void AddGather(std::vector<OpEntry>& ops);
void AddLinear(std::vector<OpEntry>& ops);
void AddMatMul(std::vector<OpEntry>& ops);
void AddNorm(std::vector<OpEntry>& ops);
void AddReduce(std::vector<OpEntry>& ops);
void AddRotary(std::vector<OpEntry>& ops);
void AddAttention(std::vector<OpEntry>& ops);
void AddConv(std::vector<OpEntry>& ops);
void AddConvTranspose(std::vector<OpEntry>& ops);
void AddPool(std::vector<OpEntry>& ops);
void AddQuantize(std::vector<OpEntry>& ops);
void AddRecurrent(std::vector<OpEntry>& ops);
void AddResize(std::vector<OpEntry>& ops);
void AddScatter(std::vector<OpEntry>& ops);

/// "-DNAME=VALUE ".
std::string Define(const char* name, int64_t value);
/// The number that the sources know an element type by (common.cl); throws for others.
int TypeCode(int32_t dtype);

}  // namespace ullage_opencl
