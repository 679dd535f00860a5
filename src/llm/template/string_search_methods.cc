// The methods of str that search, strip and split.
#include <algorithm>

#include "llm/template/string_methods.h"
#include "llm/template/text.h"

namespace ullage::llm::jinja {
namespace {

/// The part of the text that optional code point bounds leave.
struct Window {
  Window(Runtime& rt, const Value& self, const Value& start_arg, const Value& end_arg) {
    const auto& s = self.as<StringObject>();
    rt.budget.Step(s.text.size() / 64);
    const auto length = static_cast<int64_t>(s.length);
    const auto bound = [&](const Value& v, int64_t otherwise) {
      if (v.missing() || v.none()) return otherwise;
      if (!v.integral()) Fail("slice indices must be integers or None or have an __index__ method");
      int64_t i = v.integer();
      if (i < 0) i = std::max<int64_t>(i + length, 0);
      return i;
    };
    start = bound(start_arg, 0);
    const int64_t end = std::min(bound(end_arg, length), length);
    valid = start <= end;
    if (!valid) return;
    begin = s.ascii() ? static_cast<size_t>(start) : ByteOffset(s.text, static_cast<size_t>(start));
    const size_t stop = s.ascii() ? static_cast<size_t>(end) : ByteOffset(s.text, static_cast<size_t>(end));
    text = std::string_view(s.text).substr(begin, stop - begin);
  }
  int64_t start = 0;
  size_t begin = 0;
  bool valid = true;
  std::string_view text;
};

int64_t Search(Runtime& rt, const char* name, const Value& self, Args& args, bool last) {
  const Params p(rt, name, args, {"sub", "start", "end", "/"}, 1);
  const std::string& part = TextArg(name, p[0]);
  const Window w(rt, self, p[1], p[2]);
  if (!w.valid) return -1;
  const size_t at = last ? FindLast(w.text, part) : Find(w.text, part, 0);
  if (at == std::string_view::npos) return -1;
  return w.start + static_cast<int64_t>(CountCodePoints(w.text.substr(0, at)));
}

Value FindMethod(Runtime& rt, const Value& self, Args& args) {
  return Value::Int(Search(rt, "find", self, args, false));
}
Value RFind(Runtime& rt, const Value& self, Args& args) {
  return Value::Int(Search(rt, "rfind", self, args, true));
}

Value IndexMethod(Runtime& rt, const Value& self, Args& args) {
  const int64_t i = Search(rt, "index", self, args, false);
  if (i < 0) Fail("substring not found");
  return Value::Int(i);
}

Value RIndex(Runtime& rt, const Value& self, Args& args) {
  const int64_t i = Search(rt, "rindex", self, args, true);
  if (i < 0) Fail("substring not found");
  return Value::Int(i);
}

Value Count(Runtime& rt, const Value& self, Args& args) {
  const Params p(rt, "count", args, {"sub", "start", "end", "/"}, 1);
  const std::string& part = TextArg("count", p[0]);
  const Window w(rt, self, p[1], p[2]);
  if (!w.valid) return Value::Int(0);
  if (part.empty()) return Value::Int(static_cast<int64_t>(CountCodePoints(w.text)) + 1);
  int64_t n = 0;
  for (size_t at = Find(w.text, part, 0); at != std::string_view::npos;
       at = Find(w.text, part, at + part.size()))
    ++n;
  return Value::Int(n);
}

Value Affix(Runtime& rt, const char* name, const Value& self, Args& args, bool prefix) {
  const Params p(rt, name, args, {"affix", "start", "end", "/"}, 1);
  const Window w(rt, self, p[1], p[2]);
  const auto matches = [&](const Value& v) {
    if (v.undefined()) FailUndefined(v);
    if (!v.string()) Fail(name, " first arg must be str or a tuple of str, not ", TypeName(v));
    const std::string& s = Text(v);
    if (!w.valid || s.size() > w.text.size()) return false;
    return (prefix ? w.text.substr(0, s.size()) : w.text.substr(w.text.size() - s.size())) == s;
  };
  if (!p[0].Is(Kind::kTuple)) return Value::Bool(matches(p[0]));
  for (const Value& v : Items(p[0])) {
    rt.budget.Step();
    if (matches(v)) return Value::Bool(true);
  }
  return Value::Bool(false);
}

Value StartsWith(Runtime& rt, const Value& self, Args& args) {
  return Affix(rt, "startswith", self, args, true);
}
Value EndsWith(Runtime& rt, const Value& self, Args& args) {
  return Affix(rt, "endswith", self, args, false);
}

Value StripMethod(Runtime& rt, const char* name, const Value& self, Args& args, Side side) {
  const Params p(rt, name, args, {"chars", "/"});
  rt.budget.Step(Text(self).size() / 16);
  if (p[0].missing() || p[0].none()) return rt.Str(StripSpace(Text(self), side), IsSafe(self));
  return rt.Str(StripChars(Text(self), TextArg(name, p[0]), side), IsSafe(self));
}

Value StripBoth(Runtime& rt, const Value& self, Args& args) {
  return StripMethod(rt, "strip", self, args, Side::kBoth);
}
Value StripLeft(Runtime& rt, const Value& self, Args& args) {
  return StripMethod(rt, "lstrip", self, args, Side::kLeft);
}
Value StripRight(Runtime& rt, const Value& self, Args& args) {
  return StripMethod(rt, "rstrip", self, args, Side::kRight);
}

using Pieces = std::vector<std::string_view>;

/// Cuts at runs of white space, at most `limit` times (negative: without limit).
Pieces SplitSpace(std::string_view text, int64_t limit) {
  Pieces out;
  while (true) {
    text = StripSpace(text, Side::kLeft);
    if (text.empty()) return out;
    if (limit >= 0 && static_cast<int64_t>(out.size()) == limit) {
      out.push_back(text);
      return out;
    }
    size_t end = 0;
    for (size_t next = 0; end < text.size(); end = next) {
      if (IsSpace(DecodeAt(text, next))) break;
    }
    out.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

Pieces SplitSpaceFromRight(std::string_view text, int64_t limit) {
  Pieces out;
  while (true) {
    text = StripSpace(text, Side::kRight);
    if (text.empty()) break;
    if (limit >= 0 && static_cast<int64_t>(out.size()) == limit) {
      out.push_back(text);
      break;
    }
    size_t begin = text.size();
    while (begin > 0) {
      size_t at = begin - 1;
      while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
      size_t pos = at;
      if (IsSpace(DecodeAt(text, pos))) break;
      begin = at;
    }
    out.push_back(text.substr(begin));
    text = text.substr(0, begin);
  }
  std::reverse(out.begin(), out.end());
  return out;
}

Pieces SplitAt(std::string_view text, std::string_view separator, int64_t limit) {
  Pieces out;
  size_t from = 0;
  while (limit < 0 || static_cast<int64_t>(out.size()) < limit) {
    const size_t at = Find(text, separator, from);
    if (at == std::string_view::npos) break;
    out.push_back(text.substr(from, at - from));
    from = at + separator.size();
  }
  out.push_back(text.substr(from));
  return out;
}

Pieces SplitAtFromRight(std::string_view text, std::string_view separator, int64_t limit) {
  Pieces out;
  const std::string mirrored(text.rbegin(), text.rend());
  const std::string mark(separator.rbegin(), separator.rend());
  for (const std::string_view piece : SplitAt(mirrored, mark, limit)) {
    const auto offset = static_cast<size_t>(piece.data() - mirrored.data());
    out.push_back(text.substr(text.size() - offset - piece.size(), piece.size()));
  }
  std::reverse(out.begin(), out.end());
  return out;
}

Value PieceList(Runtime& rt, const Pieces& pieces, bool safe) {
  rt.budget.Foresee(pieces.size() * sizeof(Value));
  std::vector<Value> items;
  items.reserve(pieces.size());
  for (const std::string_view piece : pieces) {
    rt.budget.Step();
    items.push_back(rt.Str(piece, safe));
  }
  return rt.List(std::move(items));
}

Value SplitMethod(Runtime& rt, const char* name, const Value& self, Args& args, bool from_right) {
  const Params p(rt, name, args, {"sep", "maxsplit"});
  const int64_t limit = p[1].missing() ? -1 : ToIndex(p[1]);
  const std::string& text = Text(self);
  rt.budget.Step(text.size() / 16);
  if (p[0].missing() || p[0].none()) {
    return PieceList(rt, from_right ? SplitSpaceFromRight(text, limit) : SplitSpace(text, limit),
                     IsSafe(self));
  }
  const std::string& separator = TextArg(name, p[0]);
  if (separator.empty()) Fail("empty separator");
  return PieceList(rt,
                   from_right ? SplitAtFromRight(text, separator, limit) : SplitAt(text, separator, limit),
                   IsSafe(self));
}

Value SplitLeft(Runtime& rt, const Value& self, Args& args) {
  return SplitMethod(rt, "split", self, args, false);
}
Value SplitRight(Runtime& rt, const Value& self, Args& args) {
  return SplitMethod(rt, "rsplit", self, args, true);
}

Value SplitLinesMethod(Runtime& rt, const Value& self, Args& args) {
  const Params p(rt, "splitlines", args, {"keepends"});
  rt.budget.Step(Text(self).size() / 16);
  return PieceList(rt, SplitLines(Text(self), !p[0].missing() && ToIndex(p[0]) != 0), IsSafe(self));
}

Value Partition(Runtime& rt, const Value& self, Args& args) {
  const Params p(rt, "partition", args, {"sep", "/"}, 1);
  const std::string& separator = TextArg("partition", p[0]);
  if (separator.empty()) Fail("empty separator");
  const std::string_view text = Text(self);
  const bool safe = IsSafe(self);
  const size_t at = Find(text, separator, 0);
  if (at == std::string_view::npos)
    return rt.Tuple({self, rt.Str(std::string(), safe), rt.Str(std::string(), safe)});
  return rt.Tuple({rt.Str(text.substr(0, at), safe), rt.Str(separator, safe),
                   rt.Str(text.substr(at + separator.size()), safe)});
}

Value RPartition(Runtime& rt, const Value& self, Args& args) {
  const Params p(rt, "rpartition", args, {"sep", "/"}, 1);
  const std::string& separator = TextArg("rpartition", p[0]);
  if (separator.empty()) Fail("empty separator");
  const std::string_view text = Text(self);
  const bool safe = IsSafe(self);
  const size_t at = FindLast(text, separator);
  if (at == std::string_view::npos)
    return rt.Tuple({rt.Str(std::string(), safe), rt.Str(std::string(), safe), self});
  return rt.Tuple({rt.Str(text.substr(0, at), safe), rt.Str(separator, safe),
                   rt.Str(text.substr(at + separator.size()), safe)});
}

constexpr NamedCode kMethods[] = {
    {"count", Count},
    {"endswith", EndsWith},
    {"find", FindMethod},
    {"index", IndexMethod},
    {"lstrip", StripLeft},
    {"partition", Partition},
    {"rfind", RFind},
    {"rindex", RIndex},
    {"rpartition", RPartition},
    {"rsplit", SplitRight},
    {"rstrip", StripRight},
    {"split", SplitLeft},
    {"splitlines", SplitLinesMethod},
    {"startswith", StartsWith},
    {"strip", StripBoth},
};

}  // namespace

const NamedCode* FindSearchMethod(std::string_view name) {
  for (const NamedCode& m : kMethods) {
    if (name == m.name) return &m;
  }
  return nullptr;
}

}  // namespace ullage::llm::jinja
