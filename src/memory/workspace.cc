#include "memory/workspace.h"

#include <algorithm>
#include <bit>

#include "core/checked.h"

namespace ullage::memory {
namespace {

constexpr size_t kMaxSize = size_t{1} << 62;

size_t EffectiveAlignment(const WorkspaceRequirement& r) {
  return r.alignment == 0 ? kDefaultWorkspaceAlignment : r.alignment;
}

// Bytes with padding; throws with the slot named.
size_t PaddedSize(const WorkspaceRequirement& r) {
  const size_t alignment = EffectiveAlignment(r);
  if (!std::has_single_bit(alignment) || alignment > kMaxSize)
    Throw(Code::kRuntime, "workspace slot ", r.slot_id, " has alignment ", r.alignment,
          ", which is no power of two");
  if (r.size_bytes > kMaxSize - alignment)
    Throw(Code::kRuntime, "workspace slot ", r.slot_id, " needs ", r.size_bytes, " bytes, more than 2^62");
  return AlignUp(r.size_bytes, alignment);
}

bool Planned(const WorkspaceRequirement& r) {
  return r.status == WorkspaceStatus::kKnown && r.size_bytes > 0;
}

}  // namespace

size_t WorkspaceTotal(std::span<const WorkspaceRequirement> requirements) {
  size_t total = 0;
  for (const WorkspaceRequirement& r : requirements) {
    if (!Planned(r)) continue;
    if (__builtin_add_overflow(total, PaddedSize(r), &total) || total > kMaxSize)
      Throw(Code::kRuntime, "the workspace slots up to ", r.slot_id, " need more than 2^62 bytes");
  }
  return total;
}

WorkspacePattern WorkspacePattern::Append(std::span<const NodeWorkspace> nodes, int64_t steps,
                                          std::vector<Buffer>* buffers) {
  WorkspacePattern pattern;
  std::map<int64_t, size_t> per_step;  // bytes of step workspaces
  size_t always = 0;                   // bytes of session workspaces
  const auto add = [](size_t* sum, size_t bytes, int64_t node) {
    if (__builtin_add_overflow(*sum, bytes, sum) || *sum > kMaxSize)
      Throw(Code::kRuntime, "the workspaces up to node ", node, " need more than 2^62 bytes");
  };
  std::map<std::pair<int64_t, int>, bool> declared;
  for (const NodeWorkspace& n : nodes) {
    if (n.step < 0 || n.step >= steps)
      Throw(Code::kRuntime, "node ", n.node, " runs at step ", n.step, " of a schedule of ", steps);
    for (const WorkspaceRequirement& r : n.requirements) {
      const std::pair<int64_t, int> key(n.node, r.slot_id);
      if (r.slot_id < 0)
        Throw(Code::kRuntime, "node ", n.node, " declares the negative workspace slot ", r.slot_id);
      if (!declared.emplace(key, true).second)
        Throw(Code::kRuntime, "node ", n.node, " declares workspace slot ", r.slot_id, " twice");
      if (r.status == WorkspaceStatus::kUnknown) pattern.unknown_.push_back(key);
      if (!Planned(r)) continue;
      size_t padded = 0;
      try {
        padded = PaddedSize(r);
      } catch (const Error& e) {
        Throw(e.code(), "node ", n.node, ": ", e.message());
      }
      const bool session = r.lifetime == WorkspaceLifetime::kSession;
      add(session ? &always : &per_step[n.step], padded, n.node);
      Buffer buffer;
      buffer.id = -1 - static_cast<int64_t>(buffers->size());
      buffer.size = static_cast<int64_t>(r.size_bytes);
      buffer.alignment = static_cast<int64_t>(EffectiveAlignment(r));
      buffer.first = session ? 0 : n.step;
      buffer.last = session ? steps : n.step + 1;
      pattern.slots_[key] = {buffers->size(), {0, r.size_bytes}};
      buffers->push_back(buffer);
    }
  }
  size_t peak = always;
  for (auto [step, bytes] : per_step) {
    add(&bytes, always, -1);
    peak = std::max(peak, bytes);
  }
  pattern.live_peak_ = static_cast<int64_t>(peak);
  std::sort(pattern.unknown_.begin(), pattern.unknown_.end());
  return pattern;
}

void WorkspacePattern::Resolve(const Packing& packing) {
  for (auto& [key, entry] : slots_) {
    if (entry.buffer >= packing.offsets.size())
      Throw(Code::kRuntime, "workspace slot ", key.second, " of node ", key.first, " is buffer #",
            entry.buffer, " of a packing of ", packing.offsets.size());
    entry.slot.offset = packing.offsets[entry.buffer];
  }
  resolved_ = true;
}

std::optional<WorkspacePattern::Slot> WorkspacePattern::GetOffset(int64_t node, int slot_id) const {
  const auto it = slots_.find({node, slot_id});
  if (!resolved_ || it == slots_.end()) return std::nullopt;
  return it->second.slot;
}

std::optional<WorkspacePattern::Slot> WorkspacePattern::GetOffset(int64_t node, int slot_id,
                                                                  size_t requested_bytes) const {
  std::optional<Slot> slot = GetOffset(node, slot_id);
  if (slot && requested_bytes > slot->size) slot.reset();
  return slot;
}

}  // namespace ullage::memory
