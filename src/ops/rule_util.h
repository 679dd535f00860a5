/// Helpers that rules share. Internal to ops. Nothing here allocates.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "ops/catalogue.h"

namespace ullage::ops {

/// Inputs of an operator as a bit mask: Bits(0, 2).
template <class... I>
constexpr uint32_t Bits(I... i) {
  return ((1u << i) | ... | 0u);
}

/// True when the node is of that opset or newer; opset 0 is the newest.
inline bool SinceOpset(const ShapeContext& c, int opset) {
  return c.node().opset == 0 || c.node().opset >= opset;
}

/// Output 0 (or `o`) has the shape of input i.
void SameShape(ShapeContext& c, int i = 0, int o = 0);
/// Output 0 has shape and type of input 0.
void SameAsInput(ShapeContext& c);
/// As SameAsInput, and element contents pass through unchanged.
void PassThrough(ShapeContext& c);

/// Fails unless inputs a and b have the same element type (unknown types pass).
void CheckSameType(const ShapeContext& c, int a, int b);
/// Fails when the rank is known and not this.
void CheckRank(const ShapeContext& c, int input, int rank);
void CheckRankAtLeast(const ShapeContext& c, int input, int rank);
/// Fails when the two numbers certainly differ.
void CheckEqual(const ShapeContext& c, const Bound& a, const Bound& b, std::string_view what);
/// Fails when a constant-sized input certainly has another number of elements.
void CheckElements(const ShapeContext& c, int input, int64_t elements);
/// A dimension that a formula gave: fails when it is certainly negative, lifts the lower end to 0.
Bound CheckedDim(const ShapeContext& c, const Bound& dim);
/// What is certain about one number from two sides; the statement with an expression wins.
Bound Both(const Bound& a, const Bound& b);
/// The two are equal in every valid run.
Bound Equated(const ShapeContext& c, const Bound& a, const Bound& b, std::string_view what);

/// numpy broadcasting. Fails where dimensions certainly do not match.
Bound BroadcastDim(const ShapeContext& c, const Bound& a, const Bound& b);
BoundedShape Broadcast(const ShapeContext& c, const BoundedShape& a, const BoundedShape& b);

/// Known integer contents of input i: number of elements, or -1 when unknown. All must be exact.
int ExactInts(const ShapeContext& c, int i, std::span<int64_t> out);
/// The only element of input i: its bound, or Anything() when unknown.
Bound ScalarValue(const ShapeContext& c, int i);

/// Axes of an operator as bits of a mask.
struct Axes {
  enum Kind { kAbsent, kKnown, kUnknown } kind = kAbsent;
  uint32_t mask = 0;
  int count = -1;  ///< number of axes; -1: unknown
  /// In the order given; valid when known.
  std::array<int, kMaxRank> order{};
};
/// From an attribute or an input; fails on axes out of range or named twice.
Axes AxesFromList(const ShapeContext& c, std::span<const int64_t> list, int rank);
Axes AxesFromAttr(const ShapeContext& c, std::string_view key, int rank);
Axes AxesFromInput(const ShapeContext& c, int input, int rank);

/// Smallest shape bounds that contain both.
BoundedShape UnionOf(const BoundMath& math, const BoundedShape& a, const BoundedShape& b);

/// A rank-known shape with every dimension in [0, unbounded).
BoundedShape AnyDims(int rank);

/// Keeps a value within its integer type: what would wrap becomes "anything of the type". False for
/// floating-point types that cannot hold it exactly.
bool FitValue(DType dtype, Bound& value);
/// Sets contents where the caller wants them, the output's shape is exact and every element fits `dtype`.
void OfferValues(ShapeContext& c, int o, DType dtype, BoundedValues values);

/// Number of elements of an exact shape when they are few enough for BoundedValues, else -1.
int SmallCount(const BoundedShape& s);
/// Coordinates in a row-major tensor of exact shape, and back.
using Coordinates = std::array<int64_t, kMaxRank>;
Coordinates CoordinatesOf(const BoundedShape& s, int flat);
int FlatOf(const BoundedShape& s, const Coordinates& at);

using Registry = std::vector<OpInfo>;

}  // namespace ullage::ops
