/// The state of one render, and the operations of the language on values. Used by one thread.
/// Every error is an ullage::Error: kInvalidInput for what jinja2 refuses too, kUnsupported for what only
/// this implementation cannot do. Template::Render adds the template's name and the line.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "llm/template/chat_template.h"
#include "llm/template/value.h"

namespace ullage::llm::jinja {

class Interpreter;

/// Text under construction, charged to the budget.
class Buffer {
 public:
  explicit Buffer(Budget& budget) : budget_(budget) {}
  ~Buffer() { budget_.GiveBack(text_.size()); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  void Append(std::string_view s) {
    budget_.Take(s.size());
    budget_.Step(s.size() / 64);
    text_.append(s);
  }
  void Append(char c) { Append(std::string_view(&c, 1)); }
  const std::string& text() const { return text_; }
  std::string Release() {
    budget_.GiveBack(text_.size());
    return std::exchange(text_, std::string());
  }

 private:
  Budget& budget_;
  std::string text_;
};

class Runtime {
 public:
  explicit Runtime(const RenderOptions& options);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const RenderOptions& options;
  Budget budget;
  int line = 1;  ///< of what is being executed, for messages
  Interpreter* interpreter = nullptr;

  /// A new object, charged with its size and `extra` bytes.
  template <class T, class... A>
  std::shared_ptr<T> New(size_t extra, A&&... args) {
    const size_t bytes = sizeof(T) + 32 + extra;
    budget.Take(bytes);
    std::shared_ptr<T> object;
    try {
      object = std::make_shared<T>(std::forward<A>(args)...);
    } catch (...) {
      budget.GiveBack(bytes);
      throw;
    }
    object->budget = &budget;
    object->charged = bytes;
    return object;
  }
  Value Str(std::string text, bool safe = false);
  Value Str(std::string_view text, bool safe = false) { return Str(std::string(text), safe); }
  Value Str(const char* text) { return Str(std::string(text), false); }
  Value List(std::vector<Value> items);
  Value Tuple(std::vector<Value> items);
  std::shared_ptr<DictObject> Dict();
  static Value DictValue(std::shared_ptr<DictObject> dict) { return Value(Kind::kDict, std::move(dict)); }
  Value Undefined(std::string message);
  /// What looking up `name` in `object` gives when it is not there.
  Value UndefinedItem(const Value& object, const Value& name);
  Value Unsafe(const Value& object, std::string_view attribute);
  Value Function(const char* name, FunctionObject::Code code, Value self = Value());
  Value Iterator(std::shared_ptr<IteratorObject> it) { return Value(Kind::kIterator, std::move(it)); }
  /// Remembers an object that may come to hold itself.
  void Watch(const std::shared_ptr<CyclicObject>& object);

  Value Call(const Value& callee, Args args);

  /// Guards recursion: throws when the stack that the render may use is used up.
  void CheckStack() const;

 private:
  std::vector<std::weak_ptr<CyclicObject>> watched_;
  size_t watch_limit_ = 1024;
  const char* stack_base_;
};

/// The parameters of a built-in function, bound to the arguments of a call. `names`: in order; those behind
/// "/" may be given by name too, those behind "*" only so; without a "/" all can. The first `required` must
/// be given.
class Params {
 public:
  Params(Runtime& rt, const char* function, Args& args, std::initializer_list<const char*> names,
         size_t required = 0);
  /// Missing when it was not given.
  const Value& operator[](size_t i) const { return values_[i]; }

 private:
  std::vector<Value> values_;
};
/// Throws if there are any arguments.
void NoArguments(const char* function, const Args& args);

[[noreturn]] inline void Fail(const std::string& message) {
  throw Error(Code::kInvalidInput, message);
}
template <class... Parts>
[[noreturn]] void Fail(const Parts&... parts) {
  Throw(Code::kInvalidInput, parts...);
}
template <class... Parts>
[[noreturn]] void Unsupported(const Parts&... parts) {
  Throw(Code::kUnsupported, parts...);
}
/// Raises the error that an Undefined carries.
[[noreturn]] void FailUndefined(const Value& undefined);

// Conversions (convert.cc)
bool Truthy(Runtime& rt, const Value& v);
void AppendStr(Runtime& rt, Buffer& out, const Value& v);
void AppendRepr(Runtime& rt, Buffer& out, const Value& v);
std::string ToStr(Runtime& rt, const Value& v);
std::string ToRepr(Runtime& rt, const Value& v);
/// A string value: the value itself if it is a string (markup stays markup), else str() of it.
Value SoftStr(Runtime& rt, const Value& v);
std::string FloatRepr(double f);
std::string StringRepr(std::string_view text);
std::string EscapeHtml(std::string_view text);
/// markupsafe.escape
Value Escape(Runtime& rt, const Value& v);
/// An index or count: bool or int, anything else is a type error.
int64_t ToIndex(const Value& v);
/// int(text, base) and float(text); false where Python raises ValueError.
bool ParseInt(std::string_view text, int64_t base, int64_t& out);
bool ParseFloat(std::string_view text, double& out);

// Comparison (compare.cc)
enum class Order { kLess, kLessEqual, kGreater, kGreaterEqual };
bool Equal(Runtime& rt, const Value& a, const Value& b);
bool Compare(Runtime& rt, Order op, const Value& a, const Value& b);
inline bool Less(Runtime& rt, const Value& a, const Value& b) {
  return Compare(rt, Order::kLess, a, b);
}
bool Same(const Value& a, const Value& b);
size_t Hash(Runtime& rt, const Value& v);
bool Contains(Runtime& rt, const Value& container, const Value& item);
/// Null if there is no such key.
const Value* Find(Runtime& rt, const DictObject& dict, const Value& key);
const Value* Find(const DictObject& dict, std::string_view key);
void Set(Runtime& rt, DictObject& dict, const Value& key, const Value& value);

// Arithmetic (arithmetic.cc)
enum class BinaryOp { kAdd, kSub, kMul, kDiv, kFloorDiv, kMod, kPow };
Value Arithmetic(Runtime& rt, BinaryOp op, const Value& a, const Value& b);
Value Negative(Runtime& rt, const Value& v);
Value Positive(Runtime& rt, const Value& v);
/// `format % values`
Value PercentFormat(Runtime& rt, const Value& format, const Value& values);
/// str.format; `fields` by number or name
Value BraceFormat(Runtime& rt, const Value& format, const Args& fields);

// Access (access.cc, iterate.cc)
Value GetAttribute(Runtime& rt, const Value& object, std::string_view name);
Value GetItem(Runtime& rt, const Value& object, const Value& key);
/// The attribute alone, without falling back to items; missing if there is none.
Value PlainAttribute(Runtime& rt, const Value& object, std::string_view name);
Value GetSlice(Runtime& rt, const Value& object, const Value& start, const Value& stop, const Value& step);
/// False where len() is a type error.
bool TryLength(Runtime& rt, const Value& v, int64_t& out);
int64_t Length(Runtime& rt, const Value& v);
bool Iterable(const Value& v);
std::shared_ptr<IteratorObject> Iterate(Runtime& rt, const Value& v);
std::shared_ptr<IteratorObject> IterateReversed(Runtime& rt, const Value& v);
std::vector<Value> ToVector(Runtime& rt, const Value& v);

// Names (filters.cc, tests.cc, globals.cc, methods)
FunctionObject::Code FindFilter(std::string_view name);
FunctionObject::Code FindTest(std::string_view name);
/// Missing if there is no such global.
Value FindGlobal(Runtime& rt, std::string_view name);
/// str method or missing
Value StringMethod(Runtime& rt, const Value& object, std::string_view name);
/// Methods and attributes of the other types; missing if there is none.
Value ContainerMethod(Runtime& rt, const Value& object, std::string_view name);
Value CallFilter(Runtime& rt, const Value& name, const Value& input, Args args);
bool CallTest(Runtime& rt, const Value& name, const Value& input, Args args);
/// str.replace; a negative count replaces all.
std::string ReplaceText(Runtime& rt, std::string_view text, std::string_view from, std::string_view to,
                        int64_t count);
/// The string filled up to `width` code points; `align`: < > ^
std::string PadText(Runtime& rt, const Value& self, int64_t width, std::string_view fill, char align);
bool IsLowerText(std::string_view text);
bool IsUpperText(std::string_view text);
/// json.dumps
struct JsonStyle {
  bool ensure_ascii = false, sort_keys = false, multiline = false;
  std::string indent, item_separator = ", ", key_separator = ": ";
};
void AppendJson(Runtime& rt, Buffer& out, const Value& v, const JsonStyle& style);
/// datetime.strftime for a local time without a zone
std::string FormatTime(const LocalTime& time, std::string_view format);

}  // namespace ullage::llm::jinja
