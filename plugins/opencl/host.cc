#include "host.h"

#include <cstring>

namespace ullage_opencl {
namespace {

const ullage_host_api* g_host = nullptr;

template <class Info>
Info Sized() {
  Info info{};
  info.size = sizeof(Info);
  return info;
}

}  // namespace

int64_t SizeOf(int32_t dtype) {
  switch (dtype) {
    case kUInt8:
    case kInt8:
    case kBool:
      return 1;
    case kUInt16:
    case kInt16:
    case kFloat16:
    case kBFloat16:
      return 2;
    case kFloat:
    case kInt32:
    case kUInt32:
      return 4;
    case kDouble:
    case kInt64:
    case kUInt64:
      return 8;
    default:
      return 0;
  }
}

const ullage_host_api& Host() {
  return *g_host;
}
void SetHost(const ullage_host_api* host) {
  g_host = host;
}

void Fail(ullage_code code, std::string text) {
  throw Failure{code, std::move(text)};
}

void Check(ullage_status* status) {
  if (status) throw HostFailure{status};
}

int64_t Product(std::initializer_list<int64_t> factors) {
  int64_t product = 1;
  for (int64_t f : factors) {
    if (f < 0) return -1;
    if (__builtin_mul_overflow(product, f, &product)) Fail(ULLAGE_INVALID_ARGUMENT, "sizes overflow");
  }
  return product;
}

ValueFacts ValueFacts::Of(const ullage_value_info& info) {
  ValueFacts f;
  f.present = info.presence != ULLAGE_ABSENT;
  f.dtype = info.dtype;
  f.constant = info.is_constant != 0;
  f.known = info.presence == ULLAGE_SHAPE_KNOWN;
  if (f.known) {
    f.lower.assign(info.lower, info.lower + info.rank);
    f.upper.assign(info.upper, info.upper + info.rank);
  }
  return f;
}

int64_t ValueFacts::Fixed(size_t axis) const {
  return known && axis < upper.size() && lower[axis] == upper[axis] ? upper[axis] : -1;
}

int64_t ValueFacts::UpperElements() const {
  if (!known) return -1;
  int64_t n = 1;
  for (int64_t d : upper)
    if (d < 0 || __builtin_mul_overflow(n, d, &n)) return -1;
  return n;
}

const ValueFacts& Facts::in(size_t i) const {
  static const ValueFacts kAbsent;
  return i < inputs.size() ? inputs[i] : kAbsent;
}
const ValueFacts& Facts::out(size_t i) const {
  static const ValueFacts kAbsent;
  return i < outputs.size() ? outputs[i] : kAbsent;
}

Facts Node::facts() const {
  Facts facts;
  for (size_t i = 0; i < Host().node_inputs(node_); ++i) {
    auto info = Sized<ullage_value_info>();
    Check(Host().node_input(node_, i, &info));
    facts.inputs.push_back(ValueFacts::Of(info));
  }
  for (size_t i = 0; i < Host().node_outputs(node_); ++i) {
    auto info = Sized<ullage_value_info>();
    Check(Host().node_output(node_, i, &info));
    facts.outputs.push_back(ValueFacts::Of(info));
  }
  return facts;
}

bool Node::has_input(size_t i) const {
  if (i >= Host().node_inputs(node_)) return false;
  auto info = Sized<ullage_value_info>();
  Check(Host().node_input(node_, i, &info));
  return info.presence != ULLAGE_ABSENT;
}
bool Node::has_output(size_t i) const {
  if (i >= Host().node_outputs(node_)) return false;
  auto info = Sized<ullage_value_info>();
  Check(Host().node_output(node_, i, &info));
  return info.presence != ULLAGE_ABSENT;
}

int64_t Node::Int(const char* key, int64_t otherwise) const {
  int64_t value = 0;
  uint32_t found = 0;
  Check(Host().attribute_int(node_, key, &value, &found));
  return found ? value : otherwise;
}

float Node::Float(const char* key, float otherwise) const {
  float value = 0;
  uint32_t found = 0;
  Check(Host().attribute_float(node_, key, &value, &found));
  return found ? value : otherwise;
}

bool Node::HasFloat(const char* key) const {
  float value = 0;
  uint32_t found = 0;
  Check(Host().attribute_float(node_, key, &value, &found));
  return found != 0;
}

std::string Node::Str(const char* key, const char* otherwise) const {
  const char* text = nullptr;
  uint64_t count = 0;
  uint32_t found = 0;
  Check(Host().attribute_string(node_, key, &text, &count, &found));
  return found ? std::string(text, count) : std::string(otherwise);
}

std::vector<int64_t> Node::Ints(const char* key) const {
  const int64_t* values = nullptr;
  size_t count = 0;
  uint32_t found = 0;
  Check(Host().attribute_ints(node_, key, &values, &count, &found));
  return found ? std::vector<int64_t>(values, values + count) : std::vector<int64_t>();
}

std::vector<float> Node::Floats(const char* key) const {
  const float* values = nullptr;
  size_t count = 0;
  uint32_t found = 0;
  Check(Host().attribute_floats(node_, key, &values, &count, &found));
  return found ? std::vector<float>(values, values + count) : std::vector<float>();
}

std::vector<std::string> Node::Strings(const char* key) const {
  std::vector<std::string> all;
  for (;;) {
    const char* text = nullptr;
    uint64_t count = 0;
    uint32_t found = 0;
    Check(Host().attribute_string_at(node_, key, all.size(), &text, &count, &found));
    if (!found) return all;
    all.emplace_back(text, count);
  }
}

int32_t Node::Scalar(const char* key, uint64_t* bits) const {
  auto info = Sized<ullage_value_info>();
  const void* bytes = nullptr;
  uint64_t count = 0;
  uint32_t found = 0;
  *bits = 0;
  Check(Host().attribute_tensor(node_, key, &info, &bytes, &count, &found));
  if (!found) return kNone;
  if (!bytes || count != static_cast<uint64_t>(SizeOf(info.dtype)))
    Unsupported(std::string("attribute ") + key);
  std::memcpy(bits, bytes, count);
  return info.dtype;
}

const uint8_t* Node::Constant(size_t i, uint64_t* bytes) const {
  const void* data = nullptr;
  *bytes = 0;
  Check(Host().node_constant(node_, i, &data, bytes));
  return static_cast<const uint8_t*>(data);
}

std::string Node::BlockType(size_t i) const {
  const char* type = Host().node_block_type(node_, i);
  return type ? type : "";
}

void Node::Unsupported(const std::string& why) const {
  Fail(ULLAGE_UNSUPPORTED, "node " + name() + " (" + op() + "): " + why);
}
void Node::Invalid(const std::string& why) const {
  Fail(ULLAGE_INVALID_ARGUMENT, "node " + name() + " (" + op() + "): " + why);
}

int64_t Tensor::elements(int first, int last) const {
  int64_t n = 1;
  for (int i = first; i < last; ++i) n *= dims[static_cast<size_t>(i)];
  return n;
}

std::vector<int64_t> Tensor::HostInts() const {
  if (elements() == 0) return {};
  if (!pointer || buffer) Fail(ULLAGE_FAILED, "numbers that are wanted on the host lie on the device");
  std::vector<int64_t> all(static_cast<size_t>(elements()));
  for (size_t i = 0; i < all.size(); ++i) {
    if (dtype == kInt64)
      all[i] = static_cast<const int64_t*>(pointer)[i];
    else if (dtype == kInt32)
      all[i] = static_cast<const int32_t*>(pointer)[i];
    else
      Fail(ULLAGE_UNSUPPORTED, "integers of type " + std::to_string(dtype));
  }
  return all;
}

std::string Tensor::ToString() const {
  std::string s = "[";
  for (int i = 0; i < rank; ++i) s += (i ? "," : "") + std::to_string((*this)[i]);
  return s + "]";
}

}  // namespace ullage_opencl
