/// Plans as JSON and text, and the account of what does not fit.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "session/session.h"

namespace ullage::session {

struct Remedy {
  std::string change;  ///< "--context 2048"
  int64_t planned_bytes = 0;
};

struct PlanReportOptions {
  bool nodes = false;   ///< add the list of nodes
  int64_t context = 0;  ///< > 0: of a language model, with the chunk
  int64_t chunk = 0;
};

/// The object that `ullage plan --json` prints.
std::string PlanJson(const Session& session, const std::vector<Remedy>& remedies,
                     const PlanReportOptions& options);
/// The same for people.
std::string PlanText(const Session& session, const std::vector<Remedy>& remedies,
                     const PlanReportOptions& options);
/// The same as one HTML document that loads nothing: memory over time, tags, layers, and what to change.
/// `changes` are plans with other bounds, whether they fit or not.
std::string PlanHtml(const Session& session, const std::vector<Remedy>& remedies,
                     const std::vector<Remedy>& changes, const PlanReportOptions& options);
/// The array that `run` prints under "memory".
std::string MemoryJson(const Session& session);

/// Throws kDoesNotFit with the shortfall, the largest consumers and the remedies.
[[noreturn]] void ThrowDoesNotFit(const Session& session, const std::vector<Remedy>& remedies);

/// The text with JSON string escapes, without the quotes.
std::string JsonEscape(std::string_view text);

}  // namespace ullage::session
