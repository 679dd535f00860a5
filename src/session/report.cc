#include "session/report.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "placement/layer_map.h"
#include "session/placing.h"
#include "session/plan_page.h"
#include "session/unbounded.h"

namespace ullage::session {
namespace {

using Json = nlohmann::ordered_json;

Json Consumers(const Session& session, size_t device) {
  Json list = Json::array();
  for (const auto& c : session.largest_consumers(5, device))
    list.push_back({{"tag", memory::TagName(c.tag)}, {"name", c.name}, {"bytes", c.bytes}});
  return list;
}

int64_t Missing(const DevicePlan& d) {
  return d.limit_bytes ? d.tags.Sum() - *d.limit_bytes : 0;
}

Json Tags(const memory::TagBytes& bytes) {
  Json tags;
  for (memory::Tag tag : memory::kAllTags) tags[std::string(memory::TagName(tag))] = bytes[tag];
  return tags;
}

/// What packing loses: the arena over the least that any packing needs, of the profile with the largest
/// arena.
double ArenaRatio(const Session& session, size_t device) {
  const Plan::Arena* largest = nullptr;
  for (const auto& p : session.profile_plans()) {
    const Plan::Arena& arena = p.plan->arenas[session.number_of(device)];
    if (!largest || arena.bytes > largest->bytes) largest = &arena;
  }
  return largest ? largest->ratio() : 1.0;
}

Json Shortfall(const Session& session, const std::vector<Remedy>& remedies) {
  Json list = Json::array();
  Json r = Json::array();
  for (const auto& remedy : remedies)
    r.push_back({{"change", remedy.change}, {"planned_bytes", remedy.planned_bytes}});
  for (size_t i = 0; i < session.device_plans().size(); ++i) {
    const DevicePlan& d = session.device_plans()[i];
    if (Missing(d) <= 0) continue;
    list.push_back({{"device", d.name},
                    {"limit_bytes", *d.limit_bytes},
                    {"planned_bytes", d.tags.Sum()},
                    {"missing_bytes", Missing(d)},
                    {"tags", Tags(d.tags)},
                    {"largest", Consumers(session, i)},
                    {"remedies", r}});
  }
  return list;
}

Json Copies(const Session& session) {
  Json list = Json::array();
  const auto name = [&](int device) { return session.device_plans()[session.plan_of(device)].name; };
  const std::function<void(const Program&, const shapes::GraphFacts&)> add =
      [&](const Program& program, const shapes::GraphFacts& facts) {
        for (const Step& step : program.steps()) {
          if (step.kind == Step::Kind::kCopy) {
            const graph::ValueId from = step.inputs[0], to = step.outputs[0];
            Json copy = {{"value", program.graph().value(program.source(from)).name},
                         {"from", name(program.device(from))},
                         {"to", name(program.device(to))}};
            const int64_t bytes = BytesUpper(facts.of(program.source(from)));
            copy["bytes"] = bytes >= 0 ? Json(bytes) : Json(nullptr);
            list.push_back(copy);
          }
          for (const auto& [key, body] : step.bodies)
            if (const auto it = facts.bodies.find({step.node, key}); it != facts.bodies.end())
              add(*body, *it->second);
        }
      };
  add(session.program(), session.facts());
  return list;
}

}  // namespace

std::string JsonEscape(std::string_view text) {
  const std::string quoted = Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
  return quoted.substr(1, quoted.size() - 2);
}

namespace {

Json PlanObject(const Session& session, const std::vector<Remedy>& remedies,
                const PlanReportOptions& options) {
  Json out;
  out["model"] = session.spec().model_name;
  out["fits"] = session.fits();
  if (options.context > 0) {
    out["context"] = options.context;
    out["batch_chunk"] = options.chunk;
  }
  out["profiles"] = Json::array();
  for (const auto& p : session.profile_plans()) {
    Json bounds = Json::object();
    for (const auto& [name, dims] : p.bounds) bounds[name] = dims;
    out["profiles"].push_back({{"name", p.name},
                               {"bounds", bounds},
                               {"arena_bytes", p.plan->host().bytes},
                               {"arena_lower_bound_bytes", p.plan->host().lower_bound},
                               {"arena_ratio", p.plan->host().ratio()}});
  }
  out["devices"] = Json::array();
  for (size_t i = 0; i < session.device_plans().size(); ++i) {
    const DevicePlan& d = session.device_plans()[i];
    Json device = {{"name", d.name}, {"provider", d.provider}};
    device["limit_bytes"] = d.limit_bytes ? Json(*d.limit_bytes) : Json(nullptr);
    device["planned_bytes"] = d.tags.Sum();
    device["tags"] = Tags(d.tags);
    if (!d.weights_resident.empty()) {
      device["weights_resident"] = d.weights_resident;
      device["mapped_bytes"] = d.mapped_bytes;
    }
    device["lower_bound_bytes"] = d.lower_bound_bytes;
    device["arena_ratio"] = ArenaRatio(session, i);
    device["nodes"] = d.nodes;
    device["layers"] = session.placed().LayerRange(i);
    device["estimates"] = {{"exact", d.exact}, {"bound", d.bound}, {"heuristic", d.heuristic}};
    device["streaming"] = nullptr;
    out["devices"].push_back(std::move(device));
  }
  out["candidates"] = Json::array();
  AddPlacement(session.placed(), options.nodes, &out);
  out["copies"] = Copies(session);
  out["shortfall"] = Shortfall(session, remedies);
  return out;
}

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// What a session holds of a device from beginning to end, and what its profiles do with the rest.
Json DeviceOverTime(const Session& session, size_t index) {
  Json device = {
      {"name", session.device_plans()[index].name}, {"resident", Json::array()}, {"profiles", Json::array()}};
  const graph::Graph& graph = session.graph();
  const placement::LayerMap map(graph);
  for (const auto& c : session.resident()) {
    if (c.device != index) continue;
    const int64_t layer = c.node == graph::kNone ? -1 : map.layer(c.node);
    device["resident"].push_back({{"tag", memory::TagName(c.tag)},
                                  {"name", c.name},
                                  {"bytes", c.bytes},
                                  {"layer", layer >= 0 ? Json(layer) : Json(nullptr)}});
  }
  for (const auto& p : session.profile_plans()) {
    Json profile = {{"name", p.name}, {"arena_bytes", p.plan->arenas[session.number_of(index)].bytes}};
    Json steps = Json::array(), buffers = Json::array();
    for (const Step& step : session.program().steps()) {
      if (step.kind == Step::Kind::kCopy) {
        steps.push_back({session.program().name(step.outputs[0]), "copy", nullptr});
        continue;
      }
      const auto& node = graph.node(step.node);
      steps.push_back({node.name, node.OpName(), map.layer(step.node)});
    }
    for (const auto& b : p.plan->items)
      if (b.bytes > 0 && session.plan_of(b.device) == index)
        buffers.push_back({b.name, b.tag, b.offset, b.bytes, b.first, b.last});
    profile["steps"] = std::move(steps);
    profile["buffers"] = std::move(buffers);
    device["profiles"].push_back(std::move(profile));
  }
  return device;
}

/// Nodes and resident bytes by device and layer.
Json Grid(const Session& session) {
  struct Cell {
    int64_t nodes = 0, bytes = 0;
  };
  std::map<std::pair<size_t, int64_t>, Cell> cells;
  const placement::LayerMap map(session.graph());
  for (const auto& ref : session.placed().nodes()) {
    const auto& p = session.placed().of(ref);
    ++cells[{p.device, std::max<int64_t>(p.layer, -1)}].nodes;
  }
  for (const auto& c : session.resident()) {
    const int64_t layer = c.node == graph::kNone ? -1 : map.layer(c.node);
    cells[{c.device, std::max<int64_t>(layer, -1)}].bytes += c.bytes;
  }
  Json list = Json::array();
  for (const auto& [at, cell] : cells)
    list.push_back({{"device", at.first},
                    {"layer", at.second >= 0 ? Json(at.second) : Json(nullptr)},
                    {"nodes", cell.nodes},
                    {"bytes", cell.bytes}});
  return list;
}

/// One device in the text for people.
std::string DeviceText(const Session& session, size_t index) {
  const DevicePlan& d = session.device_plans()[index];
  std::string text = "\ndevice   " + d.name + ", " + std::to_string(d.nodes) + " nodes";
  const std::string layers = session.placed().LayerRange(index);
  if (!layers.empty()) text += ", layers " + layers;
  text += "\n";
  for (memory::Tag tag : memory::kAllTags) {
    std::string name(memory::TagName(tag));
    name.resize(13, ' ');
    text += "  " + name + FormatSize(d.tags[tag]);
    if (tag == memory::Tag::kWeights && !d.weights_resident.empty() && d.weights_resident != "mapped")
      text += ", " + d.weights_resident;
    if (tag == memory::Tag::kWeights && d.mapped_bytes > 0)
      text += ", " + FormatSize(d.mapped_bytes) + " in the mapped file";
    text += "\n";
  }
  text += "  planned      " + FormatSize(d.tags.Sum()) + " (" + std::to_string(d.tags.Sum()) +
          " bytes; no plan needs less than " + FormatSize(d.lower_bound_bytes) + ")\n";
  char ratio[32];
  std::snprintf(ratio, sizeof ratio, "%.4f", ArenaRatio(session, index));
  text += StrCat("  packing      ", ratio, " of its lower bound\n");
  if (!d.limit_bytes) return text;
  const int64_t missing = Missing(d);
  text +=
      "  limit        " + FormatSize(*d.limit_bytes) +
      (missing > 0 ? ": " + FormatSize(missing) + " short\n" : ": fits, " + FormatSize(-missing) + " left\n");
  if (missing <= 0) return text;
  text += "\nlargest consumers of " + d.name + "\n";
  for (const auto& c : session.largest_consumers(5, index))
    text += "  " + FormatSize(c.bytes) + "  " + std::string(memory::TagName(c.tag)) + "  " + c.name + "\n";
  return text;
}

}  // namespace

std::string PlanJson(const Session& session, const std::vector<Remedy>& remedies,
                     const PlanReportOptions& options) {
  return Dump(PlanObject(session, remedies, options));
}

std::string PlanHtml(const Session& session, const std::vector<Remedy>& remedies,
                     const std::vector<Remedy>& changes, const PlanReportOptions& options) {
  const DevicePlan& d = session.device_plan();
  Json data = {{"plan", PlanObject(session, remedies, options)}, {"changes", Json::array()}};
  for (const auto* list : {&remedies, &changes})
    for (const auto& r : *list)
      data["changes"].push_back(
          {{"change", r.change},
           {"planned_bytes", r.planned_bytes},
           {"fits", d.limit_bytes ? Json(r.planned_bytes <= *d.limit_bytes) : Json(nullptr)}});
  data["grid"] = Grid(session);
  data["devices"] = Json::array();
  for (size_t i = 0; i < session.device_plans().size(); ++i)
    data["devices"].push_back(DeviceOverTime(session, i));
  std::string text(PlanPageHead());
  for (const char c : Dump(data))  // so that no name can end the script
    if (c == '<')
      text += "\\u003c";
    else
      text += c;
  return text.append(PlanPageTail());
}

std::string PlanText(const Session& session, const std::vector<Remedy>& remedies,
                     const PlanReportOptions& options) {
  std::string text = "model    " + session.spec().model_name + "\n";
  if (options.context > 0)
    text += StrCat("context  ", options.context, " tokens, prompts in chunks of ", options.chunk, "\n");
  for (const auto& p : session.profile_plans()) {
    text += "profile  " + p.name + ":";
    for (const auto& [name, dims] : p.bounds) {
      text += " " + name + " <= [";
      for (size_t i = 0; i < dims.size(); ++i) text += (i ? "," : "") + std::to_string(dims[i]);
      text += "]";
    }
    text += "\n";
  }
  for (size_t i = 0; i < session.device_plans().size(); ++i) text += DeviceText(session, i);
  if (!session.fits())
    for (const auto& r : remedies)
      text += "would fit: " + r.change + " (" + FormatSize(r.planned_bytes) + ")\n";
  text += PlacementText(session.placed(), options.nodes);
  return text;
}

std::string MemoryJson(const Session& session) {
  Json list = Json::array();
  for (size_t i = 0; i < session.device_plans().size(); ++i) {
    const DevicePlan& d = session.device_plans()[i];
    Json m = {{"device", d.name}};
    m["limit_bytes"] = d.limit_bytes ? Json(*d.limit_bytes) : Json(nullptr);
    m["planned_bytes"] = d.tags.Sum();
    m["peak_bytes"] = session.peak_bytes(i);
    m["allocations_during_run"] = session.allocations_during_run(i);
    list.push_back(std::move(m));
  }
  return Dump(list);
}

void ThrowDoesNotFit(const Session& session, const std::vector<Remedy>& remedies) {
  std::string message;
  for (const DevicePlan& d : session.device_plans())
    if (Missing(d) > 0)
      message += StrCat(message.empty() ? "" : "; ", "does not fit on ", d.name, ": ",
                        FormatSize(d.tags.Sum()), " planned (", d.tags.ToString(), "), limit ",
                        FormatSize(*d.limit_bytes), ", ", FormatSize(Missing(d)), " short");
  for (const auto& r : remedies)
    message += StrCat("; ", r.change, " would take ", FormatSize(r.planned_bytes));
  Json details = {{"shortfall", Shortfall(session, remedies)}};
  throw Error(Code::kDoesNotFit, message, Dump(details));
}

}  // namespace ullage::session
