// Rules against ONNX Runtime's results (tests/ops/shape_vectors*.jsonl, made by
// tests/ops/make_shape_vectors.py): exact inputs give exactly its shapes; inputs within random bounds give
// bounds that contain them; exact calls allocate nothing.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <new>
#include <random>
#include <set>
#include <sstream>

#include <nlohmann/json.hpp>

#include "ops/test_context.h"

namespace {
std::atomic<int64_t> g_allocations{0};
}

// The count is the test; the replaced pair is malloc and free.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
void* operator new(size_t size) {
  ++g_allocations;
  if (void* p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept {
  std::free(p);
}
void operator delete(void* p, size_t) noexcept {
  std::free(p);
}

namespace ullage::ops {
namespace {

using graph::Graph;
using graph::Node;
using nlohmann::json;

struct Call {
  std::string text;
  json line;
  Graph graph;
  const Node* node = nullptr;
};

graph::Attribute AttributeOf(const json& a) {
  if (a.is_object()) {
    const auto& t = a["t"];
    Shape shape(t[1].get<std::vector<int64_t>>());
    if (t[0] == 1) return graph::MakeFloats(shape, t[2].get<std::vector<float>>());
    return graph::MakeInts(shape, t[2].get<std::vector<int64_t>>(), DTypeFromOnnx(t[0].get<int32_t>()));
  }
  if (a.is_string()) return a.get<std::string>();
  if (a.is_number_float()) return a.get<float>();
  if (a.is_number_integer()) return a.get<int64_t>();
  if (!a.empty() && a[0].is_number_float()) return a.get<std::vector<float>>();
  return a.get<std::vector<int64_t>>();
}

std::vector<std::unique_ptr<Call>> Calls() {
  std::vector<std::unique_ptr<Call>> calls;
  std::stringstream lines;
  for (const char* name : {"shape_vectors.jsonl", "shape_vectors_more.jsonl"}) {
    std::ifstream file(std::string(ULLAGE_SOURCE_DIR) + "/tests/ops/" + name);
    EXPECT_TRUE(file) << name;
    lines << file.rdbuf();
  }
  std::string text;
  while (std::getline(lines, text)) {
    auto call = std::make_unique<Call>();
    call->text = text;
    call->line = json::parse(text);
    const json& l = call->line;
    const std::string domain = l.value("d", "");
    call->graph.opsets[domain] = l["v"];
    std::vector<graph::ValueId> inputs, outputs;
    for (const auto& i : l["i"])
      inputs.push_back(i.is_null() ? graph::kNone
                                   : call->graph.AddInput("x", DTypeFromOnnx(i[0]), std::nullopt));
    for (const auto& r : l["r"]) outputs.push_back(r.is_null() ? graph::kNone : call->graph.AddValue("y"));
    Node& node = call->graph.AddNode(domain, l["o"].get<std::string>(), "n", inputs, outputs);
    const json attributes = l.value("a", json::object());
    for (const auto& [key, value] : attributes.items()) node.attributes[key] = AttributeOf(value);
    call->node = &node;
    calls.push_back(std::move(call));
  }
  return calls;
}

const std::vector<std::unique_ptr<Call>>& AllCalls() {
  static const auto calls = Calls();
  return calls;
}

bool HoldsIntegers(int dtype) {
  return dtype != 1 && dtype != 10 && dtype != 11;
}

Shape ShapeOfJson(const json& t) {
  return Shape(t[1].get<std::vector<int64_t>>());
}

void GiveExact(TestContext& c, const Call& call) {
  for (size_t i = 0; i < call.line["i"].size(); ++i) {
    const json& t = call.line["i"][i];
    if (t.is_null()) continue;
    c.Input(static_cast<int>(i), DTypeFromOnnx(t[0]), BoundedShape::Of(ShapeOfJson(t)));
    if (t.size() < 3) continue;
    if (!HoldsIntegers(t[0])) {
      c.InputDoubles(static_cast<int>(i), t[2].get<std::vector<double>>());
    } else if (t[2].size() <= BoundedValues::kMax) {
      BoundedValues v;
      for (int64_t n : t[2].get<std::vector<int64_t>>()) v[v.count++] = Bound::Exactly(n);
      c.InputValues(static_cast<int>(i), v);
    }
  }
}

// Sizes that only the contents of a tensor decide, which these calls do not give.
bool DataDependent(const Call& call) {
  const std::string op = call.line["o"];
  const bool given = !call.line["i"].empty() && call.line["i"][0].is_array() && call.line["i"][0].size() > 2;
  return op == "Compress" || op == "Unique" || op == "NonMaxSuppression" || (op == "NonZero" && !given);
}

TEST(Vectors, ExactInputsGiveTheExactResult) {
  ASSERT_GT(AllCalls().size(), 7000u);
  std::set<std::string> operators;
  int values_checked = 0;
  for (const auto& call : AllCalls()) {
    SCOPED_TRACE(call->text);
    operators.insert(call->node->OpName());
    TestContext c(*call->node);
    GiveExact(c, *call);
    try {
      ApplyRule(c);
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
      continue;
    }
    for (size_t o = 0; o < call->line["r"].size(); ++o) {
      const json& r = call->line["r"][o];
      if (r.is_null()) continue;
      const int k = static_cast<int>(o);
      ASSERT_TRUE(c.is_set(k));
      EXPECT_EQ(static_cast<int>(c.out_dtype(k)), r[0].get<int>());
      const Shape shape = ShapeOfJson(r);
      if (DataDependent(*call)) {
        EXPECT_TRUE(c.out_shape(k).Contains(shape)) << c.out_shape(k).ToString();
      } else if (c.out_shape(k).exact()) {
        EXPECT_EQ(c.out_shape(k).ToShape().ToString(), shape.ToString());
      } else {
        ADD_FAILURE() << "not exact: " << c.out_shape(k).ToString();
      }
      const BoundedValues* v = c.out_values(k);
      if (v == nullptr || r.size() < 3) continue;
      ASSERT_EQ(static_cast<size_t>(v->count), r[2].size());
      for (int i = 0; i < v->count; ++i) {
        const int64_t n = r[2][static_cast<size_t>(i)];
        EXPECT_LE((*v)[i].lower, n);
        EXPECT_GE((*v)[i].upper, n);
        values_checked += (*v)[i].exact();
      }
    }
  }
  EXPECT_GT(operators.size(), 130u);
  EXPECT_GT(values_checked, 2000);
  std::cout << operators.size() << " operators, " << AllCalls().size() << " calls, " << values_checked
            << " exact contents\n";
}

TEST(Vectors, ExactCallsAllocateNothing) {
  std::map<std::string, int64_t> allocating;
  for (const auto& call : AllCalls()) {
    TestContext c(*call->node, nullptr, /*at_run_time=*/true);
    GiveExact(c, *call);
    const int64_t before = g_allocations.load();
    try {
      ApplyRule(c);
    } catch (const Error&) {
      continue;  // reported by the test above
    }
    const int64_t made = g_allocations.load() - before;
    if (made) allocating[call->node->OpName()] += made;
  }
  for (const auto& [op, count] : allocating) ADD_FAILURE() << op << " allocated " << count << " times";
}

// A symbol, or an expression over one, of which the value is `n`; remembers what pins it.
class Widener {
 public:
  Widener(SymbolTable& table, std::mt19937& random) : table_(table), random_(random) {}

  Bound Dim(int64_t n) {
    switch (random_() % 8) {
      case 0:
      case 1:
        return Bound::Exactly(n);
      case 2:
        return Bound::Between(Low(n), High(n));
      case 3:
        return Bound::Between(Low(n), kUnbounded);
      case 4:
        if (n > 0) return table_.BoundOf(table_.AddExpr(Symbol(n - 1), Bound::Exactly(1)));
        return Symbol(n);
      case 5:
        if (n % 2 == 0) return table_.BoundOf(table_.MulExpr(Symbol(n / 2), Bound::Exactly(2)));
        return Symbol(n);
      default:
        return Symbol(n);
    }
  }
  Bound Value(int64_t n, bool boolean) {
    const auto kind = random_() % 6;
    if (boolean) return kind < 3 ? Bound::Exactly(n) : Bound::Between(0, 1);
    if (kind < 3) return Bound::Exactly(n);
    if (n > (int64_t{1} << 40) || n < -(int64_t{1} << 40)) return Bound::Exactly(n);
    if (kind == 3 && n >= 0) return Symbol(n);
    if (kind == 4)
      return Bound::Between(n - static_cast<int64_t>(random_() % 4), n + static_cast<int64_t>(random_() % 4));
    return random_() % 2 ? Bound::Anything() : Bound::Between(n - 1, n + 2);
  }
  /// All symbols become what they stand for: expressions can then be evaluated.
  void Pin() {
    for (const auto& [name, n] : symbols_) table_.Symbol(name, n, n);
  }

 private:
  int64_t Low(int64_t n) { return std::max<int64_t>(0, n - static_cast<int64_t>(random_() % 4)); }
  int64_t High(int64_t n) { return n + static_cast<int64_t>(random_() % 6); }
  Bound Symbol(int64_t n) {
    // Equal sizes are the same symbol sometimes.
    for (const auto& [name, value] : symbols_)
      if (value == n && random_() % 2) return table_.Symbol(name, 0, kUnbounded);
    const std::string name = "s" + std::to_string(symbols_.size());
    symbols_[name] = n;
    return table_.Symbol(name, Low(n), random_() % 6 == 0 ? kUnbounded : High(n));
  }

  SymbolTable& table_;
  std::mt19937& random_;
  std::map<std::string, int64_t> symbols_;
};

void CheckWithin(const SymbolTable& table, const Bound& b, int64_t n, const char* what) {
  EXPECT_LE(b.lower, n) << what;
  EXPECT_GE(b.upper, n) << what;
  if (b.expr == kNoExpr) return;
  const Bound pinned = table.BoundOf(b.expr);
  EXPECT_LE(pinned.lower, n) << what << " " << table.ToString(b.expr);
  EXPECT_GE(pinned.upper, n) << what << " " << table.ToString(b.expr);
}

TEST(Vectors, BoundsContainTheResult) {
  std::mt19937 random(11);
  int failed = 0;
  for (int round = 0; round < 6; ++round) {
    for (const auto& call : AllCalls()) {
      SymbolTable table;
      Widener widen(table, random);
      TestContext c(*call->node, &table);
      GiveExact(c, *call);
      for (size_t i = 0; i < call->line["i"].size(); ++i) {
        const json& t = call->line["i"][i];
        if (t.is_null()) continue;
        const int k = static_cast<int>(i);
        if (t.size() < 3) {
          BoundedShape shape = BoundedShape::Scalar();
          for (int64_t d : ShapeOfJson(t)) shape.push_back(widen.Dim(d));
          if (random() % 40 == 0) shape = BoundedShape::Unknown();
          if (random() % 8 == 0)
            shape.max_elements = ShapeOfJson(t).elements() + static_cast<int64_t>(random() % 4);
          c.Input(k, DTypeFromOnnx(t[0]), shape);
          continue;
        }
        if (!HoldsIntegers(t[0]) || random() % 6 == 0) {
          if (random() % 4 != 0) continue;
          // Contents unknown.
          c.Forget(k);
          continue;
        }
        if (random() % 2 || t[2].size() > BoundedValues::kMax) continue;
        BoundedValues v;
        for (int64_t n : t[2].get<std::vector<int64_t>>()) v[v.count++] = widen.Value(n, t[0] == 9);
        c.InputValues(k, v);
      }
      SCOPED_TRACE(call->text);
      try {
        ApplyRule(c);
      } catch (const Error& e) {
        if (e.code() != Code::kUnsupported) ADD_FAILURE() << e.what();
        continue;
      }
      widen.Pin();
      for (size_t o = 0; o < call->line["r"].size(); ++o) {
        const json& r = call->line["r"][o];
        if (r.is_null()) continue;
        const int k = static_cast<int>(o);
        const BoundedShape& s = c.out_shape(k);
        const Shape shape = ShapeOfJson(r);
        EXPECT_TRUE(s.Contains(shape)) << s.ToString(&table) << " " << shape.ToString();
        if (s.rank == shape.rank())
          for (int i = 0; i < s.rank; ++i) CheckWithin(table, s[i], shape[i], "dimension");
        const BoundedValues* v = c.out_values(k);
        if (v == nullptr || r.size() < 3) continue;
        ASSERT_EQ(static_cast<size_t>(v->count), r[2].size());
        for (int i = 0; i < v->count; ++i)
          CheckWithin(table, (*v)[i], r[2][static_cast<size_t>(i)], "element");
      }
      if (testing::Test::HasFailure() && ++failed > 20) return;
    }
  }
}

}  // namespace
}  // namespace ullage::ops
