#include "providers/cpu/kernels/linear_parts.h"

#include <algorithm>
#include <initializer_list>

#include "core/checked.h"
#include "core/error.h"
#include "providers/cpu/dense/gemm.h"
#include "providers/cpu/quant/pack_blocks.h"

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

using Sources = std::initializer_list<graph::ConstantPtr>;

/// Gives back what was read of each source when [first, last) of `count` equal parts of all of them were.
void ReleaseParts(const Sources& sources, int64_t first, int64_t last, int64_t count) {
  for (const auto& source : sources) {
    if (!source) continue;
    const auto bytes = static_cast<int64_t>(source->size_bytes);
    ReleasePages(*source, first * bytes / count, last * bytes / count);
  }
}

int64_t BytesOfAll(const Sources& sources) {
  int64_t bytes = 0;
  for (const auto& source : sources) bytes += source ? static_cast<int64_t>(source->size_bytes) : 0;
  return bytes;
}

/// Calls pack(first, last) for ranges of `count` rows, which follow each other in every source, `unit` rows
/// or more at a time, by the team; gives back what was read of large sources at once.
void StreamRows(const Sources& sources, int64_t count, int64_t unit, ThreadTeam& team, const auto& pack) {
  const int64_t bytes = BytesOfAll(sources);
  const int64_t per_unit = std::max<int64_t>(1, bytes / std::max<int64_t>(1, CeilDiv(count, unit)));
  const int64_t units = bytes > 4 * kStreamBytes ? std::max<int64_t>(1, kStreamBytes / per_unit) : 1;
  const int64_t step = units * unit;
  team.Run(CeilDiv(count, step), [&](int64_t task, int) {
    const int64_t first = task * step, last = std::min(count, first + step);
    pack(first, last);
    if (bytes > 4 * kStreamBytes) ReleaseParts(sources, first, last, count);
  });
}

/// Calls pack(first, last) for slabs of `count` rows of K, one after the other, of about 4 mebibytes.
void StreamSlabs(const Sources& sources, int64_t count, const auto& pack) {
  const int64_t row = std::max<int64_t>(1, BytesOfAll(sources) / count);
  const int64_t step = std::max<int64_t>(1, 4 * kStreamBytes / row);
  for (int64_t first = 0; first < count; first += step) {
    const int64_t last = std::min(count, first + step);
    pack(first, last);
    ReleaseParts(sources, first, last, count);
  }
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
  const WeightSpec& w = weight;
  WillNeedPages(*w.data);
  if (w.dense()) {
    const dense::ConstArray source = {w.data->data().data(), w.data->dtype};
    if (w.format == "dense_nk") {
      StreamRows({w.data}, w.n, dense::kPanel, team, [&](int64_t first, int64_t last) {
        dense::PackB(source, true, w.k, w.n, w.k, first / dense::kPanel, CeilDiv(last, dense::kPanel), out);
      });
    } else {
      StreamSlabs({w.data}, w.k, [&](int64_t first, int64_t last) {
        dense::PackBRows(team, source, w.n, w.n, w.k, first, last, out);
      });
    }
  } else {
    const BlockWeightView view = w.view();
    CheckView(view);
    if (view.format.kind == BlockKind::kQdqKN) {
      constexpr int64_t kGroups = 16;  // large enough to read a row of the source well
      StreamSlabs({w.data, w.scales, w.zero_points}, layout.blocks, [&](int64_t first, int64_t last) {
        team.Run(CeilDiv(layout.groups, kGroups), [&](int64_t task, int) {
          quant::PackBlocks(view, layout, task * kGroups, std::min(layout.groups, (task + 1) * kGroups),
                            first, last, out);
        });
      });
    } else {
      StreamRows({w.data, w.scales, w.zero_points}, w.n, 4 * quant::kGroupRows, team,
                 [&](int64_t first, int64_t last) {
                   quant::Pack(view, layout, first / quant::kGroupRows, CeilDiv(last, quant::kGroupRows),
                               out);
                 });
    }
  }
  for (const auto& part : {w.data, w.scales, w.zero_points, w.g_idx})
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
