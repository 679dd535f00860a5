/// What a session holds of one device from beginning to end.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "session/device_memory.h"
#include "session/frame.h"
#include "session/widened_weights.h"

namespace ullage::session {

struct DeviceShare {
  /// Constants that its steps read as the model stores them.
  struct Constant {
    const graph::Constant* constant = nullptr;
    std::string name;
    DeviceLayout::Place place;
    graph::NodeId node = graph::kNone;  ///< that reads it; kNone: several do, or one in a sub-graph
  };

  DeviceShare(std::shared_ptr<providers::OpenDevice> device, std::optional<int64_t> limit)
      : memory(device, limit),
        alignment(std::max<int64_t>(device->alignment(), 64)),
        weights(device->max_region(providers::Space::kWeights), alignment),
        prepacked(device->max_region(providers::Space::kWeights), alignment),
        kv(device->max_region(providers::Space::kDevice), alignment) {}

  DeviceMemory memory;
  int64_t alignment;
  DeviceLayout weights, prepacked, kv;
  std::vector<Constant> constants;
  int64_t arena_bytes = 0;
  memory::TagBytes frame_bytes;  ///< of one Run

  using Blocks = std::vector<DeviceMemory::Block>;
  Blocks weight_regions, prepacked_regions, kv_regions;
  int64_t reservations_at_start = 0;

  /// Takes what the layouts ask for.
  void Reserve() {
    const auto take = [this](const DeviceLayout& layout, providers::Space space, memory::Tag tag,
                             Blocks* out) {
      for (const int64_t bytes : layout.regions()) {
        memory::TagBytes counted;
        counted[tag] = bytes;
        out->push_back(memory.Reserve(space, counted));
      }
    };
    take(weights, providers::Space::kWeights, memory::Tag::kWeights, &weight_regions);
    take(prepacked, providers::Space::kWeights, memory::Tag::kPrepacked, &prepacked_regions);
    take(kv, providers::Space::kDevice, memory::Tag::kKv, &kv_regions);
  }
  static std::byte* At(const Blocks& regions, const DeviceLayout::Place& place) {
    return regions[place.region].data() + place.offset;
  }
  /// Copies the constants to their places.
  void FillConstants(const WidenedWeights& widened);
  void Fill(std::byte* target, int64_t bytes);                           ///< with zeros
  void Move(std::byte* target, const std::byte* source, int64_t bytes);  ///< ranges may overlap
};

}  // namespace ullage::session
