#include "providers/cpu/quant/matmul.h"

#include <algorithm>
#include <bit>

#include "core/checked.h"
#include "core/cpu_features.h"
#include "providers/cpu/quant/kernels.h"
#include "providers/cpu/quant/packed_group.h"

namespace ullage::quant {
namespace {

constexpr int64_t kFewTokens = 8;  // up to here a task is a range of groups, for all tokens
// Packed weight that such a task reads: a 64th of all, so that 2 to 16 threads finish together, but enough to
// be worth a hand-out.
constexpr int64_t kMinTaskBytes = 16 * 1024;
constexpr int64_t kMaxTaskBytes = 128 * 1024;
constexpr int64_t kTaskGroups = 4;  // otherwise: groups and tokens of a task
constexpr int64_t kTaskTokens = 128;
constexpr int64_t kFusedBlocks = 64;  // blocks whose scales are expanded at a time
// Blocks whose codes are unpacked at a time: codes of kTaskGroups groups (16 KiB), their scales and the
// records of a few tokens stay in the first-level cache.
constexpr int64_t kTileBlocks = 8;

struct Cut {
  int64_t groups;  // per task
  int64_t tokens;
  int64_t group_tasks;
  int64_t token_tasks;
};

Cut CutOf(const PackedLayout& l, int64_t m) {
  Cut cut;
  if (m <= kFewTokens) {
    const int64_t group = std::max<int64_t>(1, static_cast<int64_t>(l.group_bytes));
    const int64_t task = std::clamp(group * l.groups / 64, kMinTaskBytes, kMaxTaskBytes);
    cut = {std::max<int64_t>(1, task / group), std::max<int64_t>(m, 1), 0, 0};
  } else {
    cut = {kTaskGroups, kTaskTokens, 0, 0};
  }
  cut.group_tasks = CeilDiv(l.groups, cut.groups);
  cut.token_tasks = CeilDiv(m, cut.tokens);
  return cut;
}

DotKind KindOf(const PackedLayout& l) {
  return {l.bits, l.iq4, l.span == 16, l.min_form != MinForm::kOffset, DigitsOf(l.activations)};
}

// The shift that multiplies with a power of two, or by zero.
int32_t ShiftOf(int offset) {
  return offset == 0 ? 32 : std::countr_zero(static_cast<unsigned>(offset));
}

// y[r] += bias[r] + residual[r], each where it is given, in this order.
inline void AddTo(float* y, const float* bias, const float* residual, int64_t rows) {
  if (bias != nullptr)
    for (int64_t r = 0; r < rows; ++r) y[r] += bias[r];
  if (residual != nullptr)
    for (int64_t r = 0; r < rows; ++r) y[r] += residual[r];
}

// acc[tokens][16] of one group to the output.
void Store(const MatMulArgs& args, int64_t group, int64_t first_token, int64_t tokens, const float* acc) {
  const PackedLayout& l = *args.layout;
  const int64_t n0 = group * kGroupRows, rows = std::min(kGroupRows, l.n - n0);
  const float* factors =
      l.row_bytes != 0 ? reinterpret_cast<const float*>(GroupOf(l, args.packed, group)) : nullptr;
  for (int64_t t = 0; t < tokens; ++t, acc += kGroupRows) {
    float y[kGroupRows];
    for (int r = 0; r < kGroupRows; ++r) y[r] = acc[r];
    if (factors != nullptr)
      for (int r = 0; r < kGroupRows; ++r) y[r] *= factors[r];
    const float* residual =
        args.residual != nullptr ? args.residual + (first_token + t) * args.ldr + n0 : nullptr;
    float* out = args.out + (first_token + t) * args.ldo + n0;
    if (rows == kGroupRows) {  // of a size that is known, so no calls for 64 bytes each
      AddTo(y, args.bias != nullptr ? args.bias + n0 : nullptr, residual, kGroupRows);
      for (int r = 0; r < kGroupRows; ++r) out[r] = y[r];
    } else {
      AddTo(y, args.bias != nullptr ? args.bias + n0 : nullptr, residual, rows);
      for (int64_t r = 0; r < rows; ++r) out[r] = y[r];
    }
  }
}

// The largest built tile that is not wider than `tokens`.
class Tiles {
 public:
  Tiles(const KernelSet& kernels, DotKind kind) {
    if (kind.iq4) kind.bits = 8;
    kind.iq4 = false;
    for (int i = 1; i <= kMaxTile; ++i) {
      fns_[i] = kernels.tile(kind, i);
      width_[i] = fns_[i] != nullptr ? i : width_[i - 1];
    }
  }
  int WidthFor(int64_t tokens) const { return width_[std::min<int64_t>(tokens, kMaxTile)]; }
  DotFn operator[](int width) const { return fns_[width]; }

 private:
  DotFn fns_[kMaxTile + 1] = {};
  int width_[kMaxTile + 1] = {};
};

void RunFused(const MatMulArgs& args, const KernelSet& kernels, DotFn fused, int64_t g0, int64_t g1) {
  const PackedLayout& l = *args.layout;
  alignas(64) float scales[kFusedBlocks * 2 * 16];
  alignas(64) float mins[kFusedBlocks * 2 * 16];
  const size_t code_offset = PartsOf(l).code;
  const int64_t code_bytes = static_cast<int64_t>(CodeBlockBytes(l.bits));
  DotArgs dot;
  dot.scales = scales;
  dot.mins = mins;
  dot.block_stride = args.m * static_cast<int64_t>(RecordBytes(l.activations));
  dot.offset_shift = ShiftOf(l.offset);
  for (int64_t g = g0; g < g1; ++g) {
    alignas(64) float acc[kFewTokens * kGroupRows] = {};
    const uint8_t* group = GroupOf(l, args.packed, g);
    for (int64_t b = 0; b < l.blocks; b += kFusedBlocks) {
      dot.blocks = std::min(kFusedBlocks, l.blocks - b);
      kernels.expand(l, group, b, dot.blocks, scales, mins);
      dot.codes = group + code_offset + b * code_bytes;
      dot.activations = static_cast<const uint8_t*>(args.activations) + b * dot.block_stride;
      dot.acc = acc;
      fused(dot);
    }
    Store(args, g, 0, args.m, acc);
  }
}

// A unit for 16 tokens, set up while this lives.
class Block16Use {
 public:
  Block16Use(const KernelSet& kernels, const PackedLayout& l, int64_t m) : unit_(kernels.block16) {
    if (unit_.find == nullptr || m < kBlock16) return;
    signed_ = l.min_form == MinForm::kOffset && l.offset > 0;
    fn_ = unit_.find(KindOf(l), signed_);
    if (fn_ != nullptr) unit_.begin();
  }
  ~Block16Use() {
    if (fn_ != nullptr) unit_.end();
  }
  Block16Use(const Block16Use&) = delete;
  Block16Use& operator=(const Block16Use&) = delete;

  static constexpr int64_t kBlock16 = 16;
  explicit operator bool() const { return fn_ != nullptr; }
  void Prepare(int offset, int64_t blocks, uint8_t* codes) const {
    if (signed_) unit_.subtract(offset, blocks, codes);
  }
  // `tokens` <= 16 tokens from token `first` of m >= 16, that of dot.activations and dot.acc. Where they are
  // fewer, neighbours are computed besides, and dropped.
  void Run(DotArgs dot, int64_t first, int64_t tokens, int64_t m, int64_t record) const {
    if (tokens == kBlock16) {
      fn_(dot);
      return;
    }
    alignas(64) float acc[kBlock16 * kGroupRows] = {};
    const int64_t before = first + kBlock16 > m ? first + kBlock16 - m : 0;
    float* rest = dot.acc;
    std::copy_n(rest, tokens * kGroupRows, acc + before * kGroupRows);
    dot.activations -= before * record;
    dot.acc = acc;
    fn_(dot);
    std::copy_n(acc + before * kGroupRows, tokens * kGroupRows, rest);
  }

 private:
  Block16 unit_;
  DotFn fn_ = nullptr;
  bool signed_ = false;
};

// What the groups of a task have in common with all tokens: codes as bytes and scales as floats, of some
// blocks.
struct UnpackedGroup {
  alignas(64) uint8_t codes[kTileBlocks * 512];
  alignas(64) float scales[kTileBlocks * 2 * 16];
  alignas(64) float mins[kTileBlocks * 2 * 16];
};

void RunTiles(const MatMulArgs& args, const KernelSet& kernels, int64_t g0, int64_t g1, int64_t t0,
              int64_t t1) {
  const PackedLayout& l = *args.layout;
  UnpackedGroup unpacked[kTaskGroups];
  alignas(64) float acc[kTaskGroups * kTaskTokens * kGroupRows];
  const Tiles tiles(kernels, KindOf(l));
  const Block16Use block16(kernels, l, args.m);
  const int64_t tokens = t1 - t0, record = static_cast<int64_t>(RecordBytes(l.activations));
  const size_t code_offset = PartsOf(l).code;
  const int64_t code_bytes = static_cast<int64_t>(CodeBlockBytes(l.bits));
  DotArgs dot;
  dot.block_stride = args.m * record;
  dot.offset_shift = ShiftOf(l.offset);
  for (int64_t g = g0; g < g1; ++g)
    std::fill_n(acc + (g - g0) * kTaskTokens * kGroupRows, tokens * kGroupRows, 0.0f);
  for (int64_t b = 0; b < l.blocks; b += kTileBlocks) {
    dot.blocks = std::min(kTileBlocks, l.blocks - b);
    for (int64_t g = g0; g < g1; ++g) {
      const uint8_t* group = GroupOf(l, args.packed, g);
      UnpackedGroup& u = unpacked[g - g0];
      kernels.expand(l, group, b, dot.blocks, u.scales, u.mins);
      kernels.unpack(l.bits, l.iq4, group + code_offset + b * code_bytes, dot.blocks, u.codes);
      if (block16) block16.Prepare(l.offset, dot.blocks, u.codes);
    }
    const uint8_t* activations =
        static_cast<const uint8_t*>(args.activations) + b * dot.block_stride + t0 * record;
    for (int64_t t = 0; t < tokens;) {
      const int64_t width = block16 ? std::min(Block16Use::kBlock16, tokens - t) : tiles.WidthFor(tokens - t);
      for (int64_t g = g0; g < g1; ++g) {
        const UnpackedGroup& u = unpacked[g - g0];
        dot.codes = u.codes;
        dot.scales = u.scales;
        dot.mins = u.mins;
        dot.activations = activations + t * record;
        dot.acc = acc + ((g - g0) * kTaskTokens + t) * kGroupRows;
        if (block16) {
          block16.Run(dot, t0 + t, width, args.m, record);
        } else {
          tiles[static_cast<int>(width)](dot);
        }
      }
      t += width;
    }
  }
  for (int64_t g = g0; g < g1; ++g) Store(args, g, t0, tokens, acc + (g - g0) * kTaskTokens * kGroupRows);
}

void RunIndexed(const MatMulArgs& args, const KernelSet& kernels, int64_t g0, int64_t g1, int64_t t0,
                int64_t t1) {
  const PackedLayout& l = *args.layout;
  IndexedArgs indexed;
  indexed.layout = &l;
  indexed.index = static_cast<const int32_t*>(args.packed);
  indexed.block_stride = args.m * kBlock;
  indexed.activations = static_cast<const float*>(args.activations) + t0 * kBlock;
  indexed.tokens = t1 - t0;
  for (int64_t g = g0; g < g1; ++g) {
    alignas(64) float acc[kTaskTokens * kGroupRows] = {};
    indexed.group = GroupOf(l, args.packed, g);
    indexed.acc = acc;
    kernels.indexed(indexed);
    Store(args, g, t0, indexed.tokens, acc);
  }
}

}  // namespace

int64_t MatMulTasks(const MatMulArgs& args) {
  const Cut cut = CutOf(*args.layout, args.m);
  return cut.group_tasks * cut.token_tasks;
}

void MatMulTask(const MatMulArgs& args, int64_t task) {
  const PackedLayout& l = *args.layout;
  const KernelSet& kernels = KernelsFor(ActiveIsa());
  const Cut cut = CutOf(l, args.m);
  // Neighbouring tasks share weights, so that these come from memory once.
  const int64_t g0 = task / cut.token_tasks * cut.groups, g1 = std::min(l.groups, g0 + cut.groups);
  const int64_t t0 = task % cut.token_tasks * cut.tokens, t1 = std::min(args.m, t0 + cut.tokens);
  if (l.indexed) {
    RunIndexed(args, kernels, g0, g1, t0, t1);
    return;
  }
  if (args.m <= kFewTokens) {
    if (const DotFn fused = kernels.fused(KindOf(l), static_cast<int>(args.m))) {
      RunFused(args, kernels, fused, g0, g1);
      return;
    }
  }
  for (int64_t g = g0; g < g1; g += kTaskGroups)
    RunTiles(args, kernels, g, std::min(g1, g + kTaskGroups), t0, t1);
}

void MatMul(const MatMulArgs& args, ThreadTeam& team) {
  team.Run(MatMulTasks(args), [&](int64_t task, int) { MatMulTask(args, task); });
}

void MatMul(std::span<const MatMulArgs> batch, ThreadTeam& team) {
  for (size_t first = 0; first < batch.size(); first += kMaxBatch) {
    const size_t count = std::min<size_t>(kMaxBatch, batch.size() - first);
    int64_t ends[kMaxBatch];
    int64_t tasks = 0;
    for (size_t i = 0; i < count; ++i) ends[i] = tasks += MatMulTasks(batch[first + i]);
    team.Run(tasks, [&](int64_t task, int) {
      size_t i = 0;
      while (task >= ends[i]) ++i;
      MatMulTask(batch[first + i], i == 0 ? task : task - ends[i - 1]);
    });
  }
}

}  // namespace ullage::quant
