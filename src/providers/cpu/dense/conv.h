/// Convolutions in one to three spatial dimensions, over channels-first tensors.
///
/// A convolution is a product of filters [filters, channels * taps] with input values that lie at fixed
/// distances from each output position. Tiles of the input are copied, padded and split by the phases of the
/// stride, so that the values of neighbouring outputs are neighbours for every tap; nothing like a whole
/// unrolled image exists. Each output is one chain of multiply-adds in the order (channel, depth tap, height
/// tap, width tap), starting with the bias, whatever the tiles and the threads are.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/thread_team.h"
#include "providers/cpu/dense/array.h"

namespace ullage::dense {

/// Output i of [0, out) sums input[i * stride + tap0 + t * tap_step] over the taps t, 0 where that is outside
/// of [0, in), and is element out0 + i * out_step of an axis of out_size elements in y. Plain convolutions
/// have out0 0 and out_step 1; a transposed one is a sum of such parts, one per phase of its stride.
struct ConvAxis {
  int64_t in = 1;
  int64_t out = 1;
  int64_t stride = 1;
  int64_t taps = 1;  ///< 0: nothing but the bias
  int64_t tap0 = 0;
  int64_t tap_step = 1;  ///< not 0; may be negative
  int64_t out0 = 0;
  int64_t out_step = 1;
  int64_t out_size = 1;
};

enum class ConvActivation {
  kNone,
  kRelu,
  kClip,         ///< to [alpha, beta]
  kLeakyRelu,    ///< alpha below 0
  kSigmoid,      ///
  kTanh,         ///
  kHardSigmoid,  ///< max(0, min(1, alpha x + beta))
  kHardSwish,    ///< x max(0, min(1, x / 6 + 1/2))
  kSilu,         ///< x sigmoid(alpha x)
  kGelu,         ///< with erf
};

struct ConvArgs {
  int64_t batch = 0;
  int64_t groups = 1;
  int64_t channels = 0;  ///< of the input, per group
  int64_t filters = 0;   ///< channels of the output, per group
  ConvAxis axes[3];      ///< depth, height, width

  ConstArray x;                   ///< [batch, groups * channels, in..]: floats, or int8 and uint8
  int x_zero = 0;                 ///< zero point of an integer x
  const float* packed = nullptr;  ///< PackFilters()
  ConstArray bias;                ///< [groups * filters] or null; int32 when x is an integer
  ConstArray residual;            ///< shape and type of y, added before the activation; or null. Floats only
  ConvActivation activation = ConvActivation::kNone;
  float alpha = 0;
  float beta = 0;
  /// [batch, groups * filters, out_size..]. An integer x: int32 (exact sums), or int8 and uint8, rounded to
  /// nearest even after multiplication with scales[filter * scale_stride], plus y_zero, saturated.
  Array y;
  const float* scales = nullptr;
  int64_t scale_stride = 0;  ///< 0 or 1
  int y_zero = 0;

  int64_t taps() const { return axes[0].taps * axes[1].taps * axes[2].taps; }
};

/// Scratch of Conv() for any problem of this form whose in and out are not larger. Pointers are not read.
size_t ConvScratchBytes(const ConvArgs& args, int threads);

void Conv(ThreadTeam& team, const ConvArgs& args, void* scratch);

/// Filters in float, in blocks of up to 12, or of 16 where there are many: [group][block][channel, taps]
/// [filters of the block]. `integers`: they multiply values of 8 bits.
int64_t PackedFilterFloats(int64_t groups, int64_t filters, int64_t depth, bool integers);

/// Where filters lie: element (group, filter, channel, taps d, h, w), of which the taps first + t * step are
/// taken along each axis.
struct FilterSource {
  ConstArray data;  ///< floats, or int8 and uint8
  int64_t groups = 1, filters = 0, channels = 0;
  int64_t group_stride = 0, filter_stride = 0, channel_stride = 0;
  struct Axis {
    int64_t first = 0, step = 1, taps = 1, stride = 0;
  } axes[3];
  ConstArray zero;  ///< zero point of integer filters: null, one, or one per filter of all groups
  int64_t zero_stride = 0;
};
void PackFilters(ThreadTeam& team, const FilterSource& source, float* packed);

}  // namespace ullage::dense
