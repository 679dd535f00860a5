#include "llm/template/runtime.h"

#include <cstring>

#include "llm/template/interpreter.h"

namespace ullage::llm::jinja {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr ptrdiff_t kMaxStack = 5 << 20;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr ptrdiff_t kMaxStack = 5 << 20;
#else
constexpr ptrdiff_t kMaxStack = 3 << 19;
#endif
#else
constexpr ptrdiff_t kMaxStack = 3 << 19;
#endif

const char* StackPointer() {
  return static_cast<const char*>(__builtin_frame_address(0));
}

}  // namespace

Runtime::Runtime(const RenderOptions& o)
    : options(o), budget(o.max_memory_bytes, o.max_steps), stack_base_(StackPointer()) {}

Runtime::~Runtime() {
  // Everything is locked first, so that clearing one object destroys no chain of others.
  std::vector<std::shared_ptr<CyclicObject>> alive;
  for (const auto& w : watched_) {
    if (auto object = w.lock()) alive.push_back(std::move(object));
  }
  for (const auto& object : alive) object->Clear();
}

void Runtime::CheckStack() const {
  if (stack_base_ - StackPointer() > kMaxStack) Fail("the template nests too deeply");
}

Value Runtime::Str(std::string text, bool safe) {
  const size_t bytes = text.capacity();
  return Value(Kind::kString, New<StringObject>(bytes, std::move(text), safe));
}

Value Runtime::List(std::vector<Value> items) {
  const size_t bytes = items.capacity() * sizeof(Value);
  return Value(Kind::kList, New<ListObject>(bytes, std::move(items)));
}

Value Runtime::Tuple(std::vector<Value> items) {
  const size_t bytes = items.capacity() * sizeof(Value);
  return Value(Kind::kTuple, New<ListObject>(bytes, std::move(items)));
}

std::shared_ptr<DictObject> Runtime::Dict() {
  return New<DictObject>(0);
}

Value Runtime::Undefined(std::string message) {
  const size_t bytes = message.size();
  auto object = New<UndefinedObject>(bytes);
  object->message = std::move(message);
  return Value(Kind::kUndefined, std::move(object));
}

Value Runtime::UndefinedItem(const Value& object, const Value& name) {
  if (name.string()) {
    return Undefined(StringRepr(ObjectTypeName(object)) + " has no attribute " + StringRepr(Text(name)));
  }
  std::string repr = "of type " + std::string(TypeName(name));
  if (name.number() || name.none()) repr = ToRepr(*this, name);
  return Undefined(ObjectTypeName(object) + " has no element " + repr);
}

Value Runtime::Unsafe(const Value& object, std::string_view attribute) {
  return Undefined("access to attribute " + StringRepr(attribute) + " of '" + TypeName(object) +
                   "' object is unsafe.");
}

Value Runtime::Function(const char* name, FunctionObject::Code code, Value self) {
  auto object = New<FunctionObject>(0);
  object->code = code;
  object->name = name;
  object->self = std::move(self);
  return Value(Kind::kFunction, std::move(object));
}

void Runtime::Watch(const std::shared_ptr<CyclicObject>& object) {
  if (watched_.size() >= watch_limit_) {
    std::erase_if(watched_, [](const auto& w) { return w.expired(); });
    watch_limit_ = std::max<size_t>(1024, watched_.size() * 2);
  }
  watched_.push_back(object);
}

Value Runtime::Call(const Value& callee, Args args) {
  CheckStack();
  switch (callee.kind()) {
    case Kind::kMacro: {
      const auto macro = callee.share<MacroObject>();
      return interpreter->Call(*macro, std::move(args));
    }
    case Kind::kFunction: {
      const auto function = callee.share<FunctionObject>();
      return function->code(*this, function->self, args);
    }
    case Kind::kLoop: {
      const auto loop = callee.share<LoopObject>();
      const Params p(*this, "loop", args, {"iterable"}, 1);
      if (loop->recursive == nullptr) {
        Fail("The loop must have the 'recursive' marker to be called recursively.");
      }
      return interpreter->CallLoop(*loop->recursive, loop->closure, p[0], loop->depth0 + 1);
    }
    case Kind::kUndefined:
      FailUndefined(callee);
    default:
      Fail("'", TypeName(callee), "' object is not callable");
  }
}

Params::Params(Runtime&, const char* function, Args& args, std::initializer_list<const char*> names,
               size_t required) {
  size_t positional_only = 0, positional = 0, count = 0;
  bool keyword_only = false;
  std::vector<const char*> order;
  for (const char* n : names) {
    if (std::strcmp(n, "/") == 0) {
      positional_only = count;
      continue;
    }
    if (std::strcmp(n, "*") == 0) {
      keyword_only = true;
      continue;
    }
    order.push_back(n);
    ++count;
    if (!keyword_only) ++positional;
  }
  if (args.positional.size() > positional) {
    Fail(function, "() takes at most ", positional, " positional arguments (", args.positional.size(),
         " given)");
  }
  values_ = args.positional;
  values_.resize(count);
  for (auto& [name, value] : args.named) {
    size_t i = positional_only;
    while (i < count && name != order[i]) ++i;
    if (i == count) Fail(function, "() got an unexpected keyword argument ", StringRepr(name));
    if (!values_[i].missing()) Fail(function, "() got multiple values for argument ", StringRepr(name));
    values_[i] = value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (values_[i].missing()) Fail(function, "() is missing the required argument '", order[i], "'");
  }
}

void NoArguments(const char* function, const Args& args) {
  if (!args.positional.empty() || !args.named.empty()) Fail(function, "() takes no arguments");
}

void FailUndefined(const Value& undefined) {
  Fail(undefined.as<UndefinedObject>().message);
}

}  // namespace ullage::llm::jinja
