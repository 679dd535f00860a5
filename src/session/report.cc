#include "session/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"

namespace ullage::session {
namespace {

using Json = nlohmann::ordered_json;

/// The layer that a node belongs to: the number behind "layers." or "h." in the names it stands for; -1
/// without.
int64_t LayerOf(const graph::Node& node) {
  for (const auto& name : node.provenance) {
    for (std::string_view stem : {"layers.", "/h.", "blk.", "layer."}) {
      const auto at = name.find(stem);
      if (at == std::string::npos) continue;
      size_t i = at + stem.size();
      int64_t n = 0;
      bool any = false;
      for (; i < name.size() && name[i] >= '0' && name[i] <= '9' && n < 1'000'000; ++i, any = true)
        n = n * 10 + (name[i] - '0');
      if (any) return n;
    }
  }
  return -1;
}

std::string LayerRange(const graph::Graph& graph) {
  std::set<int64_t> layers;
  for (graph::NodeId id : graph.Order()) {
    const int64_t layer = LayerOf(graph.node(id));
    if (layer >= 0) layers.insert(layer);
  }
  std::string text;
  for (auto it = layers.begin(); it != layers.end();) {
    const int64_t first = *it;
    int64_t last = first;
    while (++it != layers.end() && *it == last + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(first);
    if (last > first) text += "-" + std::to_string(last);
  }
  return text;
}

Json Consumers(const Session& session) {
  Json list = Json::array();
  for (const auto& c : session.largest_consumers(5))
    list.push_back({{"tag", memory::TagName(c.tag)}, {"name", c.name}, {"bytes", c.bytes}});
  return list;
}

Json Shortfall(const Session& session, const std::vector<Remedy>& remedies) {
  Json list = Json::array();
  const DevicePlan& d = session.device_plan();
  if (d.limit_bytes && d.tags.Sum() > *d.limit_bytes) {
    Json r = Json::array();
    for (const auto& remedy : remedies)
      r.push_back({{"change", remedy.change}, {"planned_bytes", remedy.planned_bytes}});
    list.push_back({{"device", d.name},
                    {"missing_bytes", d.tags.Sum() - *d.limit_bytes},
                    {"largest", Consumers(session)},
                    {"remedies", r}});
  }
  return list;
}

}  // namespace

std::string JsonEscape(std::string_view text) {
  const std::string quoted = Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
  return quoted.substr(1, quoted.size() - 2);
}

std::string PlanJson(const Session& session, const std::vector<Remedy>& remedies,
                     const PlanReportOptions& options) {
  const DevicePlan& d = session.device_plan();
  const bool fits = !d.limit_bytes || d.tags.Sum() <= *d.limit_bytes;
  Json out;
  out["model"] = session.spec().model_name;
  out["fits"] = fits;
  out["profiles"] = Json::array();
  for (const auto& p : session.profile_plans()) {
    Json bounds = Json::object();
    for (const auto& [name, dims] : p.bounds) bounds[name] = dims;
    out["profiles"].push_back({{"name", p.name}, {"bounds", bounds}});
  }
  Json tags;
  for (memory::Tag tag : memory::kAllTags) tags[std::string(memory::TagName(tag))] = d.tags[tag];
  Json device = {{"name", d.name}, {"provider", d.provider}};
  device["limit_bytes"] = d.limit_bytes ? Json(*d.limit_bytes) : Json(nullptr);
  device["planned_bytes"] = d.tags.Sum();
  device["tags"] = tags;
  device["lower_bound_bytes"] = d.lower_bound_bytes;
  device["nodes"] = d.nodes;
  device["layers"] = LayerRange(session.graph());
  device["estimates"] = {{"exact", d.exact}, {"bound", d.bound}, {"heuristic", d.heuristic}};
  device["streaming"] = nullptr;
  out["devices"] = Json::array({device});
  out["candidates"] = Json::array();
  out["rules"] = Json::array();
  out["unmatched_nodes"] = 0;
  out["copies"] = Json::array();
  if (options.nodes) {
    out["placement"] = Json::array();
    for (graph::NodeId id : session.graph().Order()) {
      const auto& node = session.graph().node(id);
      const int64_t layer = LayerOf(node);
      Json n = {{"node", node.name}, {"op", node.OpName()}, {"device", "cpu"}, {"reason", "default"}};
      n["layer"] = layer >= 0 ? Json(layer) : Json(nullptr);
      out["placement"].push_back(n);
    }
  }
  out["shortfall"] = Shortfall(session, remedies);
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string PlanText(const Session& session, const std::vector<Remedy>& remedies,
                     const PlanReportOptions& options) {
  const DevicePlan& d = session.device_plan();
  std::string text = "model    " + session.spec().model_name + "\n";
  for (const auto& p : session.profile_plans()) {
    text += "profile  " + p.name + ":";
    for (const auto& [name, dims] : p.bounds) {
      text += " " + name + " <= [";
      for (size_t i = 0; i < dims.size(); ++i) text += (i ? "," : "") + std::to_string(dims[i]);
      text += "]";
    }
    text += "\n";
  }
  text += "\ndevice   " + d.name + ", " + std::to_string(d.nodes) + " nodes";
  const std::string layers = LayerRange(session.graph());
  if (!layers.empty()) text += ", layers " + layers;
  text += "\n";
  for (memory::Tag tag : memory::kAllTags) {
    std::string name(memory::TagName(tag));
    name.resize(13, ' ');
    text += "  " + name + FormatSize(d.tags[tag]) + "\n";
  }
  text += "  planned      " + FormatSize(d.tags.Sum()) + " (" + std::to_string(d.tags.Sum()) +
          " bytes; no plan needs less than " + FormatSize(d.lower_bound_bytes) + ")\n";
  if (d.limit_bytes) {
    text += "  limit        " + FormatSize(*d.limit_bytes);
    const int64_t missing = d.tags.Sum() - *d.limit_bytes;
    text +=
        missing > 0 ? ": " + FormatSize(missing) + " short\n" : ": fits, " + FormatSize(-missing) + " left\n";
  }
  if (d.limit_bytes && d.tags.Sum() > *d.limit_bytes) {
    text += "\nlargest consumers\n";
    for (const auto& c : session.largest_consumers(5))
      text += "  " + FormatSize(c.bytes) + "  " + std::string(memory::TagName(c.tag)) + "  " + c.name + "\n";
    for (const auto& r : remedies)
      text += "would fit: " + r.change + " (" + FormatSize(r.planned_bytes) + ")\n";
  }
  if (options.nodes) {
    text += "\n";
    for (graph::NodeId id : session.graph().Order()) {
      const auto& node = session.graph().node(id);
      text += "  cpu  " + node.OpName() + "  " + node.name + "\n";
    }
  }
  return text;
}

std::string MemoryJson(const Session& session) {
  const DevicePlan& d = session.device_plan();
  Json m = {{"device", d.name}};
  m["limit_bytes"] = d.limit_bytes ? Json(*d.limit_bytes) : Json(nullptr);
  m["planned_bytes"] = d.tags.Sum();
  m["peak_bytes"] = session.peak_bytes();
  m["allocations_during_run"] = session.allocations_during_run();
  return Json::array({m}).dump();
}

void ThrowDoesNotFit(const Session& session, const std::vector<Remedy>& remedies) {
  const DevicePlan& d = session.device_plan();
  const int64_t limit = d.limit_bytes.value_or(0);
  std::string message =
      StrCat("does not fit on ", d.name, ": ", FormatSize(d.tags.Sum()), " planned (", d.tags.ToString(),
             "), limit ", FormatSize(limit), ", ", FormatSize(d.tags.Sum() - limit), " short");
  for (const auto& r : remedies)
    message += StrCat("; ", r.change, " would take ", FormatSize(r.planned_bytes));
  Json details = {{"shortfall", Shortfall(session, remedies)}};
  throw Error(Code::kDoesNotFit, message, details.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace ullage::session
