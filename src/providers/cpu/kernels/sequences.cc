/// Sequences and optionals: every result is a copy in memory of its own (kernels/sequence.h).
#include <cstring>

#include "core/error.h"
#include "kernels/sequence.h"
#include "providers/cpu/kernels/copy.h"
#include "providers/cpu/kernels/value_families.h"

namespace ullage::cpu {
namespace {

using graph::TypeKind;
using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;
using kernels::Sequence;

constexpr kernels::TypeSet kElements =
    kernels::kNumbersAndBool | kernels::TypeSet{DType::kComplex64, DType::kComplex128};

int64_t IntOf(const TensorView& view, int64_t i) {
  if (view.dtype != DType::kInt32) return view.as<int64_t>()[i];
  return view.as<int32_t>()[i];
}

/// A position that may count from the end; `count` + `past` positions are there.
int64_t Position(const TensorView& view, int64_t count, int64_t past) {
  const int64_t given = IntOf(view, 0), at = given < 0 ? given + count : given;
  if (at < 0 || at >= count + past)
    Throw(Code::kInvalidInput, "position ", given, " lies outside of a sequence of ", count, " elements");
  return at;
}

void CopyAll(const TensorView& from, const TensorView& to) {
  if (to.bytes() > 0) std::memcpy(to.data, from.data, to.bytes());
}

class Construct final : public Kernel {
 public:
  explicit Construct(const KernelInfo& info) : count_(static_cast<int>(info.node.inputs.size())) {}
  void Compute(KernelContext& c) const override {
    Sequence out(*c.output(0));
    out.Clear();
    for (int i = 0; i < count_; ++i) out.Append(*c.input(i));
  }

 private:
  int count_;
};

class Empty final : public Kernel {
 public:
  explicit Empty(const KernelInfo&) {}
  void Compute(KernelContext& c) const override { Sequence(*c.output(0)).Clear(); }
};

class Insert final : public Kernel {
 public:
  explicit Insert(const KernelInfo&) {}
  void Compute(KernelContext& c) const override {
    const Sequence in(*c.input(0));
    const int64_t at = c.input(2) ? Position(*c.input(2), in.size(), 1) : in.size();
    Sequence out(*c.output(0));
    out.Clear();
    out.Append(in, 0, at);
    out.Append(*c.input(1));
    out.Append(in, at, in.size());
  }
};

class Erase final : public Kernel {
 public:
  explicit Erase(const KernelInfo&) {}
  void Compute(KernelContext& c) const override {
    const Sequence in(*c.input(0));
    const int64_t at = c.input(1) ? Position(*c.input(1), in.size(), 0) : in.size() - 1;
    Sequence out(*c.output(0));
    out.Clear();
    out.Append(in, 0, at);
    out.Append(in, at + 1, in.size());
  }
};

class At final : public Kernel {
 public:
  explicit At(const KernelInfo&) {}
  void Compute(KernelContext& c) const override {
    const Sequence in(*c.input(0));
    CopyAll(in.at(Position(*c.input(1), in.size(), 0)), *c.output(0));
  }
};

class Length final : public Kernel {
 public:
  explicit Length(const KernelInfo&) {}
  void Compute(KernelContext& c) const override {
    c.output(0)->as<int64_t>()[0] = Sequence(*c.input(0)).size();
  }
};

class Split final : public Kernel {
 public:
  explicit Split(const KernelInfo& info)
      : axis_(info.node.Int("axis", 0)), keep_(info.node.Int("keepdims", 1) != 0) {}
  void Compute(KernelContext& c) const override {
    const TensorView &in = *c.input(0), *sizes = c.input(1);
    const int axis = static_cast<int>(axis_ < 0 ? axis_ + in.shape.rank() : axis_);
    const int64_t length = in.shape[axis], outer = in.shape.elements(0, axis);
    const size_t inner = BytesOf(in.dtype, in.shape.elements(axis + 1, in.shape.rank()));
    const bool drop = !sizes && !keep_;
    Sequence out(*c.output(0));
    out.Clear();
    const bool by_list = sizes && sizes->shape.rank() == 1;
    for (int64_t at = 0, k = 0; by_list ? k < sizes->elements() : at < length; ++k) {
      const int64_t wanted = sizes ? IntOf(*sizes, by_list ? k : 0) : 1;
      if (wanted < 0 || (wanted == 0 && !by_list) || (by_list && wanted > length - at))
        Throw(Code::kInvalidInput, "a part of ", wanted, " at ", at, " of ", length, " along axis ", axis);
      const int64_t part = std::min(wanted, length - at);
      Shape shape;
      for (int d = 0; d < in.shape.rank(); ++d)
        if (d != axis)
          shape.push_back(in.shape[d]);
        else if (!drop)
          shape.push_back(part);
      const TensorView element = out.Add(shape);
      const size_t row = static_cast<size_t>(part) * inner;
      if (row > 0)
        for (int64_t o = 0; o < outer; ++o)
          std::memcpy(static_cast<std::byte*>(element.data) + static_cast<size_t>(o) * row,
                      in.as<std::byte>() + static_cast<size_t>(o * length + at) * inner, row);
      at += part;
    }
  }

 private:
  int64_t axis_;
  bool keep_;
};

class Join final : public Kernel {
 public:
  explicit Join(const KernelInfo& info)
      : axis_(info.node.RequiredInt("axis")), fresh_(info.node.Int("new_axis", 0) != 0) {}
  void Compute(KernelContext& c) const override {
    const Sequence in(*c.input(0));
    if (in.size() == 0) Throw(Code::kInvalidInput, "there is nothing to join in an empty sequence");
    const Shape first = in.at(0).shape;
    const int rank = first.rank() + fresh_;
    const int axis = static_cast<int>(axis_ < 0 ? axis_ + rank : axis_);
    int64_t total = 0;
    for (int64_t k = 0; k < in.size(); ++k) {
      const Shape shape = in.at(k).shape;
      bool fits = shape.rank() == first.rank();
      for (int d = 0; fits && d < shape.rank(); ++d) fits = shape[d] == first[d] || (!fresh_ && d == axis);
      if (!fits)
        Throw(Code::kInvalidInput, "element ", k, " has shape ", shape.ToString(), ", the first ",
              first.ToString(), "; they are joined along axis ", axis);
      total += fresh_ ? 1 : shape[axis];
    }
    Shape result;
    for (int d = 0, k = 0; d < rank; ++d) {
      result.push_back(d == axis ? total : first[k]);
      if (d != axis || !fresh_) ++k;
    }
    c.SetOutputShape(0, result);
    TensorView& out = *c.output(0);
    const int64_t outer = result.elements(0, axis);
    const size_t inner = BytesOf(out.dtype, result.elements(axis + 1, rank));
    const size_t step = static_cast<size_t>(total) * inner;
    std::byte* to = out.as<std::byte>();
    for (int64_t k = 0; k < in.size(); ++k) {
      const TensorView element = in.at(k);
      const size_t row = static_cast<size_t>(fresh_ ? 1 : element.shape[axis]) * inner;
      if (row > 0)
        for (int64_t o = 0; o < outer; ++o)
          std::memcpy(to + static_cast<size_t>(o) * step,
                      element.as<std::byte>() + static_cast<size_t>(o) * row, row);
      to += row;
    }
  }

 private:
  int64_t axis_;
  bool fresh_;
};

bool IsTensor(const KernelInfo& info) {
  return info.inputs.empty() || info.inputs[0].kind == TypeKind::kTensor;
}

class MakeOptional final : public Kernel {
 public:
  explicit MakeOptional(const KernelInfo& info) : tensor_(IsTensor(info)) {}
  void Compute(KernelContext& c) const override {
    Sequence out(*c.output(0));
    out.Clear();
    out.set_present(c.input(0) != nullptr);
    if (!c.input(0)) return;
    if (tensor_)
      out.Append(*c.input(0));
    else
      out.Append(Sequence(*c.input(0)), 0, Sequence(*c.input(0)).size());
  }

 private:
  bool tensor_;
};

class GetElement final : public Kernel {
 public:
  explicit GetElement(const KernelInfo& info) : kind_(info.inputs[0].kind) {}
  void Compute(KernelContext& c) const override {
    if (kind_ == TypeKind::kTensor) return CopyAll(*c.input(0), *c.output(0));
    const Sequence in(*c.input(0));
    if (!in.present() || (kind_ == TypeKind::kOptional && in.size() == 0))
      Throw(Code::kInvalidInput, "the optional is empty");
    if (kind_ == TypeKind::kOptional) return CopyAll(in.at(0), *c.output(0));
    Sequence out(*c.output(0));
    out.Clear();
    out.Append(in, 0, in.size());
  }

 private:
  TypeKind kind_;
};

class HasElement final : public Kernel {
 public:
  explicit HasElement(const KernelInfo& info)
      : kind_(info.inputs.empty() ? TypeKind::kTensor : info.inputs[0].kind) {}
  void Compute(KernelContext& c) const override {
    const bool optional = kind_ == TypeKind::kOptional || kind_ == TypeKind::kOptionalSequence;
    bool has = c.input(0) != nullptr;
    if (has && optional) {
      const Sequence in(*c.input(0));
      has = in.present() && (kind_ == TypeKind::kOptionalSequence || in.size() > 0);
    }
    c.output(0)->as<uint8_t>()[0] = has;
  }

 private:
  TypeKind kind_;
};

template <class K>
std::unique_ptr<Kernel> Make(const KernelInfo& info) {
  return std::make_unique<K>(info);
}

}  // namespace

void RegisterSequences(kernels::Registry& registry) {
  const auto add = [&](std::string_view op, std::unique_ptr<Kernel> (*create)(const KernelInfo&)) {
    kernels::KernelDef def;
    def.op = op;
    def.types = {kElements};
    def.create = create;
    registry.Add(std::move(def));
  };
  add("SequenceConstruct", Make<Construct>);
  add("SequenceEmpty", Make<Empty>);
  add("SequenceInsert", Make<Insert>);
  add("SequenceErase", Make<Erase>);
  add("SequenceAt", Make<At>);
  add("SequenceLength", Make<Length>);
  add("SplitToSequence", Make<Split>);
  add("ConcatFromSequence", Make<Join>);
  add("Optional", Make<MakeOptional>);
  add("OptionalGetElement", Make<GetElement>);
  add("OptionalHasElement", Make<HasElement>);
}

}  // namespace ullage::cpu
