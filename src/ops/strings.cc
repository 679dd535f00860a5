#include "ops/families.h"

namespace ullage::ops {
namespace {

// X [C] or [1, C] -> what is left of the words, at least one (empty) word.
void StringNormalizer(ShapeContext& c) {
  BoundedShape out = c.shape(0);
  if (out.known_rank()) {
    if (out.rank != 1 && out.rank != 2) c.Fail("an input of shape ", out.ToString());
    Bound& last = out[out.rank - 1];
    last = c.Fresh(1, std::max<int64_t>(last.upper, 1));
    out.max_elements = kUnbounded;
  }
  c.Set(0, DType::kString, out);
}

void StringConcat(ShapeContext& c) {
  c.Set(0, DType::kString, Broadcast(c, c.shape(0), c.shape(1)));
}

// X -> parts [X.., n], counts like X. How many parts there are depends on the text.
void StringSplit(ShapeContext& c) {
  BoundedShape out = c.shape(0);
  out.max_elements = kUnbounded;
  if (out.known_rank())
    out.push_back(c.Fresh(0, c.node().has_attr("maxsplit")
                                 ? std::max<int64_t>(c.node().Int("maxsplit", 0), 0) + 1
                                 : kUnbounded));
  c.Set(0, DType::kString, out);
  if (c.wants(1)) c.Set(1, DType::kInt64, c.shape(0));
}

void RegexFullMatch(ShapeContext& c) {
  c.Set(0, DType::kBool, c.shape(0));
}

// X [C] or [N, C] -> [D] or [N, D], D one more than the largest n-gram index.
void TfIdfVectorizer(ShapeContext& c) {
  const auto indices = c.node().IntsView("ngram_indexes");
  int64_t largest = -1;
  for (int64_t i : indices) largest = std::max(largest, i);
  if (largest < 0 || largest > INT32_MAX) c.Fail("attribute ngram_indexes gives a width of ", largest);
  BoundedShape out = c.shape(0);
  out.max_elements = kUnbounded;
  if (out.known_rank()) {
    if (out.rank != 1 && out.rank != 2) c.Fail("an input of shape ", out.ToString());
    out[out.rank - 1] = Bound::Exactly(largest + 1);
  }
  c.Set(0, DType::kFloat, out);
}

// Encoded image -> [H, W, channels]
void ImageDecoder(ShapeContext& c) {
  CheckRank(c, 0, 1);
  const Bound channels = Bound::Exactly(c.node().StrView("pixel_format", "RGB") == "Grayscale" ? 1 : 3);
  c.Set(0, DType::kUInt8, BoundedShape::OfDims({c.Fresh(0, kUnbounded), c.Fresh(0, kUnbounded), channels}));
}

// keys and values are attributes; the values' names the result's type.
void LabelEncoder(ShapeContext& c) {
  const graph::Node& n = c.node();
  DType type = DType::kUndefined;
  if (n.has_attr("values_tensor")) {
    type = n.Tensor("values_tensor")->dtype;
  } else if (n.has_attr("values_int64s")) {
    type = DType::kInt64;
  } else if (n.has_attr("values_floats")) {
    type = DType::kFloat;
  } else if (n.has_attr("values_strings")) {
    type = DType::kString;
  } else {  // version 1: between strings and their positions
    type = c.dtype(0) == DType::kString ? DType::kInt64 : DType::kString;
  }
  c.Set(0, type, c.shape(0));
}

void FloatLike(ShapeContext& c) {
  c.Set(0, DType::kFloat, c.shape(0));
}

// X, indices -> the last axis picked; a vector of indices for a vector gives [1, n].
void ArrayFeatureExtractor(ShapeContext& c) {
  BoundedShape out = c.shape(0);
  out.max_elements = kUnbounded;
  const Bound n = c.shape(1).Elements(c.math());
  if (out.known_rank()) {
    CheckRankAtLeast(c, 0, 1);
    if (out.rank == 1) {
      out = BoundedShape::OfDims({Bound::Exactly(1), n});
    } else {
      out[out.rank - 1] = n;
    }
  }
  c.Set(0, c.dtype(0), out);
}

// X [N, F] -> labels [N], scores [N, classes]
void TreeClassifier(ShapeContext& c) {
  const graph::Node& n = c.node();
  const bool strings = n.has_attr("classlabels_strings");
  int64_t classes = static_cast<int64_t>(n.IntsView("classlabels_int64s").size());
  if (classes == 0) classes = static_cast<int64_t>(n.IntsView("classlabels_ints").size());
  Bound rows;
  if (c.shape(0).known_rank()) {
    if (c.shape(0).rank != 1 && c.shape(0).rank != 2) c.Fail("an input of shape ", c.shape(0).ToString());
    rows = c.shape(0).rank == 2 ? c.shape(0)[0] : Bound::Exactly(1);
  }
  c.Set(0, strings ? DType::kString : DType::kInt64, BoundedShape::OfDims({rows}));
  if (c.wants(1))
    c.Set(1, DType::kFloat,
          BoundedShape::OfDims(
              {rows, strings || classes == 0 ? Bound() : Bound::Exactly(std::max<int64_t>(classes, 2))}));
}

// X [N, F] -> [N, targets]
void Regressor(ShapeContext& c) {
  Bound rows;
  if (c.shape(0).known_rank()) {
    if (c.shape(0).rank != 1 && c.shape(0).rank != 2) c.Fail("an input of shape ", c.shape(0).ToString());
    rows = c.shape(0).rank == 2 ? c.shape(0)[0] : Bound::Exactly(1);
  }
  const int64_t targets = c.node().Int(c.node().op == "LinearRegressor" ? "targets" : "n_targets", 1);
  c.Set(0, c.node().op == "TreeEnsemble" ? c.dtype(0) : DType::kFloat,
        BoundedShape::OfDims({rows, CheckedDim(c, Bound::Exactly(targets))}));
}

}  // namespace

void RegisterStrings(Registry& ops) {
  ops.push_back({.name = "StringNormalizer", .since = 10, .rule = StringNormalizer});
  ops.push_back(
      {.name = "StringConcat", .since = 20, .min_inputs = 2, .max_inputs = 2, .rule = StringConcat});
  ops.push_back({.name = "StringSplit", .since = 20, .max_outputs = 2, .rule = StringSplit});
  ops.push_back({.name = "RegexFullMatch", .since = 20, .rule = RegexFullMatch});
  ops.push_back({.name = "TfIdfVectorizer", .since = 9, .rule = TfIdfVectorizer});
  ops.push_back({.name = "ImageDecoder", .since = 20, .rule = ImageDecoder});
  const std::string_view ml = "ai.onnx.ml";
  ops.push_back({.domain = ml, .name = "LabelEncoder", .rule = LabelEncoder});
  ops.push_back({.domain = ml, .name = "Binarizer", .rule = SameAsInput, .in_place = Bits(0)});
  ops.push_back({.domain = ml, .name = "Scaler", .rule = FloatLike});
  ops.push_back({.domain = ml, .name = "Normalizer", .rule = FloatLike});
  ops.push_back({.domain = ml, .name = "Imputer", .rule = SameAsInput});
  ops.push_back({.domain = ml,
                 .name = "ArrayFeatureExtractor",
                 .min_inputs = 2,
                 .max_inputs = 2,
                 .rule = ArrayFeatureExtractor});
  ops.push_back({.domain = ml, .name = "TreeEnsembleClassifier", .max_outputs = 2, .rule = TreeClassifier});
  ops.push_back({.domain = ml, .name = "LinearClassifier", .max_outputs = 2, .rule = TreeClassifier});
  ops.push_back({.domain = ml, .name = "TreeEnsembleRegressor", .rule = Regressor});
  ops.push_back({.domain = ml, .name = "LinearRegressor", .rule = Regressor});
  ops.push_back({.domain = ml, .name = "TreeEnsemble", .since = 5, .rule = Regressor});
}

}  // namespace ullage::ops
