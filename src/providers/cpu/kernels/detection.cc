/// NonMaxSuppression, RoiAlign, MaxRoiPool.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/checked.h"
#include "core/error.h"
#include "providers/cpu/kernels/attention_common.h"
#include "providers/cpu/kernels/define.h"
#include "providers/cpu/kernels/element.h"
#include "providers/cpu/kernels/tensor_families.h"
#include "providers/cpu/kernels/window.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

struct Candidate {
  float score;
  int32_t box;
};

/// boxes [B, N, 4], scores [B, C, N], most per class?, overlap threshold?, score threshold? -> [M, 3]
class NonMaxSuppressionKernel final : public Kernel {
 public:
  explicit NonMaxSuppressionKernel(const KernelInfo& info)
      : centred_(info.node.Int("center_point_box", 0) != 0) {}

  void DeclareWorkspaceRequirements(const kernels::WorkspaceShapes& shapes,
                                    std::vector<memory::WorkspaceRequirement>& needs) const override {
    const auto& boxes = shapes.inputs[0].shape;
    if (boxes.rank == 3 && boxes[1].bounded()) needs.push_back({Bytes(boxes[1].upper), 0, 64});
  }

  void Compute(KernelContext& context) const override {
    const TensorView &boxes = *context.input(0), &scores = *context.input(1);
    const int64_t count = boxes.shape[1], classes = scores.shape[1];
    if (boxes.shape[2] != 4) Throw(Code::kInvalidModel, "boxes of shape ", boxes.shape.ToString());
    const auto number = [&](int i, double def) {
      const TensorView* v = context.input(i);
      return v && v->elements() > 0 ? NumberOf(*v, 0) : def;
    };
    const auto most = static_cast<int64_t>(std::min(number(2, 0), 9e18));
    const auto overlap = static_cast<float>(number(3, 0));
    const auto threshold = static_cast<float>(number(4, -std::numeric_limits<double>::infinity()));
    auto* candidates = static_cast<Candidate*>(Workspace(context, 0, Bytes(count)));
    auto* kept = reinterpret_cast<int32_t*>(candidates + count);
    auto* out = context.output(0)->as<int64_t>();
    int64_t rows = 0;
    for (int64_t b = 0; most > 0 && b < boxes.shape[0]; ++b) {
      const float* box = boxes.as<float>() + b * count * 4;
      for (int64_t c = 0; c < classes; ++c) {
        const float* score = scores.as<float>() + (b * classes + c) * count;
        int64_t found = 0;
        for (int64_t i = 0; i < count; ++i)
          if (score[i] > threshold) candidates[found++] = {score[i], static_cast<int32_t>(i)};
        std::sort(candidates, candidates + found, [](const Candidate& x, const Candidate& y) {
          return x.score != y.score ? x.score > y.score : x.box < y.box;
        });
        int64_t taken = 0;
        for (int64_t i = 0; i < found && taken < most; ++i) {
          const int32_t candidate = candidates[i].box;
          const bool hidden = std::any_of(kept, kept + taken, [&](int32_t k) {
            return Overlap(box + 4 * int64_t{k}, box + 4 * int64_t{candidate}) > overlap;
          });
          if (hidden) continue;
          kept[taken++] = candidate;
          out[rows * 3] = b;
          out[rows * 3 + 1] = c;
          out[rows * 3 + 2] = candidate;
          ++rows;
        }
      }
    }
    context.SetOutputShape(0, {rows, 3});
  }

 private:
  static size_t Bytes(int64_t boxes) {
    return CheckedMul(static_cast<size_t>(boxes), sizeof(Candidate) + sizeof(int32_t), "workspace");
  }

  /// Intersection over union; corners may be given in any order.
  float Overlap(const float* a, const float* b) const {
    float low[2][2], high[2][2];
    const float* box[2] = {a, b};
    for (int i = 0; i < 2; ++i) {
      for (int d = 0; d < 2; ++d) {
        const float p = box[i][d], q = box[i][d + 2];
        low[i][d] = centred_ ? p - q / 2 : std::min(p, q);
        high[i][d] = centred_ ? p + q / 2 : std::max(p, q);
      }
    }
    float shared = 1, area[2] = {1, 1};
    for (int d = 0; d < 2; ++d) {
      shared *= std::max(0.0f, std::min(high[0][d], high[1][d]) - std::max(low[0][d], low[1][d]));
      for (int i = 0; i < 2; ++i) area[i] *= high[i][d] - low[i][d];
    }
    if (!(area[0] > 0) || !(area[1] > 0) || !(shared > 0)) return 0;
    return shared / (area[0] + area[1] - shared);
  }

  bool centred_;
};

/// X [N, C, H, W], rois [R, 4], images [R] -> [R, C, oh, ow]: means or maxima of points between pixels.
class RoiAlignKernel final : public Kernel {
 public:
  explicit RoiAlignKernel(const KernelInfo& info) {
    const graph::Node& n = info.node;
    max_ = n.Str("mode", "avg") == "max";
    const bool old = n.opset > 0 && n.opset < 16;
    half_ = n.Str("coordinate_transformation_mode", old ? "output_half_pixel" : "half_pixel") == "half_pixel";
    scale_ = n.Float("spatial_scale", 1);
    samples_ = n.Int("sampling_ratio", 0);
  }

  void Compute(KernelContext& context) const override {
    const TensorView &x = *context.input(0), &rois = *context.input(1), &images = *context.input(2);
    TensorView& y = *context.output(0);
    if (y.elements() == 0) return;
    if (rois.shape[1] != 4 || images.elements() != rois.shape[0])
      Throw(Code::kInvalidModel, "rois of shape ", rois.shape.ToString(), " for ", images.elements(),
            " images");
    if (x.elements() == 0) Throw(Code::kInvalidInput, "nothing to sample in shape ", x.shape.ToString());
    const int64_t channels = x.shape[1], height = x.shape[2], width = x.shape[3], oh = y.shape[2],
                  ow = y.shape[3];
    ForNumber(x.dtype, [&](auto t) {
      using T = decltype(t);
      if constexpr (std::is_floating_point_v<typename Arithmetic<T>::Type>) {
        context.threads().Run(rois.shape[0] * channels, [&](int64_t task, int) {
          const int64_t r = task / channels, c = task % channels;
          const int64_t image = IndexOf(images, r);
          if (image < 0 || image >= x.shape[0])
            Throw(Code::kInvalidInput, "image ", image, " of ", x.shape[0]);
          const double shift = half_ ? 0.5 : 0;
          double at[4];
          for (int i = 0; i < 4; ++i) at[i] = NumberOf(rois, r * 4 + i) * static_cast<double>(scale_) - shift;
          double size[2] = {at[3] - at[1], at[2] - at[0]};  // height, width
          if (!half_)
            for (double& s : size) s = std::max(s, 1.0);
          const double bin[2] = {size[0] / static_cast<double>(oh), size[1] / static_cast<double>(ow)};
          int64_t grid[2];
          for (int i = 0; i < 2; ++i)
            grid[i] = samples_ > 0 ? samples_ : static_cast<int64_t>(std::clamp(std::ceil(bin[i]), 0.0, 1e6));
          const T* plane = x.as<T>() + (image * channels + c) * height * width;
          for (int64_t i = 0; i < oh; ++i) {
            for (int64_t j = 0; j < ow; ++j) {
              double result = 0;
              bool first = true;
              for (int64_t a = 0; a < grid[0]; ++a) {
                for (int64_t b = 0; b < grid[1]; ++b) {
                  const auto point = [&](int d, int64_t cell, int64_t step) {
                    return at[1 - d] +
                           bin[d] * (static_cast<double>(cell) +
                                     (static_cast<double>(step) + 0.5) / static_cast<double>(grid[d]));
                  };
                  const double v = Point(plane, height, width, point(0, i, a), point(1, j, b));
                  result = !max_ ? result + v : first ? v : std::max(result, v);
                  first = false;
                }
              }
              if (!max_) result /= static_cast<double>(std::max<int64_t>(grid[0] * grid[1], 1));
              y.as<T>()[(task * oh + i) * ow + j] =
                  Store<T>(static_cast<typename Arithmetic<T>::Type>(result));
            }
          }
        });
      }
    });
  }

 private:
  /// The weighted sum of the four pixels around a point, or with `max` the largest of the four terms.
  template <class T>
  double Point(const T* plane, int64_t height, int64_t width, double r, double q) const {
    if (!(r >= -1 && r <= static_cast<double>(height) && q >= -1 && q <= static_cast<double>(width)))
      return 0;
    const auto split = [](double v, int64_t n, int64_t* low, int64_t* high) {
      v = std::max(v, 0.0);
      *low = static_cast<int64_t>(v);
      if (*low >= n - 1) {
        *low = *high = n - 1;
        return 0.0;
      }
      *high = *low + 1;
      return v - static_cast<double>(*low);
    };
    int64_t r0, r1, q0, q1;
    const double u = split(r, height, &r0, &r1), v = split(q, width, &q0, &q1);
    const auto at = [&](int64_t i, int64_t j) { return static_cast<double>(Load(plane[i * width + j])); };
    const double terms[4] = {(1 - u) * (1 - v) * at(r0, q0), (1 - u) * v * at(r0, q1),
                             u * (1 - v) * at(r1, q0), u * v * at(r1, q1)};
    return max_ ? *std::max_element(terms, terms + 4) : terms[0] + terms[1] + terms[2] + terms[3];
  }

  bool max_, half_;
  float scale_;
  int64_t samples_;
};

/// X [N, C, H, W], rois [R, 5] (image, x1, y1, x2, y2) -> [R, C, ph, pw]
class MaxRoiPoolKernel final : public Kernel {
 public:
  explicit MaxRoiPoolKernel(const KernelInfo& info) : scale_(info.node.Float("spatial_scale", 1)) {}

  void Compute(KernelContext& context) const override {
    const TensorView &x = *context.input(0), &rois = *context.input(1);
    TensorView& y = *context.output(0);
    const int64_t channels = x.shape[1], height = x.shape[2], width = x.shape[3], ph = y.shape[2],
                  pw = y.shape[3];
    if (rois.shape[1] != 5) Throw(Code::kInvalidModel, "rois of shape ", rois.shape.ToString());
    context.threads().Run(rois.shape[0] * channels, [&](int64_t task, int) {
      const int64_t r = task / channels, c = task % channels;
      const float* roi = rois.as<float>() + r * 5;
      const auto image = static_cast<int64_t>(roi[0]);
      if (!(roi[0] >= 0) || image >= x.shape[0])
        Throw(Code::kInvalidInput, "image ", roi[0], " of ", x.shape[0]);
      double begin[2], bin[2];
      for (int d = 0; d < 2; ++d) {
        begin[d] = std::round(static_cast<double>(roi[2 - d] * scale_));
        const double end = std::round(static_cast<double>(roi[4 - d] * scale_));
        bin[d] = std::max(end - begin[d] + 1, 1.0) / static_cast<double>(d == 0 ? ph : pw);
      }
      const float* plane = x.as<float>() + (image * channels + c) * height * width;
      const auto range = [&](int d, int64_t cell, int64_t n, int64_t* first, int64_t* last) {
        const auto i = static_cast<double>(cell), limit = static_cast<double>(n);
        *first = static_cast<int64_t>(std::clamp(std::floor(i * bin[d]) + begin[d], 0.0, limit));
        *last = static_cast<int64_t>(std::clamp(std::ceil((i + 1) * bin[d]) + begin[d], 0.0, limit));
      };
      for (int64_t i = 0; i < ph; ++i) {
        for (int64_t j = 0; j < pw; ++j) {
          int64_t r0, r1, q0, q1;
          range(0, i, height, &r0, &r1);
          range(1, j, width, &q0, &q1);
          float best = r0 < r1 && q0 < q1 ? std::numeric_limits<float>::lowest() : 0;
          for (int64_t a = r0; a < r1; ++a)
            for (int64_t b = q0; b < q1; ++b) best = std::max(best, plane[a * width + b]);
          y.as<float>()[(task * ph + i) * pw + j] = best;
        }
      }
    });
  }

 private:
  float scale_;
};

}  // namespace

void RegisterDetection(kernels::Registry& registry) {
  constexpr kernels::TypeSet kIndices = {DType::kInt64, DType::kInt32};
  using kernels::kFloat32;
  registry.Add(Define<NonMaxSuppressionKernel>("", "NonMaxSuppression",
                                               {kFloat32, kFloat32, kIndices, kFloat32, kFloat32}));
  registry.Add(Define<RoiAlignKernel>("", "RoiAlign", {kernels::kAllFloats, kernels::kAllFloats, kIndices}));
  registry.Add(Define<MaxRoiPoolKernel>("", "MaxRoiPool", {kFloat32, kFloat32}));
}

}  // namespace ullage::cpu
