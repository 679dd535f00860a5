#include "providers/cpu/kernels/linear_parts.h"

#include <algorithm>

#include "core/checked.h"
#include "core/error.h"
#include "providers/cpu/dense/gemm.h"

namespace ullage::cpu {
namespace {

constexpr int kInputsPerPart = 5;
constexpr int64_t kStreamBytes = int64_t{1} << 20;  // of a source between two releases of its pages

bool IsProduct(const graph::Node& node) {
  return node.Is(graph::kUllageDomain, "Linear") || node.Is(graph::kUllageDomain, "MultiLinear") ||
         node.Is(graph::kMsDomain, "MatMulNBits");
}

graph::ConstantPtr ConstantAt(const graph::Node& node, const graph::Graph& graph, size_t i) {
  return node.has_input(i) ? graph.value(node.inputs[i]).constant : nullptr;
}

bool SameData(const graph::ConstantPtr& a, const graph::ConstantPtr& b) {
  if (!a || !b) return !a && !b;
  if (a->size_bytes != b->size_bytes || a->dtype != b->dtype || a->block_type != b->block_type) return false;
  if (a->bytes || b->bytes) return a->bytes == b->bytes;
  return !a->file.empty() && a->file == b->file && a->file_offset == b->file_offset;
}

quant::Accuracy AccuracyOf(const LinearPart& part, const graph::Node& node, int64_t wanted) {
  const int64_t own = part.weight.format == "ggml" || node.Int("accuracy_level", 0) == 4 ? 16 : 24;
  const int64_t bits = wanted != 0 ? wanted : own;
  return bits == 8 ? quant::Accuracy::kInt8 : bits == 16 ? quant::Accuracy::kInt16 : quant::Accuracy::kFloat;
}

/// Calls pack(first, last) for ranges of the `count` rows of a source of `bytes` bytes in which rows follow
/// each other, `unit` rows or more at a time, and gives back what was read.
void StreamRows(const graph::Constant& source, int64_t count, int64_t unit, ThreadTeam& team,
                const auto& pack) {
  const auto bytes = static_cast<int64_t>(source.size_bytes);
  const int64_t per_unit = std::max<int64_t>(1, bytes / std::max<int64_t>(1, CeilDiv(count, unit)));
  const int64_t units = bytes > 4 * kStreamBytes ? std::max<int64_t>(1, kStreamBytes / per_unit) : 1;
  const int64_t step = units * unit;
  team.Run(CeilDiv(count, step), [&](int64_t task, int) {
    const int64_t first = task * step, last = std::min(count, first + step);
    pack(first, last);
    if (units > 1) ReleasePages(source, first * bytes / count, last * bytes / count);
  });
}

}  // namespace

std::vector<LinearPart> LinearPartsOf(const graph::Node& node, const graph::Graph& graph,
                                      const OptionBag* options) {
  const bool multi = node.op == "MultiLinear";
  const int64_t k = node.RequiredInt("K");
  const int64_t wanted = options ? options->Int("ep.cpu.activation_bits") : 0;
  if (wanted != 0 && wanted != 8 && wanted != 16 && wanted != 24)
    Throw(Code::kUsage, "option ep.cpu.activation_bits: expected 0, 8, 16 or 24, found ", wanted);
  const auto ns = multi ? node.Ints("N") : std::vector<int64_t>{node.RequiredInt("N")};
  const auto bits = multi ? node.Ints("bits") : std::vector<int64_t>{node.Int("bits", 4)};
  const auto blocks = multi ? node.Ints("block_size") : std::vector<int64_t>{node.Int("block_size", 0)};
  std::vector<std::string> formats;
  if (!multi) formats = {node.op == "MatMulNBits" ? "nbits" : node.Str("format", "")};
  if (multi)
    if (const auto it = node.attributes.find("format"); it != node.attributes.end())
      if (const auto* list = std::get_if<std::vector<std::string>>(&it->second)) formats = *list;
  if (k < 1 || formats.size() != ns.size() || bits.size() != ns.size() || blocks.size() != ns.size())
    Throw(Code::kInvalidModel, "node ", node.name, ": attributes K, N, format, bits and block_size disagree");
  std::vector<LinearPart> parts;
  for (size_t p = 0; p < ns.size(); ++p) {
    const size_t base = 1 + p * kInputsPerPart;
    const auto constant = [&](size_t i, const char* what) {
      auto c = ConstantAt(node, graph, base + i);
      if (!c && (i == 0 || node.has_input(base + i)))
        Throw(Code::kUnsupported, "node ", node.name, " (", node.OpName(), "): the ", what,
              " must be constant");
      return c;
    };
    LinearPart part;
    part.first_input = static_cast<int>(base);
    part.weight.format = formats[p];
    part.weight.n = ns[p];
    part.weight.k = k;
    part.weight.bits = bits[p];
    part.weight.block_size = blocks[p];
    part.weight.data = constant(0, "weight");
    part.weight.scales = constant(1, "scales");
    part.weight.zero_points = constant(2, "zero points");
    part.weight.g_idx = constant(3, "group index");
    if (node.has_input(base + 4)) part.bias = static_cast<int>(base + 4);
    if (!part.weight.dense()) {
      part.layout = quant::PlanPack(part.weight.block_format(), part.weight.n, k,
                                    AccuracyOf(part, node, wanted), part.weight.g_idx != nullptr);
    } else if (part.weight.data->elements() != CheckedMul(part.weight.n, k)) {
      Throw(Code::kInvalidModel, "node ", node.name, ": the weight has shape ",
            part.weight.data->shape.ToString(), ", expected ", part.weight.n, " x ", k);
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

kernels::PrepackRequirement LinearPart::Requirement(std::vector<int> replaces) const {
  kernels::PrepackRequirement need;
  need.replaces = std::move(replaces);
  if (weight.dense()) {
    need.bytes = dense::PackedBBytes(weight.n, weight.k, weight.data->dtype);
    need.share_key = StrCat(weight.format, " ", weight.n, "x", weight.k);
  } else {
    need.bytes = layout.bytes;
    need.share_key = StrCat(layout.Name(), " ", weight.n, "x", weight.k);
  }
  return need;
}

void LinearPart::Pack(std::byte* out, ThreadTeam& team) const {
  const graph::Constant& data = *weight.data;
  WillNeedPages(data);
  if (weight.dense()) {
    const dense::ConstArray source = {data.data().data(), data.dtype};
    if (weight.format == "dense_nk") {
      StreamRows(data, weight.n, dense::kPanel, team, [&](int64_t first, int64_t last) {
        dense::PackB(source, true, weight.k, weight.n, weight.k, first / dense::kPanel,
                     CeilDiv(last, dense::kPanel), out);
      });
    } else {
      const int64_t row = static_cast<int64_t>(data.size_bytes) / weight.k;
      const int64_t step = std::max<int64_t>(1, 4 * kStreamBytes / std::max<int64_t>(row, 1));
      for (int64_t k0 = 0; k0 < weight.k; k0 += step) {
        const int64_t k1 = std::min(weight.k, k0 + step);
        dense::PackBRows(team, source, weight.n, weight.n, weight.k, k0, k1, out);
        ReleasePages(data, k0 * row, k1 * row);
      }
    }
  } else {
    const BlockWeightView view = weight.view();
    CheckView(view);
    const auto pack = [&](int64_t first, int64_t last) { quant::Pack(view, layout, first, last, out); };
    if (view.format.kind == BlockKind::kQdqKN) {
      const int64_t step = 16;  // ranges of groups, large enough to read a row of the source well
      team.Run(CeilDiv(layout.groups, step),
               [&](int64_t task, int) { pack(task * step, std::min(layout.groups, (task + 1) * step)); });
    } else {
      StreamRows(data, weight.n, 4 * quant::kGroupRows, team, [&](int64_t first, int64_t last) {
        pack(first / quant::kGroupRows, CeilDiv(last, quant::kGroupRows));
      });
    }
  }
  for (const auto& part : {weight.data, weight.scales, weight.zero_points, weight.g_idx})
    if (part) ReleasePages(*part);
}

std::optional<LinearPart> FindSharedPart(const kernels::KernelInfo& info, const WeightSpec& table) {
  for (graph::NodeId id : info.graph.Order()) {
    const graph::Node& node = info.graph.node(id);
    if (!IsProduct(node)) continue;
    bool reads = false;
    for (size_t i = 1; i < node.inputs.size(); i += kInputsPerPart)
      reads = reads || SameData(ConstantAt(node, info.graph, i), table.data);
    if (!reads) continue;
    for (LinearPart& part : LinearPartsOf(node, info.graph, info.options)) {
      const WeightSpec& w = part.weight;
      if (!SameData(w.data, table.data) || !SameData(w.scales, table.scales) ||
          !SameData(w.zero_points, table.zero_points) || w.g_idx || w.n != table.n || w.k != table.k)
        continue;
      if (w.dense() != table.dense() || (w.dense() && w.format != table.format)) continue;
      if (!w.dense() && (part.layout.source != table.block_format() || part.layout.indexed ||
                         part.layout.scale_form == quant::ScaleForm::kFloat16Row))
        continue;
      return std::move(part);
    }
  }
  return std::nullopt;
}

}  // namespace ullage::cpu
