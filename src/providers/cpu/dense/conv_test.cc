#include "providers/cpu/dense/conv.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "core/error.h"
#include "providers/cpu/dense/dense_test_util.h"

namespace ullage::dense {
namespace {

struct Case {
  int64_t batch, groups, channels, filters;
  ConvAxis axes[3];
};

ConvAxis Axis(int64_t in, int64_t taps, int64_t stride = 1, int64_t dilation = 1, int64_t before = 0,
              int64_t after = 0) {
  ConvAxis a;
  a.in = in;
  a.taps = taps;
  a.stride = stride;
  a.tap_step = dilation;
  a.tap0 = -before;
  a.out = a.out_size = (in + before + after - (taps - 1) * dilation - 1) / stride + 1;
  return a;
}

ConvArgs ArgsOf(const Case& c) {
  ConvArgs args;
  args.batch = c.batch;
  args.groups = c.groups;
  args.channels = c.channels;
  args.filters = c.filters;
  std::copy_n(c.axes, 3, args.axes);
  return args;
}

FilterSource SourceOf(const ConvArgs& g, ConstArray data) {
  FilterSource s;
  s.data = data;
  s.groups = g.groups;
  s.filters = g.filters;
  s.channels = g.channels;
  s.channel_stride = g.taps();
  s.filter_stride = g.channels * s.channel_stride;
  s.group_stride = g.filters * s.filter_stride;
  int64_t stride = 1;
  for (int i = 2; i >= 0; --i) {
    s.axes[i].taps = g.axes[i].taps;
    s.axes[i].stride = stride;
    stride *= g.axes[i].taps;
  }
  return s;
}

int64_t Inputs(const ConvArgs& g) {
  return g.batch * g.groups * g.channels * g.axes[0].in * g.axes[1].in * g.axes[2].in;
}
int64_t Outputs(const ConvArgs& g) {
  return g.batch * g.groups * g.filters * g.axes[0].out_size * g.axes[1].out_size * g.axes[2].out_size;
}
int64_t Weights(const ConvArgs& g) {
  return g.groups * g.filters * g.channels * g.taps();
}

/// Calls fn(index in y, sum of products, sum of their magnitudes) for every output, computed one by one.
template <class X, class W>
void Naive(const ConvArgs& g, const X& x, const W& w,
           const std::function<void(int64_t, int64_t, double, double)>& fn) {
  const ConvAxis *D = &g.axes[0], *H = &g.axes[1], *V = &g.axes[2];
  for (int64_t n = 0; n < g.batch; ++n)
    for (int64_t f = 0; f < g.groups * g.filters; ++f)
      for (int64_t d = 0; d < D->out; ++d)
        for (int64_t h = 0; h < H->out; ++h)
          for (int64_t v = 0; v < V->out; ++v) {
            double sum = 0, size = 0;
            for (int64_t c = 0; c < g.channels; ++c)
              for (int64_t i = 0; i < D->taps; ++i)
                for (int64_t j = 0; j < H->taps; ++j)
                  for (int64_t k = 0; k < V->taps; ++k) {
                    const int64_t a = d * D->stride + D->tap0 + i * D->tap_step,
                                  b = h * H->stride + H->tap0 + j * H->tap_step,
                                  e = v * V->stride + V->tap0 + k * V->tap_step;
                    if (a < 0 || a >= D->in || b < 0 || b >= H->in || e < 0 || e >= V->in) continue;
                    const int64_t channel = (n * g.groups + f / g.filters) * g.channels + c;
                    const double p =
                        x(((channel * D->in + a) * H->in + b) * V->in + e) *
                        w(f, ((f * g.channels + c) * D->taps + i) * H->taps * V->taps + j * V->taps + k);
                    sum += p;
                    size += std::abs(p);
                  }
            const int64_t row =
                ((n * g.groups * g.filters + f) * D->out_size + D->out0 + d * D->out_step) * H->out_size +
                H->out0 + h * H->out_step;
            fn(row * V->out_size + V->out0 + v * V->out_step, f, sum, size);
          }
}

const std::vector<Case>& Cases() {
  static const std::vector<Case> cases = {
      {1, 1, 3, 16, {{}, Axis(29, 7, 2, 1, 3, 3), Axis(31, 7, 2, 1, 3, 3)}},   // a stem
      {2, 1, 37, 29, {{}, Axis(14, 3, 1, 1, 1, 1), Axis(15, 3, 1, 1, 1, 1)}},  // odd everything
      {1, 1, 600, 13, {{}, {}, Axis(49, 1)}},                                  // pointwise, several blocks
      {1, 1, 24, 6, {{}, {}, Axis(3000, 1)}},                                  // pointwise, several tiles
      {1, 48, 1, 1, {{}, Axis(19, 3, 1, 1, 1, 1), Axis(17, 3, 1, 1, 1, 1)}},   // depthwise
      {1, 40, 1, 1, {{}, Axis(20, 5, 2, 1, 1, 2), Axis(21, 5, 2, 1, 2, 2)}},   // depthwise, stride 2
      {1, 3, 4, 2, {{}, Axis(9, 3, 1, 2, 2, 2), Axis(40, 2, 3, 5, 4, 1)}},     // groups, dilations
      {1, 1, 80, 33, {{}, {}, Axis(301, 3, 2, 1, 1, 1)}},                      // one axis
      {1, 1, 1, 9, {{}, {}, Axis(1600, 400, 160)}},                            // frames of a signal
      {2, 1, 5, 7, {Axis(5, 3, 2, 1, 1, 1), Axis(6, 2, 1, 2, 0, 1), Axis(7, 3, 1, 1, 1, 1)}},
      {1, 1, 2, 3, {{}, Axis(4, 3, 1, 1, 7, 7), Axis(300, 3, 1, 64, 64, 64)}},  // windows beyond the data
      {1, 1, 4, 5, {{}, Axis(9, 2, 1, 1, -2, -1), Axis(9, 3, 1, 1, -1, 0)}},    // cropped
      {1, 1, 300, 130, {{}, Axis(7, 3, 1, 1, 1, 1), Axis(7, 3, 1, 1, 1, 1)}},
      {1, 1, 0, 2, {{}, {}, Axis(5, 1)}},
      // Many filters over a depth that is worth vectors of them.
      {2, 1, 31, 80, {{}, Axis(15, 3, 2, 1, 1, 1), Axis(13, 3, 3, 2, 2, 1)}},  // strides, dilation
      {1, 2, 70, 48, {{}, Axis(30, 1, 2), Axis(33, 1, 3)}},                    // strided, one tap
      {1, 1, 9, 30, {{}, Axis(3, 3, 1, 1, 1, 1), Axis(700, 3, 1, 1, 1, 1)}},   // wider than a tile
      {1, 1, 400, 32, {{}, {}, Axis(1000, 1)}},                                // several blocks and tiles
      {1, 1, 5, 16, {Axis(5, 3, 2, 1, 1, 1), Axis(6, 2, 1, 2, 0, 1), Axis(7, 3, 1, 1, 1, 1)}},
      {1, 1, 8, 16, {{}, Axis(4, 3, 1, 1, 7, 7), Axis(300, 3, 1, 64, 64, 64)}},
      {1, 1, 64, 111, {{}, {}, Axis(1, 1)}},
  };
  return cases;
}

TEST(Conv, AgreesWithTheSumOneByOne) {
  ThreadTeam team(2);
  ForEachTarget([&] {
    for (size_t i = 0; i < Cases().size(); ++i) {
      for (DType dtype : kTypes) {
        SCOPED_TRACE(i);
        ConvArgs g = ArgsOf(Cases()[i]);
        const Buffer x = Buffer::Random(dtype, Inputs(g), 1), w = Buffer::Random(dtype, Weights(g), 2),
                     bias = Buffer::Random(dtype, g.groups * g.filters, 3),
                     residual = Buffer::Random(dtype, Outputs(g), 4);
        std::vector<float> packed(
            static_cast<size_t>(PackedFilterFloats(g.groups, g.filters, g.channels * g.taps(), false)));
        PackFilters(team, SourceOf(g, w.in()), packed.data());
        Buffer y(dtype, Outputs(g));
        g.x = x.in();
        g.bias = bias.in();
        g.residual = residual.in();
        g.y = y.at();
        g.packed = packed.data();
        g.activation = ConvActivation::kLeakyRelu;
        g.alpha = 0.25f;
        {
          Scratch scratch(ConvScratchBytes(g, team.size()));
          Conv(team, g, scratch.get());
        }
        ASSERT_TRUE(y.GuardIntact());
        Naive(
            g, [&](int64_t at) { return x[at]; }, [&](int64_t, int64_t at) { return w[at]; },
            [&](int64_t at, int64_t filter, double sum, double size) {
              const double v = sum + bias[filter] + residual[at], want = v < 0 ? 0.25 * v : v;
              ASSERT_NEAR(y[at], want, 1e-6 * (size + 2) + 2 * RoundingOf(dtype) * std::abs(want)) << at;
            });
      }
    }
  });
}

TEST(Conv, ScratchForTheLargestServesAll) {
  // What is declared for upper bounds is enough for every smaller size, and does not shrink as sizes grow.
  for (const Case& c : Cases()) {
    ConvArgs large = ArgsOf(c);
    for (int64_t scale : {2, 3, 10, 100}) {
      for (int axis = 0; axis < 3; ++axis) {
        ConvArgs more = large;
        more.axes[axis].out *= scale;
        EXPECT_GE(ConvScratchBytes(more, 4), ConvScratchBytes(large, 4));
        more.axes[axis].out = INT64_MAX;
        EXPECT_GE(ConvScratchBytes(more, 4), ConvScratchBytes(large, 4));
        EXPECT_LE(ConvScratchBytes(more, 1), size_t{8} << 20);
      }
    }
  }
}

TEST(Conv, AnyNumberOfThreadsAndAnyTilingGiveTheSameBits) {
  for (size_t i : {1, 2, 5, 12, 14, 16, 17}) {
    std::vector<Buffer> results;
    for (int threads : {1, 2, 5}) {
      ThreadTeam team(threads);
      ConvArgs g = ArgsOf(Cases()[i]);
      const Buffer x = Buffer::Random(DType::kFloat, Inputs(g), 1),
                   w = Buffer::Random(DType::kFloat, Weights(g), 2);
      std::vector<float> packed(
          static_cast<size_t>(PackedFilterFloats(g.groups, g.filters, g.channels * g.taps(), false)));
      PackFilters(team, SourceOf(g, w.in()), packed.data());
      Buffer y(DType::kFloat, Outputs(g));
      g.x = x.in();
      g.y = y.at();
      g.packed = packed.data();
      Scratch scratch(ConvScratchBytes(g, threads));
      Conv(team, g, scratch.get());
      results.push_back(std::move(y));
    }
    EXPECT_TRUE(results[0] == results[1] && results[1] == results[2]) << i;
  }
}

TEST(Conv, ReadsBackwardsAndStoresInSteps) {
  // One phase of a transposed convolution.
  ThreadTeam team(2);
  ForEachTarget([&] {
    for (const int64_t filters : {3, 20, 32}) {
      ConvArgs g;
      g.batch = 1;
      g.channels = filters == 3 ? 5 : 9;
      g.filters = filters;
      g.axes[1] = {6, 7, 1, 2, 1, -2, 1, 2, 16};
      g.axes[2] = {40, 39, 1, 3, 1, -1, 2, 3, 120};
      const Buffer x = Buffer::Random(DType::kFloat, Inputs(g), 1),
                   w = Buffer::Random(DType::kFloat, Weights(g), 2);
      std::vector<float> packed(
          static_cast<size_t>(PackedFilterFloats(1, g.filters, g.channels * g.taps(), false)));
      PackFilters(team, SourceOf(g, w.in()), packed.data());
      Buffer y(DType::kFloat, Outputs(g));
      const Buffer before = y;
      g.x = x.in();
      g.y = y.at();
      g.packed = packed.data();
      Scratch scratch(ConvScratchBytes(g, team.size()));
      Conv(team, g, scratch.get());
      std::vector<bool> written(static_cast<size_t>(Outputs(g)));
      Naive(
          g, [&](int64_t at) { return x[at]; }, [&](int64_t, int64_t at) { return w[at]; },
          [&](int64_t at, int64_t, double sum, double size) {
            written[static_cast<size_t>(at)] = true;
            ASSERT_NEAR(y[at], sum, 1e-6 * (size + 1)) << at;
          });
      for (int64_t i = 0; i < Outputs(g); ++i)
        EXPECT_TRUE(written[static_cast<size_t>(i)] || y[i] == before[i]) << i;
    }
  });
}

TEST(Conv, SumsOfBytesAreExact) {
  ThreadTeam team(2);
  ForEachTarget([&] {
    for (size_t i : {1, 4, 6, 7, 12}) {
      ConvArgs g = ArgsOf(Cases()[i]);
      std::mt19937 rng(7);
      std::vector<uint8_t> x(static_cast<size_t>(Inputs(g)));
      std::vector<int8_t> w(static_cast<size_t>(Weights(g))),
          zeros(static_cast<size_t>(g.groups * g.filters));
      for (auto& v : x) v = rng() % 2 ? 255 : static_cast<uint8_t>(rng());
      for (auto& v : w) v = rng() % 2 ? 127 : static_cast<int8_t>(rng());
      for (auto& v : zeros) v = rng() % 2 ? -128 : static_cast<int8_t>(rng());
      FilterSource s = SourceOf(g, {w.data(), DType::kInt8});
      s.zero = {zeros.data(), DType::kInt8};
      s.zero_stride = 1;
      std::vector<float> packed(
          static_cast<size_t>(PackedFilterFloats(g.groups, g.filters, g.channels * g.taps(), true)));
      PackFilters(team, s, packed.data());
      std::vector<int32_t> y(static_cast<size_t>(Outputs(g)));
      g.x = {x.data(), DType::kUInt8};
      g.x_zero = 3;
      g.packed = packed.data();
      g.y = {y.data(), DType::kInt32};
      {
        Scratch scratch(ConvScratchBytes(g, team.size()));
        Conv(team, g, scratch.get());
      }
      const auto x_at = [&](int64_t at) { return static_cast<double>(x[static_cast<size_t>(at)]) - 3; };
      const auto w_at = [&](int64_t f, int64_t at) {
        return static_cast<double>(w[static_cast<size_t>(at)]) - zeros[static_cast<size_t>(f)];
      };
      Naive(g, x_at, w_at, [&](int64_t at, int64_t, double sum, double) {
        ASSERT_EQ(y[static_cast<size_t>(at)], sum) << at;
      });
      // The same, scaled, shifted and saturated.
      std::vector<float> scales;
      std::vector<int32_t> bias;
      for (int64_t f = 0; f < g.groups * g.filters; ++f) {
        scales.push_back(0.0001f * static_cast<float>(f % 7 + 1));
        bias.push_back(static_cast<int32_t>(rng() % 20000) - 10000);
      }
      std::vector<int8_t> q(y.size());
      g.y = {q.data(), DType::kInt8};
      g.bias = {bias.data(), DType::kInt32};
      g.scales = scales.data();
      g.scale_stride = 1;
      g.y_zero = -5;
      Scratch scratch(ConvScratchBytes(g, team.size()));
      Conv(team, g, scratch.get());
      Naive(g, x_at, w_at, [&](int64_t at, int64_t f, double sum, double) {
        const auto total = static_cast<float>(sum + bias[static_cast<size_t>(f)]);
        const double want =
            std::clamp(std::nearbyint(total * scales[static_cast<size_t>(f)]) - 5.0f, -128.0f, 127.0f);
        ASSERT_EQ(q[static_cast<size_t>(at)], want) << at;
      });
    }
  });
}

TEST(Conv, AWindowThatReachesTooFarIsRefused) {
  ConvArgs g;
  g.batch = g.channels = g.filters = 1;
  g.axes[1] = {3, 3, 1, 3, -1, INT32_MAX, 0, 1, 3};
  g.axes[2] = {3, 3, 1, 3, -1, INT32_MAX, 0, 1, 3};
  EXPECT_THROW(ConvScratchBytes(g, 1), Error);
}

}  // namespace
}  // namespace ullage::dense
