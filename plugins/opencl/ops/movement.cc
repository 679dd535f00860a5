// What moves elements without looking at them: Transpose, Slice, Concat, Split, Expand, Tile, Pad, reshapes,
// and what fills tensors.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "op.h"
#include "spread.h"

namespace ullage_opencl {
namespace {

constexpr uint64_t kMovable = kFloats | Bit(kInt64) | Bit(kInt32) | Bit(kUInt8) | Bit(kInt8) | Bit(kBool) |
                              Bit(kUInt32) | Bit(kUInt64) | Bit(kInt16) | Bit(kUInt16) | Bit(kDouble);

/// Elements as raw units of their size.
class Mover : public Op {
 public:
  explicit Mover(const ullage_kernel_info& info) : Op(info) {
    const int64_t size = SizeOf(node_.facts().out(0).dtype);
    if (size == 0) node_.Unsupported("elements that share bytes");
    options_ = Define("SIZE", size);
  }

 protected:
  KernelRef* Program(const char* kernel) { return &Use("movement.cl", options_, kernel); }

  struct Place {
    std::vector<int64_t> strides;
    int64_t first = 0;
  };
  static void Strided(const Context& c, const KernelRef& kernel, const Tensor& x, const Place& from,
                      const Tensor& y, const Place& to, const std::vector<int64_t>& shape) {
    const Walk walk(shape, {from.strides, to.strides});
    if (walk.count == 0) return;
    c.Start(kernel)
        .Add(x)
        .Add(y)
        .Value(Count(walk.count))
        .Value(walk.dims)
        .Value(walk.strides[0])
        .Value(walk.strides[1])
        .Long(from.first)
        .Long(to.first)
        .RunOver(walk.count);
  }

 private:
  std::string options_;
};

std::vector<int64_t> DenseOf(const Tensor& t) {
  return DenseStrides(t.dims.data(), t.rank);
}

/// Shape operators on few integers: the host's. The data input decides.
std::string OnShapes(const Node& node) {
  const Facts facts = node.facts();
  const ValueFacts& x = facts.in(0);
  const int64_t n = x.UpperElements();
  const bool small = !(kFloats & Bit(x.dtype)) && x.rank() >= 0 && x.rank() <= 1 && n >= 0 && n <= 64;
  return small ? "arithmetic on shapes stays on the host" : "";
}

/// The same of what is made from nothing.
std::string MadeShapes(const Node& node) {
  const ValueFacts& y = node.facts().out(0);
  const int64_t n = y.UpperElements();
  const bool small = !(kFloats & Bit(y.dtype)) && y.rank() >= 0 && y.rank() <= 1 && n >= 0 && n <= 16;
  return small ? "arithmetic on shapes stays on the host" : "";
}

class Transpose final : public Mover {
 public:
  explicit Transpose(const ullage_kernel_info& info)
      : Mover(info), perm_(node_.Ints("perm")), kernel_(Program("strided")) {}
  void Compute(const Context& c) const override {
    const Tensor &x = *c.in(0), &y = *c.out(0);
    const auto dense = DenseOf(x);
    std::vector<int64_t> strides;
    for (int i = 0; i < x.rank; ++i)
      strides.push_back(dense[static_cast<size_t>(
          perm_.empty() ? x.rank - 1 - i : Axis(perm_.at(static_cast<size_t>(i)), x.rank))]);
    Strided(c, *kernel_, x, {strides, 0}, y, {DenseOf(y), 0}, ShapeOf(y));
  }

 private:
  std::vector<int64_t> perm_;
  KernelRef* kernel_;
};

class Expand final : public Mover {
 public:
  explicit Expand(const ullage_kernel_info& info) : Mover(info), kernel_(Program("strided")) {}
  void Compute(const Context& c) const override {
    const Tensor &x = *c.in(0), &y = *c.out(0);
    const auto shape = ShapeOf(y);
    Strided(c, *kernel_, x, {SpreadStrides(x, shape), 0}, y, {DenseOf(y), 0}, shape);
  }

 private:
  KernelRef* kernel_;
};

/// Slice of opset 10 and later: starts, ends, axes and steps lie on the host.
class Slice final : public Mover {
 public:
  explicit Slice(const ullage_kernel_info& info) : Mover(info), kernel_(Program("strided")) {}
  void Compute(const Context& c) const override {
    const Tensor &x = *c.in(0), &y = *c.out(0);
    const auto ints = [&](size_t i) { return c.in(i) ? c.in(i)->HostInts() : std::vector<int64_t>(); };
    const auto starts = ints(1), axes = ints(3), steps = ints(4);
    Place from{DenseOf(x), 0};
    for (size_t i = 0; i < starts.size(); ++i) {
      const auto axis =
          static_cast<size_t>(Axis(axes.empty() ? static_cast<int64_t>(i) : axes.at(i), x.rank));
      const int64_t n = x.dims[axis], step = steps.empty() ? 1 : steps.at(i);
      int64_t start = starts[i] < 0 ? starts[i] + n : starts[i];
      start = std::clamp<int64_t>(start, 0, step < 0 ? n - 1 : n);
      from.first += start * from.strides[axis];
      from.strides[axis] *= step;
    }
    Strided(c, *kernel_, x, from, y, {DenseOf(y), 0}, ShapeOf(y));
  }

 private:
  KernelRef* kernel_;
};

/// Concat and Split: blocks of rows between one tensor that has all and its parts.
class Parts final : public Mover {
 public:
  explicit Parts(const ullage_kernel_info& info) : Mover(info), kernel_(Program("rows")) {
    concat_ = node_.op() == "Concat";
    axis_ = node_.Int("axis", 0);
  }
  void Compute(const Context& c) const override {
    const Tensor& whole = concat_ ? *c.out(0) : *c.in(0);
    const int axis = Axis(axis_, whole.rank);
    const int64_t pitch = whole.elements(axis, whole.rank), outer = whole.elements(0, axis);
    int64_t first = 0;
    for (size_t i = 0; first < pitch; ++i) {
      const Tensor* part = concat_ ? c.in(i) : c.out(i);
      if (!part) {
        if (concat_ || i > 4096) break;
        node_.Unsupported("a part that is not wanted");
      }
      const int64_t row = part->elements(axis, part->rank), count = row * outer;
      if (count > 0)
        c.Start(*kernel_)
            .Add(concat_ ? *part : whole)
            .Add(concat_ ? whole : *part)
            .Value(Count(count))
            .Value(Count(row))
            .Long(concat_ ? row : pitch)
            .Long(concat_ ? pitch : row)
            .Long(concat_ ? 0 : first)
            .Long(concat_ ? first : 0)
            .RunOver(count);
      first += row;
      if (outer == 0) break;
    }
  }

 private:
  KernelRef* kernel_;
  bool concat_ = false;
  int64_t axis_ = 0;
};

std::string SplitRefusal(const Node& node) {
  for (size_t i = 0; i < node.facts().outputs.size(); ++i)
    if (!node.has_output(i)) return "parts that are not wanted";
  return OnShapes(node);
}

/// Reshape and its kind, where they are not done without a kernel; Identity; ullage:LastToken.
class Copy final : public Mover {
 public:
  explicit Copy(const ullage_kernel_info& info) : Mover(info), kernel_(Program("rows")) {
    last_ = node_.op() == "LastToken";
  }
  void Compute(const Context& c) const override {
    const Tensor &x = *c.in(0), &y = *c.out(0);
    const int64_t count = y.elements();
    if (count == 0 || (!last_ && x.buffer == y.buffer && x.offset == y.offset)) return;
    const int64_t row = last_ ? y.back() : count, pitch = last_ ? x[1] * x[2] : count;
    c.Start(*kernel_)
        .Add(x)
        .Add(y)
        .Value(Count(count))
        .Value(Count(row))
        .Long(pitch)
        .Long(row)
        .Long(pitch - row)
        .Long(0)
        .RunOver(count);
  }

 private:
  KernelRef* kernel_;
  bool last_ = false;
};

class Tile final : public Mover {
 public:
  explicit Tile(const ullage_kernel_info& info) : Mover(info), kernel_(Program("tile")) {}
  void Compute(const Context& c) const override {
    const Tensor &x = *c.in(0), &y = *c.out(0);
    if (y.elements() == 0) return;
    Dims dims, source;
    Strides strides;
    dims.rank = source.rank = x.rank;
    const auto dense = DenseOf(x);
    for (size_t i = 0; i < dense.size(); ++i) {
      dims.d[i] = Count(y.dims[i]);
      source.d[i] = Count(x.dims[i]);
      strides.s[i] = dense[i];
    }
    c.Start(*kernel_)
        .Add(x)
        .Add(y)
        .Value(Count(y.elements()))
        .Value(dims)
        .Value(source)
        .Value(strides)
        .RunOver(y.elements());
  }

 private:
  KernelRef* kernel_;
};

class Pad final : public Mover {
 public:
  explicit Pad(const ullage_kernel_info& info) : Mover(info), kernel_(Program("pad")) {
    const std::string mode = node_.Str("mode", "constant");
    mode_ = mode == "constant" ? 0 : mode == "reflect" ? 1 : mode == "edge" ? 2 : mode == "wrap" ? 3 : -1;
    if (mode_ < 0) node_.Unsupported("mode " + mode);
  }
  void Compute(const Context& c) const override {
    const Tensor &x = *c.in(0), &y = *c.out(0);
    if (y.elements() == 0) return;
    const auto pads = c.in(1)->HostInts();
    const auto axes = c.in(3) ? c.in(3)->HostInts() : std::vector<int64_t>();
    Dims dims, source;
    Strides strides, before;
    dims.rank = source.rank = x.rank;
    const auto dense = DenseOf(x);
    for (size_t i = 0; i < dense.size(); ++i) {
      dims.d[i] = Count(y.dims[i]);
      source.d[i] = Count(x.dims[i]);
      strides.s[i] = dense[i];
    }
    const size_t padded = pads.size() / 2;
    for (size_t i = 0; i < padded; ++i) {
      const int axis = Axis(axes.empty() ? static_cast<int64_t>(i) : axes.at(i), x.rank);
      before.s[static_cast<size_t>(axis)] = pads[i];
    }
    c.Start(*kernel_)
        .Add(x)
        .Add(y)
        .Add(c.in(2))
        .Value(Count(y.elements()))
        .Value(dims)
        .Value(source)
        .Value(strides)
        .Value(before)
        .Int(mode_)
        .Int(c.in(2) ? 1 : 0)
        .RunOver(y.elements());
  }

 private:
  KernelRef* kernel_;
  int mode_ = 0;
};

/// The shape lies on the host, what is filled on the device.
class ConstantOfShape final : public Mover {
 public:
  explicit ConstantOfShape(const ullage_kernel_info& info) : Mover(info), kernel_(Program("fill")) {
    node_.Scalar("value", &bits_);
  }
  void Compute(const Context& c) const override {
    const Tensor& y = *c.out(0);
    c.Start(*kernel_).Add(y).Value(Count(y.elements())).Value<uint64_t>(bits_).RunOver(y.elements());
  }

 private:
  KernelRef* kernel_;
  uint64_t bits_ = 0;
};

class Trilu final : public Mover {
 public:
  explicit Trilu(const ullage_kernel_info& info) : Mover(info), kernel_(Program("trilu")) {
    upper_ = node_.Int("upper", 1) != 0;
  }
  void Compute(const Context& c) const override {
    const Tensor &x = *c.in(0), &y = *c.out(0);
    const int64_t k = c.in(1) ? c.in(1)->HostInts().at(0) : 0;
    if (y.elements() == 0) return;
    c.Start(*kernel_)
        .Add(x)
        .Add(y)
        .Value(Count(y.elements()))
        .Value(Count(x.back(2)))
        .Value(Count(x.back(1)))
        .Long(k)
        .Int(upper_ ? 1 : 0)
        .RunOver(y.elements());
  }

 private:
  KernelRef* kernel_;
  bool upper_ = true;
};

double Number(const Tensor& t) {
  if (t.dtype == kFloat) return *static_cast<const float*>(t.pointer);
  if (t.dtype == kDouble) return *static_cast<const double*>(t.pointer);
  return static_cast<double>(t.HostInts().at(0));
}

/// Ends lie on the host; the numbers on the device.
class Range final : public Op {
 public:
  explicit Range(const ullage_kernel_info& info) : Op(info) {
    kernel_ = &Use("range.cl", Define("T", TypeCode(node_.facts().out(0).dtype)), "range");
  }
  void Compute(const Context& c) const override {
    const Tensor& y = *c.out(0);
    const bool floats = y.dtype == kFloat;
    c.Start(*kernel_)
        .Add(y)
        .Value(Count(y.elements()))
        .Float(floats ? static_cast<float>(Number(*c.in(0))) : 0)
        .Float(floats ? static_cast<float>(Number(*c.in(2))) : 0)
        .Long(floats ? 0 : c.in(0)->HostInts().at(0))
        .Long(floats ? 0 : c.in(2)->HostInts().at(0))
        .RunOver(y.elements());
  }

 private:
  KernelRef* kernel_;
};

/// Sizes of a tensor on the device, written to the host: nothing is copied for them.
class ShapeOfTensor final : public Op {
 public:
  explicit ShapeOfTensor(const ullage_kernel_info& info) : Op(info) {
    size_ = node_.op() == "Size";
    start_ = node_.Int("start", 0);
    end_ = node_.Int("end", INT32_MAX);
  }
  void Compute(const Context& c) const override {
    const Tensor &x = *c.in(0), &y = *c.out(0);
    auto* out = static_cast<int64_t*>(y.pointer);
    if (!out) return;
    if (size_) {
      *out = x.elements();
      return;
    }
    const auto end = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + x.rank : at, 0, x.rank); };
    for (int64_t i = end(start_); i < end(end_); ++i) *out++ = x[static_cast<int>(i)];
  }

 private:
  bool size_ = false;
  int64_t start_ = 0, end_ = 0;
};

}  // namespace

void AddMovement(std::vector<OpEntry>& ops) {
  const auto add = [&](const char* domain, const char* name, MakeOp make, int32_t since = 1,
                       std::string(*refuse)(const Node&) = nullptr) -> OpEntry& {
    OpEntry e;
    e.domain = domain;
    e.op = name;
    e.types = {kMovable};
    e.make = make;
    e.since = since;
    e.refuse = refuse;
    ops.push_back(e);
    return ops.back();
  };
  constexpr auto kHost = ULLAGE_SPACE_HOST;
  constexpr auto kDevice = ULLAGE_SPACE_DEVICE;
  add("", "Transpose", Make<Transpose>, 1, OnShapes);
  add("", "Expand", Make<Expand>).input_spaces = {kDevice, kHost};
  add("", "Slice", Make<Slice>, 10, OnShapes).input_spaces = {kDevice, kHost, kHost, kHost, kHost};
  add("", "Concat", Make<Parts>, 4, OnShapes);
  add("", "Split", Make<Parts>, 2, SplitRefusal).input_spaces = {kDevice, kHost};
  for (const char* name : {"Reshape", "Squeeze", "Unsqueeze"})
    add("", name, Make<Copy>, 1, OnShapes).input_spaces = {kDevice, kHost};
  for (const char* name : {"Flatten", "Identity"}) add("", name, Make<Copy>, 1, OnShapes);
  add(kUllage, "LastToken", Make<Copy>);
  add("", "Tile", Make<Tile>, 6, OnShapes).input_spaces = {kDevice, kHost};
  add("", "Pad", Make<Pad>, 11, OnShapes).input_spaces = {kDevice, kHost, kDevice, kHost};
  add("", "Trilu", Make<Trilu>, 14).input_spaces = {kDevice, kHost};
  OpEntry& constant = add("", "ConstantOfShape", Make<ConstantOfShape>, 9, MadeShapes);
  constant.types = {Bit(kInt64)};
  constant.input_spaces = {kHost};
  OpEntry& range = add("", "Range", Make<Range>, 11, MadeShapes);
  range.types = {Bit(kFloat) | Bit(kInt64) | Bit(kInt32)};
  range.input_spaces = {kHost, kHost, kHost};
  for (const char* name : {"Shape", "Size"}) {
    OpEntry& e = add("", name, Make<ShapeOfTensor>);
    e.types = {kAnyType};
    e.output_spaces = {kHost};
  }
}

}  // namespace ullage_opencl
