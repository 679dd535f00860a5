// Element-wise nodes on floats that run as one: an OpenCL kernel is written for each value that leaves the
// group. What one node hands to the next is rounded to its type, so that results are those of the nodes.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "op.h"
#include "ops/elementwise.h"
#include "spread.h"

namespace ullage_opencl {
namespace {

constexpr size_t kMostNodes = 32;
constexpr size_t kMostInputs = 8;  // each has strides: OpenCL promises 1 KiB of parameters

bool AreFloats(const Facts& facts) {
  const auto is_float = [](const ValueFacts& f) {
    return f.present && f.known && f.rank() <= kMaxRank && (kFloats & Bit(f.dtype));
  };
  return std::all_of(facts.inputs.begin(), facts.inputs.end(), is_float) && facts.outputs.size() == 1 &&
         is_float(facts.outputs[0]);
}

/// The entry's kernel takes the node, and it is one of those that groups are made of.
bool IsElementwise(Device& device, const ullage_node* from) {
  const Node node(from);
  const Facts facts = node.facts();
  if (!AreFloats(facts)) return false;
  const UnaryForm form = UnaryOf(node);
  const bool unary =
      facts.inputs.size() == 1 && form.number >= 0 && std::isfinite(form.alpha) && std::isfinite(form.beta);
  const bool binary = facts.inputs.size() == 2 && BinaryOf(node) >= 0;
  if (!unary && !binary) return false;
  ullage_kernel_info info{};
  info.size = sizeof info;
  info.node = from;
  info.device = &device;
  for (const OpEntry& entry : AllOps())
    if (entry.op == node.op() && entry.domain == node.domain() && entry.since <= node.opset() &&
        (entry.until == 0 || node.opset() <= entry.until))
      return Refusal(entry, info).empty();
  return false;
}

struct Chain {
  std::vector<size_t> nodes;
  size_t outside = 0;  ///< values that it reads, at most
};

std::string Literal(float value) {
  char text[40];
  std::snprintf(text, sizeof text, "%af", static_cast<double>(value));
  return text;
}

class Group final : public Op {
 public:
  Group(Device& device, const ullage_graph* group)
      : Op(Host().graph_node(group, Host().graph_size(group) - 1), device, Host().group_inputs(group),
           Host().group_outputs(group)) {
    const size_t count = Host().graph_size(group);
    input_types_.resize(Host().group_inputs(group));
    for (size_t n = 0; n < count; ++n) {
      const ullage_node* from = Host().graph_node(group, n);
      const Node node(from);
      const Facts facts = node.facts();
      Member member;
      member.type = facts.out(0).dtype;
      for (size_t i = 0; i < facts.inputs.size(); ++i) {
        const size_t before = Host().node_producer(group, from, i);
        const size_t input = Host().group_input(group, from, i);
        if (before == SIZE_MAX) input_types_.at(input) = facts.in(i).dtype;
        member.sources.push_back(before != SIZE_MAX ? Source{true, before} : Source{false, input});
      }
      if (facts.inputs.size() == 1) {
        const UnaryForm form = UnaryOf(node);
        member.call = "applied(" + std::to_string(form.number) + ", %, " + Literal(form.alpha) + ", " +
                      Literal(form.beta) + ")";
      } else {
        member.call = "joined(" + std::to_string(BinaryOf(node)) + ", %, %)";
      }
      members_.push_back(std::move(member));
      if (const size_t output = Host().group_output(group, from, 0); output != SIZE_MAX) {
        if (results_.size() <= output) results_.resize(output + 1);
        results_[output].member = n;
      }
    }
    for (Result& result : results_) Write(&result);
  }

  void Compute(const Context& c) const override {
    for (size_t o = 0; o < results_.size(); ++o) {
      const Tensor& y = *c.out(o);
      const auto shape = ShapeOf(y);
      std::vector<std::vector<int64_t>> strides;
      for (size_t i : results_[o].inputs) strides.push_back(SpreadStrides(*c.in(i), shape));
      const Walk walk(shape, strides);
      Launch launch = c.Start(*results_[o].kernel);
      for (size_t i : results_[o].inputs) launch.Add(c.in(i));
      launch.Add(y).Value(Count(y.elements())).Value(walk.dims);
      for (const Strides& s : walk.strides) launch.Value(s);
      launch.RunOver(y.elements());
    }
  }

 private:
  /// What a node reads: an input of the group, or what one of its nodes makes.
  struct Source {
    bool inside = false;
    size_t index = 0;
  };
  struct Member {
    std::string call;  ///< with a % for each operand
    std::vector<Source> sources;
    int32_t type = kFloat;
  };
  struct Result {
    size_t member = 0;
    std::vector<size_t> inputs;  ///< of the group, that it is made from
    KernelRef* kernel = nullptr;
  };

  std::string Rounded(int32_t type, const std::string& value) const {
    if (type == kFloat16) return "half_of(" + value + ")";
    if (type == kBFloat16) return "of_bf16(bf16_of(" + value + "))";
    return value;
  }

  void Write(Result* result) {
    std::vector<bool> needed(members_.size(), false);
    needed[result->member] = true;
    for (size_t m = result->member + 1; m-- > 0;)
      for (const Source& source : members_[m].sources)
        if (needed[m] && source.inside) needed[source.index] = true;
    std::string body;
    for (size_t m = 0; m <= result->member; ++m) {
      if (!needed[m]) continue;
      std::string call = members_[m].call;
      for (const Source& source : members_[m].sources) {
        std::string operand = "v" + std::to_string(source.index);
        if (!source.inside) {
          auto& inputs = result->inputs;
          auto at = std::find(inputs.begin(), inputs.end(), source.index);
          if (at == inputs.end()) at = inputs.insert(at, source.index);
          operand = "x" + std::to_string(at - inputs.begin());
        }
        call.replace(call.find('%'), 1, operand);
      }
      body += "  const float v" + std::to_string(m) + " = " + Rounded(members_[m].type, call) + ";\n";
    }
    std::string parameters, loads;
    for (size_t i = 0; i < result->inputs.size(); ++i) {
      const std::string n = std::to_string(i),
                        type = std::to_string(TypeCode(input_types_[result->inputs[i]]));
      parameters += "TENSOR(a" + n + "), ";
      loads += "  const float x" + n + " = LOAD(" + type + ", IN(" + type + ", a" + n +
               "), place(i, &dims, &s" + n + "));\n";
    }
    std::string strides;
    for (size_t i = 0; i < result->inputs.size(); ++i) strides += ", strides8 s" + std::to_string(i);
    const std::string type = std::to_string(TypeCode(members_[result->member].type));
    result->kernel = &Use(
        "elementwise.cl", "-DGROUP -DT=0 -DR=0", "group",
        "\n__kernel void group(" + parameters + "TENSOR(y), uint count, dims8 dims" + strides +
            ") {\n  const uint i = get_global_id(0);\n  if (i >= count) return;\n" + loads + body +
            "  STORE(" + type + ", OUT(" + type + ", y), i, v" + std::to_string(result->member) + ");\n}\n");
  }

  std::vector<int32_t> input_types_;
  std::vector<Member> members_;
  std::vector<Result> results_;
};

}  // namespace

void ProposeGroups(Device& device, const ullage_graph* graph, ullage_sink* sink) {
  constexpr size_t kAlone = SIZE_MAX;
  const size_t count = Host().graph_size(graph);
  std::vector<Chain> chains;
  std::vector<bool> eligible(count, false);
  std::vector<size_t> chain_of(count, kAlone);
  for (size_t n = 0; n < count; ++n) {
    const ullage_node* node = Host().graph_node(graph, n);
    eligible[n] = IsElementwise(device, node);
    if (!eligible[n]) continue;
    const size_t inputs = Host().node_inputs(node);
    for (size_t i = 0; i < inputs; ++i) {
      const size_t before = Host().node_producer(graph, node, i);
      if (before == SIZE_MAX || !eligible[before]) continue;
      size_t& at = chain_of[before];
      if (at == kAlone) {
        at = chains.size();
        chains.push_back({{before}, Host().node_inputs(Host().graph_node(graph, before))});
      }
      Chain& chain = chains[at];
      if (chain.nodes.size() >= kMostNodes || chain.outside + inputs - 1 > kMostInputs) continue;
      chain.nodes.push_back(n);
      chain.outside += inputs - 1;
      chain_of[n] = at;
      break;
    }
  }
  for (size_t i = 0; i < chains.size(); ++i) {
    if (chains[i].nodes.size() < 2) continue;
    ullage_proposal proposal{};
    proposal.size = sizeof proposal;
    proposal.nodes = chains[i].nodes.data();
    proposal.node_count = chains[i].nodes.size();
    proposal.fused = 1;
    proposal.estimate.size = sizeof proposal.estimate;
    proposal.estimate.certainty = ULLAGE_EXACT;
    proposal.id = i;
    Check(Host().add_proposal(sink, &proposal));
  }
}

std::unique_ptr<Op> MakeGroup(Device& device, const ullage_graph* group) {
  return std::make_unique<Group>(device, group);
}

}  // namespace ullage_opencl
