// Propagation over models that real exporters wrote (the zoo, when it is there): declared inputs, the shapes
// of the reference runs (tests/shapes/zoo_shapes.tsv), and bounds around them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "onnx/import.h"
#include "shapes/input_bounds.h"
#include "shapes/propagate.h"
#include "ullage/error.h"

namespace ullage::shapes {
namespace {

namespace fs = std::filesystem;
using graph::Graph;
using ops::Bound;
using ops::BoundedShape;
using ops::BoundedValues;
using ops::SymbolTable;
using ops::ValueFacts;

std::string Zoo() {
  const char* shared = std::getenv("ULLAGE_SHARED");
  return (shared ? std::string(shared) : std::string(ULLAGE_SOURCE_DIR) + "/../shared") + "/data/zoo";
}

struct Given {
  Shape shape;
  std::vector<int64_t> values;
};

struct Row {
  std::string model, name;
  std::map<std::string, Given> inputs;
  std::map<std::string, Shape> outputs;
};

std::vector<int64_t> Numbers(const std::string& text) {
  std::vector<int64_t> n;
  std::istringstream in(text);
  std::string part;
  while (std::getline(in, part, ',')) n.push_back(std::stoll(part));
  return n;
}

std::vector<Row> Rows() {
  std::vector<Row> rows;
  std::ifstream file(std::string(ULLAGE_SOURCE_DIR) + "/tests/shapes/zoo_shapes.tsv");
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream in(line);
    Row r;
    std::getline(in, r.model, '\t');
    std::getline(in, r.name, '\t');
    std::string field;
    while (std::getline(in, field, '\t')) {
      const size_t equal = field.rfind('=');
      const std::string value = field.substr(equal + 1), key = field.substr(2, equal - 2);
      const size_t colon = value.find(':');
      const Shape shape(Numbers(value.substr(0, colon)));
      if (field[0] == 'i') {
        Given g{shape, {}};
        if (colon != std::string::npos) g.values = Numbers(value.substr(colon + 1));
        r.inputs[key] = g;
      } else {
        r.outputs[key] = shape;
      }
    }
    rows.push_back(std::move(r));
  }
  return rows;
}

std::shared_ptr<Graph> Load(const std::string& model) {
  onnx::ImportOptions options;
  options.require_data = false;
  return onnx::ImportOnnx(Zoo() + "/" + model, options);
}

std::vector<std::string> Models() {
  std::vector<std::string> models;
  if (!fs::exists(Zoo())) return models;
  for (const auto& entry : fs::recursive_directory_iterator(Zoo()))
    if (entry.path().extension() == ".onnx") models.push_back(fs::relative(entry.path(), Zoo()).string());
  std::sort(models.begin(), models.end());
  return models;
}

std::vector<ValueFacts> ExactInputs(const Graph& graph, const Row& row) {
  std::vector<ValueFacts> facts;
  for (graph::ValueId id : graph.inputs) {
    const Given& given = row.inputs.at(graph.value(id).name);
    ValueFacts f;
    f.dtype = graph.value(id).dtype;
    f.shape = BoundedShape::Of(given.shape);
    if (!given.values.empty()) {
      auto v = std::make_shared<BoundedValues>();
      for (int64_t n : given.values) (*v)[v->count++] = Bound::Exactly(n);
      f.values = v;
    }
    facts.push_back(f);
  }
  return facts;
}

// Calls fn for every value of the graph and its bodies that both have facts for.
template <class Fn>
void ForBoth(const Graph& g, const GraphFacts& a, const GraphFacts& b, const Fn& fn) {
  for (size_t i = 0; i < g.value_count(); ++i)
    fn(g, static_cast<graph::ValueId>(i), a.values[i], b.values[i]);
  for (const auto& [key, body] : a.bodies) {
    const auto it = b.bodies.find(key);
    if (it == b.bodies.end()) continue;
    const auto sub = g.node(key.first).Subgraph(key.second);
    if (sub) ForBoth(*sub, *body, *it->second, fn);
  }
}

struct Openness {
  int values = 0, unbounded = 0;
  std::string first;
};

void CountUnbounded(const Graph& g, const GraphFacts& facts, Openness& open) {
  for (size_t i = 0; i < g.value_count(); ++i) {
    const auto id = static_cast<graph::ValueId>(i);
    const auto& v = g.value(id);
    if (v.producer == graph::kNone) continue;
    ++open.values;
    if (facts.values[i].shape.ElementsUpper() != ops::kUnbounded) continue;
    ++open.unbounded;
    if (open.first.empty())
      open.first = g.node(v.producer).OpName() + " " + v.name + " " + facts.values[i].shape.ToString();
  }
  for (const auto& [key, body] : facts.bodies)
    if (const auto sub = g.node(key.first).Subgraph(key.second)) CountUnbounded(*sub, *body, open);
}

TEST(ZooShapes, DeclaredInputsPropagate) {
  const auto models = Models();
  if (models.empty()) GTEST_SKIP() << "no zoo at " << Zoo();
  for (const std::string& model : models) {
    SCOPED_TRACE(model);
    const auto graph = Load(model);
    SymbolTable table;
    try {
      const auto inputs = DeclaredInputFacts(*graph, table);
      const GraphFacts facts = Propagate(*graph, inputs, {}, table);
      for (graph::ValueId id : graph->outputs) {
        const auto& v = graph->value(id);
        EXPECT_NE(facts.of(id).dtype, DType::kUndefined) << v.name;
        EXPECT_EQ(facts.of(id).dtype, v.dtype) << v.name;
      }
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
    }
  }
}

// With every input dimension bounded, every value of every graph is.
TEST(ZooShapes, BoundedInputsBoundEverything) {
  for (const std::string& model : Models()) {
    SCOPED_TRACE(model);
    const auto graph = Load(model);
    SymbolTable table;
    for (graph::ValueId id : graph->inputs) {
      const auto& v = graph->value(id);
      for (size_t i = 0; v.declared && i < v.declared->size(); ++i) {
        const auto& [number, label] = (*v.declared)[i];
        const std::string name = label.empty() ? v.name + "." + std::to_string(i) : label;
        if (number < 0) table.Symbol(name, name.find("past") == 0 && i == 2 ? 0 : 1, 64);
      }
    }
    try {
      const GraphFacts facts =
          Propagate(*graph, BoundedInputFacts(*graph, {}, {}, /*labels=*/true, table), {}, table);
      Openness open;
      CountUnbounded(*graph, facts, open);
      EXPECT_EQ(open.unbounded, 0) << "of " << open.values << " values, first " << open.first;
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
    }
  }
}

TEST(ZooShapes, ReferenceShapesAreExact) {
  const auto rows = Rows();
  ASSERT_GT(rows.size(), 200u);
  if (!fs::exists(Zoo())) GTEST_SKIP() << "no zoo at " << Zoo();
  int exact = 0, values_exact = 0, values_all = 0;
  std::map<std::string, std::shared_ptr<Graph>> loaded;
  for (const Row& row : rows) {
    SCOPED_TRACE(row.model + " " + row.name);
    auto& graph = loaded[row.model];
    if (!graph) graph = Load(row.model);
    SymbolTable table;
    try {
      const GraphFacts facts = Propagate(*graph, ExactInputs(*graph, row), {}, table);
      for (graph::ValueId id : graph->outputs) {
        const std::string& name = graph->value(id).name;
        const auto it = row.outputs.find(name);
        if (it == row.outputs.end()) continue;
        const BoundedShape& s = facts.of(id).shape;
        EXPECT_TRUE(s.Contains(it->second)) << name << " " << s.ToString() << " " << it->second.ToString();
        // NonZero of a computed tensor is all that only a run can tell.
        if (row.model != "ts-control-op16/model.onnx" || name != "nz") {
          EXPECT_TRUE(s.exact()) << name << " " << s.ToString();
          ++exact;
        }
      }
      for (size_t i = 0; i < graph->value_count(); ++i) {
        if (graph->value(static_cast<graph::ValueId>(i)).producer == graph::kNone) continue;
        ++values_all;
        values_exact += facts.values[i].shape.exact();
      }
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
    }
  }
  EXPECT_GT(exact, 600);
  EXPECT_GE(values_exact, values_all - 2);
}

// Bounds around the sizes of a reference run must contain every shape of that run, in all values.
TEST(ZooShapes, BoundsContainTheRun) {
  if (!fs::exists(Zoo())) GTEST_SKIP() << "no zoo at " << Zoo();
  std::mt19937 random(7);
  std::map<std::string, std::shared_ptr<Graph>> loaded;
  for (const Row& row : Rows()) {
    SCOPED_TRACE(row.model + " " + row.name);
    auto& graph = loaded[row.model];
    if (!graph) graph = Load(row.model);
    SymbolTable exact_table, table;
    try {
      const GraphFacts exact = Propagate(*graph, ExactInputs(*graph, row), {}, exact_table);
      std::vector<ValueFacts> inputs;
      for (graph::ValueId id : graph->inputs) {
        const auto& v = graph->value(id);
        const Shape& shape = row.inputs.at(v.name).shape;
        ValueFacts f;
        f.dtype = v.dtype;
        f.shape.rank = 0;
        for (int i = 0; i < shape.rank(); ++i) {
          const bool fixed = v.declared && (*v.declared)[static_cast<size_t>(i)].value >= 0;
          // An axis that is empty in the run may be empty; the others are not.
          const int64_t below =
              std::min<int64_t>(static_cast<int64_t>(random() % 3), std::max<int64_t>(shape[i] - 1, 0));
          const int64_t above = static_cast<int64_t>(random() % 20);
          f.shape.push_back(
              fixed ? Bound::Exactly(shape[i])
                    : table.Symbol(v.name + "." + std::to_string(i), shape[i] - below, shape[i] + above));
        }
        inputs.push_back(f);
      }
      const GraphFacts bounded = Propagate(*graph, inputs, {}, table);
      Openness open;
      CountUnbounded(*graph, bounded, open);
      EXPECT_EQ(open.unbounded, 0) << "of " << open.values << " values, first " << open.first;
      int faults = 0;
      ForBoth(*graph, exact, bounded,
              [&](const Graph& g, graph::ValueId id, const ValueFacts& e, const ValueFacts& b) {
                if (faults > 3) return;
                if (e.shape.exact() && !b.shape.Contains(e.shape.ToShape())) {
                  ++faults;
                  ADD_FAILURE() << g.value(id).name << ": " << e.shape.ToString() << " is outside "
                                << b.shape.ToString(&table);
                }
                if (e.values && b.values && e.values->count == b.values->count)
                  for (int i = 0; i < e.values->count; ++i)
                    if ((*e.values)[i].exact() && ((*e.values)[i].lower < (*b.values)[i].lower ||
                                                   (*e.values)[i].upper > (*b.values)[i].upper)) {
                      ++faults;
                      ADD_FAILURE() << g.value(id).name << " element " << i << ": " << (*e.values)[i].lower
                                    << " is outside " << (*b.values)[i].lower << ".." << (*b.values)[i].upper;
                    }
              });
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
    }
  }
}

// With the relations that a generation loop states (equal labels are equal sizes, total = past + new), the
// bounds of a decoder are as tight as the largest run.
TEST(ZooShapes, DecoderBoundsAreTight) {
  if (!fs::exists(Zoo())) GTEST_SKIP() << "no zoo at " << Zoo();
  constexpr int64_t kNew = 8, kContext = 64;
  int models = 0;
  for (const Row& row : Rows()) {
    if (row.name.find("decode") == std::string::npos || row.model.find("whisper") != std::string::npos)
      continue;
    // Their mask takes either no past or one new token.
    if (row.model.find("fp16-cpu") != std::string::npos) continue;
    const auto graph = Load(row.model);
    SCOPED_TRACE(row.model + " " + row.name);
    SymbolTable table, exact_table;
    const Bound fresh = table.Symbol("S", 1, kNew), past = table.Symbol("P", 0, kContext);
    const int32_t total_expr = table.AddExpr(past, fresh);
    table.Restrict(total_expr, 1, kContext);
    const Bound total = table.BoundOf(total_expr);
    std::vector<ValueFacts> bounded, largest;
    bool plain = true;
    for (graph::ValueId id : graph->inputs) {
      const auto& v = graph->value(id);
      const Shape& shape = row.inputs.at(v.name).shape;
      ValueFacts b, e;
      b.dtype = e.dtype = v.dtype;
      b.shape.rank = e.shape.rank = 0;
      for (int i = 0; i < shape.rank(); ++i) {
        const auto& d = (*v.declared)[static_cast<size_t>(i)];
        const bool cache = v.name.find("past") != std::string::npos;
        Bound to = Bound::Exactly(shape[i]);
        int64_t most = shape[i];
        if (d.value < 0 && d.label.find("sliding") == std::string::npos && !(cache && i != 2)) {
          if (cache) to = past, most = kContext - kNew;
          if (!cache && i == shape.rank() - 1 && v.name == "attention_mask") to = total, most = kContext;
          if (!cache && i > 0 && v.name != "attention_mask") to = fresh, most = kNew;
        }
        b.shape.push_back(to);
        e.shape.push_back(Bound::Exactly(most));
      }
      if (shape.rank() == 0) plain = false;
      bounded.push_back(b);
      largest.push_back(e);
    }
    if (!plain) continue;
    try {
      const GraphFacts b = Propagate(*graph, bounded, {}, table),
                       e = Propagate(*graph, largest, {}, exact_table);
      ++models;
      int loose = 0;
      ForBoth(*graph, e, b, [&](const Graph& g, graph::ValueId id, const ValueFacts& x, const ValueFacts& y) {
        if (!x.shape.exact() || g.value(id).producer == graph::kNone) return;
        const int64_t run = x.shape.ElementsUpper(), most = y.shape.ElementsUpper();
        // With the largest past the cache and the new tokens fill the context; a shorter past may have
        // at most as many elements, except for copies of the past alone (kContext rows against kContext
        // - kNew).
        if (static_cast<double>(most) > static_cast<double>(run) * kContext / (kContext - kNew) + 1 &&
            loose++ < 3)
          ADD_FAILURE() << g.value(id).name << ": at most " << most << " elements "
                        << y.shape.ToString(&table) << ", the largest run has " << run << " "
                        << x.shape.ToString();
      });
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
    }
  }
  EXPECT_GT(models, 60);
}

}  // namespace
}  // namespace ullage::shapes
