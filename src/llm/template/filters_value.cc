// Filters that convert single values.
#include <charconv>
#include <cmath>

#include "llm/template/filters.h"
#include "llm/template/format.h"

namespace ullage::llm::jinja {
namespace {

Value Default(Runtime& rt, const Value& input, Args& args) {
  const Params p(rt, "default", args, {"default_value", "boolean"});
  if (input.undefined() || (Flag(rt, p[1]) && !Truthy(rt, input))) return p[0].missing() ? rt.Str("") : p[0];
  return input;
}

Value Attr(Runtime& rt, const Value& input, Args& args) {
  const Params p(rt, "attr", args, {"name"}, 1);
  if (!p[0].string()) Fail("attribute name must be string, not '", TypeName(p[0]), "'");
  if (input.undefined()) FailUndefined(input);
  const Value v = PlainAttribute(rt, input, Text(p[0]));
  return v.missing() ? rt.UndefinedItem(input, p[0]) : v;
}

Value Abs(Runtime& rt, const Value& input, Args& args) {
  NoArguments("abs", args);
  if (!input.number()) Fail("bad operand type for abs(): '", TypeName(input), "'");
  if (!input.integral()) return Value::Float(std::fabs(input.real()));
  return input.integer() < 0 ? Negative(rt, input) : Value::Int(input.integer());
}

Value IntFilter(Runtime& rt, const Value& input, Args& args) {
  const Params p(rt, "int", args, {"default", "base"});
  const Value otherwise = p[0].missing() ? Value::Int(0) : p[0];
  if (input.undefined()) FailUndefined(input);
  if (input.integral()) return Value::Int(input.integer());
  if (input.number()) {
    if (std::isnan(input.real())) return otherwise;
    return Value::Int(TruncateToInt(input.real()));
  }
  if (!input.string()) return otherwise;
  const bool has_base = p[1].missing() || p[1].integral();
  int64_t i = 0;
  if (has_base && ParseInt(Text(input), p[1].missing() ? 10 : p[1].integer(), i)) return Value::Int(i);
  double f = 0;
  if (!ParseFloat(Text(input), f) || !std::isfinite(f)) return otherwise;
  return Value::Int(TruncateToInt(f));
}

Value FloatFilter(Runtime& rt, const Value& input, Args& args) {
  const Params p(rt, "float", args, {"default"});
  if (input.undefined()) FailUndefined(input);
  if (input.number()) return Value::Float(input.real());
  double f = 0;
  if (input.string() && ParseFloat(Text(input), f)) return Value::Float(f);
  return p[0].missing() ? Value::Float(0) : p[0];
}

/// round() of an integer to tens, hundreds, ...; ties to even.
int64_t RoundInteger(int64_t value, int64_t digits) {
  if (digits >= 0) return value;
  if (digits < -18) return 0;
  int64_t unit = 1;
  for (int64_t i = 0; i < -digits; ++i) unit *= 10;
  int64_t rest = value % unit;
  if (rest < 0) rest += unit;
  int64_t low = value;
  if (__builtin_sub_overflow(value, rest, &low))
    Unsupported("round of ", value, " does not fit into 64 bits");
  const int64_t twice = unit - rest;
  const bool up = rest > twice || (rest == twice && (low / unit) % 2 != 0);
  if (up && __builtin_add_overflow(low, unit, &low))
    Unsupported("round of ", value, " does not fit into 64 bits");
  return low;
}

double RoundFloat(double value, int64_t digits) {
  if (!std::isfinite(value) || digits > 323) return value;
  if (digits < -308) return std::copysign(0.0, value);
  if (digits < 0) {
    const double unit = std::pow(10.0, static_cast<double>(-digits));
    return std::nearbyint(value / unit) * unit;
  }
  const std::string text = FormatFloat(value, 'f', static_cast<int>(digits), false);
  double rounded = 0;
  std::from_chars(text.data(), text.data() + text.size(), rounded);
  return rounded;
}

Value Round(Runtime& rt, const Value& input, Args& args) {
  const Params p(rt, "round", args, {"precision", "method"});
  const std::string method = p[1].missing() ? "common" : p[1].string() ? Text(p[1]) : "";
  if (method != "common" && method != "ceil" && method != "floor")
    Fail("method must be common, ceil or floor");
  if (input.undefined()) FailUndefined(input);
  if (!input.number()) Fail("type ", TypeName(input), " doesn't define __round__ method");
  const Value precision = p[0].missing() ? Value::Int(0) : p[0];
  if (method == "common") {
    if (precision.none()) {
      return input.integral() ? Value::Int(input.integer())
                              : Value::Int(TruncateToInt(std::nearbyint(input.real())));
    }
    const int64_t digits = ToIndex(precision);
    if (input.integral()) return Value::Int(RoundInteger(input.integer(), digits));
    return Value::Float(RoundFloat(input.real(), digits));
  }
  const Value unit = Arithmetic(rt, BinaryOp::kPow, Value::Int(10), precision);
  Value scaled = Arithmetic(rt, BinaryOp::kMul, input, unit);
  if (!scaled.integral()) {
    const double f = method == "ceil" ? std::ceil(scaled.real()) : std::floor(scaled.real());
    scaled = Value::Int(TruncateToInt(f));
  }
  return Arithmetic(rt, BinaryOp::kDiv, scaled, unit);
}

Value ToJson(Runtime& rt, const Value& input, Args& args) {
  const Params p(rt, "tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = Flag(rt, p[0]);
  style.sort_keys = Flag(rt, p[3]);
  if (!p[1].missing() && !p[1].none()) {
    style.multiline = true;
    style.item_separator.assign(1, ',');
    if (p[1].string()) {
      style.indent = Text(p[1]);
    } else {
      const int64_t n = ToIndex(p[1]);
      if (n > 10000) Unsupported("tojson with an indent of ", n, " is not supported");
      style.indent.assign(static_cast<size_t>(std::max<int64_t>(n, 0)), ' ');
    }
  }
  if (!p[2].missing() && !p[2].none()) {
    const std::vector<Value> two = ToVector(rt, p[2]);
    if (two.size() != 2) Fail("tojson: separators must be two strings, got ", two.size(), " values");
    if (!two[0].string() || !two[1].string()) Fail("tojson: separators must be strings");
    style.item_separator = Text(two[0]);
    style.key_separator = Text(two[1]);
  }
  Buffer out(rt.budget);
  AppendJson(rt, out, input, style);
  return rt.Str(out.Release());
}

constexpr NamedCode kFilters[] = {
    {"abs", Abs},           {"attr", Attr},     {"d", Default},   {"default", Default},
    {"float", FloatFilter}, {"int", IntFilter}, {"round", Round}, {"tojson", ToJson},
};

}  // namespace

FunctionObject::Code FindValueFilter(std::string_view name) {
  return Lookup(kFilters, name);
}

}  // namespace ullage::llm::jinja
