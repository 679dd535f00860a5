/// The values of the template language: Python's None, bool, int, float, str, list, tuple, dict and range,
/// Jinja's Undefined, Namespace, Macro and loop objects, iterators and callables. Lists, tuples and dicts
/// never change once they can be seen by a template (the sandbox forbids it), so values share their storage
/// freely. Ownership: reference counted. Heap objects are charged to the Budget of the render that made them,
/// which outlives them. Destruction is iterative, so that values nested without bound do not overflow the
/// stack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ullage::llm::jinja {

class Runtime;

enum class Kind : uint8_t {
  kMissing,  ///< no value at all: an argument that was not given, a name that was not assigned
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kRange,
  kDictView,
  kIterator,
  kNamespace,
  kMacro,
  kFunction,
  kLoop,
  kCycler,
};

/// What a render may use up. One per render, used by one thread.
class Budget {
 public:
  Budget(size_t max_bytes, uint64_t max_steps) : max_bytes_(max_bytes), max_steps_(max_steps) {}
  /// Throw kInvalidInput when the limit is passed.
  void Take(size_t bytes) {
    bytes_ += bytes;
    if (bytes_ > max_bytes_) OutOfBytes();
  }
  void Step(uint64_t n = 1) {
    steps_ += n;
    if (steps_ > max_steps_) OutOfSteps();
  }
  void GiveBack(size_t bytes) { bytes_ -= bytes; }
  /// Checks ahead of an allocation of `bytes`.
  void Foresee(size_t bytes) {
    if (bytes > max_bytes_ || bytes_ + bytes > max_bytes_) OutOfBytes();
  }

 private:
  [[noreturn]] void OutOfBytes() const;
  [[noreturn]] void OutOfSteps() const;

  size_t bytes_ = 0, max_bytes_;
  uint64_t steps_ = 0, max_steps_;
};

struct Object {
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() {
    if (budget != nullptr) budget->GiveBack(charged);
  }
  Budget* budget = nullptr;
  size_t charged = 0;
};

class Value {
 public:
  Value() = default;
  Value(Kind kind, std::shared_ptr<Object> object) : kind_(kind), object_(std::move(object)) {}
  static Value None() { return Value(Kind::kNone, nullptr); }
  static Value Bool(bool b) { return Scalar(Kind::kBool, b ? 1 : 0); }
  static Value Int(int64_t i) { return Scalar(Kind::kInt, i); }
  static Value Float(double f) {
    Value v(Kind::kFloat, nullptr);
    v.float_ = f;
    return v;
  }

  Kind kind() const { return kind_; }
  bool Is(Kind k) const { return kind_ == k; }
  bool missing() const { return kind_ == Kind::kMissing; }
  bool undefined() const { return kind_ == Kind::kUndefined; }
  bool none() const { return kind_ == Kind::kNone; }
  bool string() const { return kind_ == Kind::kString; }
  /// bool or int
  bool integral() const { return kind_ == Kind::kBool || kind_ == Kind::kInt; }
  bool number() const { return integral() || kind_ == Kind::kFloat; }

  int64_t integer() const { return int_; }
  double real() const { return kind_ == Kind::kFloat ? float_ : static_cast<double>(int_); }

  /// The heap object; T must be the type that belongs to kind().
  template <class T>
  T& as() const {
    return static_cast<T&>(*object_);
  }
  template <class T>
  std::shared_ptr<T> share() const {
    return std::static_pointer_cast<T>(object_);
  }
  const Object* object() const { return object_.get(); }

 private:
  static Value Scalar(Kind kind, int64_t i) {
    Value v(kind, nullptr);
    v.int_ = i;
    return v;
  }
  Kind kind_ = Kind::kMissing;
  union {
    int64_t int_ = 0;
    double float_;
  };
  std::shared_ptr<Object> object_;
};

/// Destroys values one after another instead of recursively.
void Discard(std::vector<Value>&& values);

struct StringObject : Object {
  StringObject(std::string t, bool s);
  const std::string text;
  const size_t length;  ///< in code points
  const bool safe;      ///< Markup
  bool ascii() const { return length == text.size(); }
};

struct ListObject : Object {
  explicit ListObject(std::vector<Value> v) : items(std::move(v)) {}
  ~ListObject() override { Discard(std::move(items)); }
  std::vector<Value> items;
  bool group = false;  ///< tuple made by groupby, with the attributes grouper and list
};

/// Keys compare as in Python: 1, 1.0 and True are the same key. Insertion order is kept.
struct DictObject : Object {
  ~DictObject() override;
  std::vector<std::pair<Value, Value>> items;
  std::unordered_multimap<size_t, size_t> index;  ///< hash to position, kept when there are many items
};

struct UndefinedObject : Object {
  std::string message;  ///< of the error that using it raises
};

struct RangeObject : Object {
  int64_t start = 0, stop = 0, step = 1, length = 0;
  int64_t at(int64_t i) const { return start + i * step; }
};

struct DictViewObject : Object {
  enum Part { kKeys, kValues, kItems };
  Part part = kKeys;
  std::shared_ptr<DictObject> dict;
};

/// Something that is used up by iterating: a generator, or the iterator over a container.
struct IteratorObject : Object {
  ~IteratorObject() override { Discard(std::move(held)); }
  /// The next item, or missing at the end.
  virtual Value Next(Runtime& rt) = 0;
  std::vector<Value> held;  ///< values that the iterator needs to live
};

/// Objects that can come to hold themselves; cleared at the end of a render.
struct CyclicObject : Object {
  virtual void Clear() = 0;
};

struct NamespaceObject : CyclicObject {
  ~NamespaceObject() override { NamespaceObject::Clear(); }
  void Clear() override;
  std::shared_ptr<DictObject> attributes;
};

struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
  /// Removes and returns the named argument; missing if it is not there.
  Value Pop(std::string_view name);
};

/// A built-in function or a method bound to its object.
struct FunctionObject : Object {
  using Code = Value (*)(Runtime& rt, const Value& self, Args& args);
  Code code = nullptr;
  const char* name = "";
  Value self;
};

struct CyclerObject : Object {
  ~CyclerObject() override { Discard(std::move(items)); }
  std::vector<Value> items;
  size_t position = 0;
};

/// Python's name of the value's type, as in "'str' object is not callable".
const char* TypeName(const Value& v);
/// As jinja2's messages name an object: "None", "dict object", "jinja2.utils.Namespace object".
std::string ObjectTypeName(const Value& v);

inline const std::string& Text(const Value& v) {
  return v.as<StringObject>().text;
}
inline const std::vector<Value>& Items(const Value& v) {
  return v.as<ListObject>().items;
}

}  // namespace ullage::llm::jinja
