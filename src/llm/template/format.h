/// Formatting of numbers as Python does it, shared by `%`, str.format and the filters.
#pragma once

#include <cstdint>
#include <string>

#include "llm/template/runtime.h"

namespace ullage::llm::jinja {

/// printf's %e %f %g with `precision` (type e, E, f, F, g, G), nan and inf as Python writes them.
std::string FormatFloat(double f, char type, int precision, bool alternate);
std::string FormatInteger(int64_t value, int base, bool upper);
/// int(f): throws for NaN, infinities and what needs more than 64 bits.
int64_t TruncateToInt(double f);
/// ascii(): a repr with everything beyond ASCII escaped.
std::string AsciiRepr(const std::string& repr);

}  // namespace ullage::llm::jinja
