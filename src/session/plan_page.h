/// The page of `ullage plan --html`, without its data.
#pragma once

#include <string_view>

namespace ullage::session {

/// One self-contained document that loads nothing. The data are a JSON object between both parts, with every
/// "<" escaped:
/// {"plan":{…as plan --json…},"changes":[{"change":…,"planned_bytes":n,"fits":b}],
///  "devices":[{"name":…,"resident":[{"tag":…,"name":…,"bytes":n,"layer":n}],
///    "profiles":[{"name":…,"arena_bytes":n,"steps":[[node,op,layer]],
///      "buffers":[[name,tag,offset,bytes,first,last]]}]}]}
std::string_view PlanPageHead();
std::string_view PlanPageTail();

}  // namespace ullage::session
