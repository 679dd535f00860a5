#include "session/residency.h"

#include <gtest/gtest.h>

#include <fstream>

#include "core/error.h"
#include "core/temp_folder.h"
#include "session/session.h"

namespace ullage::session {
namespace {

/// y = Gather(table, i) + bias: both are read where they lie, the table in a file, the bias in memory.
std::unique_ptr<Session> Make(const test::TempFolder& folder, const char* resident, bool plan_only = false) {
  constexpr int64_t kRows = 5000, kColumns = 7;
  std::vector<float> v(static_cast<size_t>(kRows * kColumns));
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i);
  std::ofstream(folder / "table", std::ios::binary)
      .write(reinterpret_cast<const char*>(v.data()), static_cast<long>(v.size() * 4));
  const auto file = MappedFile::Open(folder / "table");
  auto c = std::make_shared<graph::Constant>();
  c->dtype = DType::kFloat;
  c->shape = {kRows, kColumns};
  c->size_bytes = file->bytes().size();
  c->bytes = file->bytes().data();
  c->owner = file;
  c->file = file->path();
  auto g = std::make_shared<graph::Graph>();
  g->opsets = {{"", 21}};
  const auto i = g->AddInput("i", DType::kInt64, graph::DeclaredShape{{3, ""}});
  const auto table = g->AddConstant("table", c), rows = g->AddValue("rows"), y = g->AddValue("y");
  const std::vector<float> seven{1, 2, 3, 4, 5, 6, 7};
  const auto bias = g->AddConstant("bias", graph::MakeFloats({kColumns}, seven));
  g->AddNode("", "Gather", "gather", {table, i}, {rows});
  g->AddNode("", "Add", "add", {rows, bias}, {y});
  g->outputs = {y};
  SessionSpec spec;
  spec.graph = g;
  spec.threads = 2;
  spec.profiles = {ExactProfile("p", {Shape{3}})};
  spec.options.Set("session.pre_allocate_execution_buffers", "1");
  if (resident) spec.options.Set("session.weights_resident", resident);
  spec.plan_only = plan_only;
  return Session::Create(std::move(spec));
}

std::vector<float> Result(Session& s) {
  const int64_t rows[] = {4999, 0, 77};
  const TensorView in{const_cast<int64_t*>(rows), DType::kInt64, Shape{3}, 0};
  const Execution run = s.Run(0, {&in, 1});
  return {run.output(0).as<float>(), run.output(0).as<float>() + run.output(0).elements()};
}

TEST(Residency, EveryModePlansWhatItTakesAndComputesTheSame) {
  const test::TempFolder folder;
  std::vector<float> want;
  for (int64_t row : {4999, 0, 77})
    for (int k = 0; k < 7; ++k) want.push_back(static_cast<float>(row * 7 + k + k + 1));
  constexpr int64_t kTable = 5000 * 7 * 4, kBias = 28;
  for (const char* mode : {"mapped", "copied", "locked", "copied_locked"}) {
    const bool copied = std::string_view(mode).starts_with("copied");
    const auto planned = Make(folder, mode, true), s = Make(folder, mode);
    EXPECT_EQ(Result(*s), want) << mode;
    EXPECT_EQ(planned->device_plan().tags, s->device_plan().tags) << mode;
    EXPECT_EQ(s->peak_bytes(), s->device_plan().tags.Sum()) << mode;
    EXPECT_EQ(s->device_plan().tags[memory::Tag::kWeights], kTable + (copied ? 32 : 0) + kBias) << mode;
    EXPECT_EQ(s->device_plan().mapped_bytes, copied ? 0 : kTable) << mode;
    EXPECT_EQ(s->device_plan().weights_resident, mode);
  }
  EXPECT_EQ(Make(folder, nullptr)->device_plan().weights_resident, "mapped");
  EXPECT_THROW(Make(folder, "somewhere"), Error);
}

TEST(Residency, CopiesOutliveTheFile) {
  const test::TempFolder folder;
  const auto s = Make(folder, "copied");
  const auto want = Result(*s);
  // What is read from a map would change with the file.
  std::fstream file(folder / "table", std::ios::in | std::ios::out | std::ios::binary);
  const std::vector<char> other(5000 * 7 * 4, 1);
  file.write(other.data(), static_cast<long>(other.size()));
  file.close();
  EXPECT_EQ(Result(*s), want);
}

TEST(Residency, OptionsWithoutEffectAreSaid) {
  const auto make = [](const char* key, const char* value, bool strict) {
    auto g = std::make_shared<graph::Graph>();
    g->opsets = {{"", 21}};
    const auto x = g->AddInput("x", DType::kFloat, graph::DeclaredShape{{2, ""}}), y = g->AddValue("y");
    g->AddNode("", "Relu", "relu", {x}, {y});
    g->outputs = {y};
    SessionSpec spec;
    spec.graph = g;
    spec.threads = 1;
    spec.profiles = {ExactProfile("p", {Shape{2}})};
    spec.options.Set("session.pre_allocate_execution_buffers", "1");
    spec.options.Set(key, value);
    if (strict) spec.options.Set("session.strict", "1");
    return Session::Create(std::move(spec));
  };
  const auto s = make("ep.cpu.arena.max_mem", "1MiB", false);
  ASSERT_EQ(s->warnings().size(), 1u);
  EXPECT_NE(s->warnings()[0].find("ep.cpu.arena.max_mem"), std::string::npos);
  EXPECT_THROW(make("ep.cpu.arena.max_mem", "1MiB", true), Error);
  EXPECT_TRUE(make("session.use_device_allocator_for_initializers", "1", true)->warnings().empty());
  EXPECT_THROW(make("session.use_device_allocator_for_initializers", "0", false), Error);
  EXPECT_TRUE(make("session.enable_static_workspace_preallocation", "1", true)->warnings().empty());
  EXPECT_THROW(make("session.enable_static_workspace_preallocation", "0", false), Error);
}

}  // namespace
}  // namespace ullage::session
