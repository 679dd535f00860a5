/// A model, loaded and ready to run: the library's front door.
///
///     ullage::SessionOptions options;
///     options.max_shapes["images"] = {8, 3, 224, 224};
///     options.values["session.pre_allocate_execution_buffers"] = "1";
///     const auto session = ullage::Session::Load("model.onnx", options);
///     const ullage::InputTensor in{"images", pixels.data(), ullage::DType::kFloat, {1, 3, 224, 224}};
///     std::vector<ullage::NamedTensor> out = session.Run({&in, 1});
///
/// Everything that goes wrong is thrown as ullage::Error (ullage/error.h); its message names the culprit.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ullage/error.h"
#include "ullage/value.h"

namespace ullage::session {
class Session;
}

namespace ullage {

struct SessionOptions {
  /// By key, as `ullage options` lists them with their defaults; unknown keys and bad values are kUsage.
  std::map<std::string, std::string> values;
  /// Most bytes that the session may use, by device ("cpu").
  std::map<std::string, int64_t> limits;
  /// Largest shapes of inputs, by name, beyond what the model and session.max_shape_override say.
  std::map<std::string, Shape> max_shapes;
  /// Inputs that always have exactly this shape.
  std::map<std::string, Shape> exact_shapes;
  /// Values inside the graph that are wanted as outputs, too, behind the model's own.
  std::vector<std::string> more_outputs;
  /// Which of several models in a Hugging Face folder ("q4f16"); empty: the preferred one.
  std::string variant;
  /// Longest sequence of a .gguf model, whose position tables are made on load; 0: the model's context.
  int64_t max_positions = 0;
  /// Plan only: no weight is read (the files may be missing), nothing is reserved, and Run() is refused.
  bool plan_only = false;
};

/// An input of a Run: dense, row-major, in memory of the caller, aligned to its element type and unchanged
/// until the Run ends.
struct InputTensor {
  std::string_view name;
  const void* data = nullptr;  ///< of kString: std::string objects
  DType dtype = DType::kUndefined;
  Shape shape;
};

/// Memory of the caller for an output. Run() sets dtype and shape.
struct OutputTensor {
  std::string_view name;
  void* data = nullptr;
  size_t capacity_bytes = 0;
  DType dtype = DType::kUndefined;
  Shape shape = {};
};

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

struct RunOptions {
  /// Looked at between nodes; when it becomes true the Run ends with kInterrupted.
  const std::atomic<bool>* stop = nullptr;
  /// Names of the outputs to return; empty: all of them.
  std::span<const std::string_view> outputs;
};

/// What a device's memory is used for. Bytes.
struct DeviceMemory {
  std::string device;
  std::optional<int64_t> limit_bytes;
  int64_t planned_bytes = 0;      ///< reserved for weights, caches and one Run
  int64_t lower_bound_bytes = 0;  ///< no plan of this graph needs less
  std::vector<std::pair<std::string, int64_t>>
      tags;                            ///< "weights", "activations"…; they add up to planned_bytes
  int64_t peak_bytes = 0;              ///< most that was in use so far; 0 when only planned
  int64_t allocations_during_run = 0;  ///< since Load()
};

/// Owns the model and its memory. Immutable: all const functions may be called by several threads at once.
///
/// Concurrency. By default every Run has a frame of memory of its own: Runs of one session go side by side
/// (they take turns with the session's threads, loop by loop). A frame beyond the first is reserved when it
/// is needed and kept for later Runs; where the limit leaves no room for it, the Run waits for another to
/// end. With session.pre_allocate_execution_buffers=1 there is one frame, reserved, touched and, where the
/// system permits, locked by Load(): a Run allocates nothing and cannot fail for lack of memory, and a second
/// Run at the same time is refused at once with kBusy.
///
/// Values that nothing bounds come from an arena (options ep.cpu.arena.*); with pre-allocated buffers a model
/// that has such values is refused by Load() (kUnsupported, naming them).
class Session {
 public:
  /// `model` is an .onnx or .gguf file, a folder, or a name in the model store. Throws kUsage when nothing is
  /// there or an option is wrong, kInvalidModel, kUnsupported (naming every operator that cannot run, or an
  /// input that is a sequence or an optional), and kDoesNotFit, before anything large is taken, with the
  /// account of what is needed and the changes that would help.
  static Session Load(const std::string& model, const SessionOptions& options = {});
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  /// In the model's order. Inputs: what a Run accepts. Outputs: what was proved of them.
  const std::vector<ValueInfo>& inputs() const;
  const std::vector<ValueInfo>& outputs() const;

  /// Runs the graph on one tensor per input, in any order. Names, types, shapes and bounds are checked before
  /// anything executes (kInvalidInput). Outputs that are sequences or optionals are kUnsupported; leave them
  /// out of options.outputs.
  std::vector<NamedTensor> Run(std::span<const InputTensor> inputs, const RunOptions& options = {}) const;
  /// The same into memory of the caller, which must not overlap that of the inputs; options.outputs is not
  /// used, strings are kUnsupported. Allocates nothing itself. An output that is larger than its capacity is
  /// kInvalidInput, naming both sizes; the contents of all outputs are then undefined.
  void Run(std::span<const InputTensor> inputs, std::span<OutputTensor> outputs,
           const RunOptions& options = {}) const;

  /// The devices' memory: planned and measured.
  std::vector<DeviceMemory> memory() const;
  /// The plan as `ullage plan --json` prints it; with `nodes`, every node with its device.
  std::string PlanJson(bool nodes = false) const;
  /// Gives back memory that no Run in flight uses: frames beyond the first, and free parts of the arena.
  void Trim() const;

 private:
  friend Session WrapSession(std::unique_ptr<session::Session> session);
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ullage
