#include "llm/fit.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace ullage::llm {
namespace {

/// Different importers and exporters: tables that grow with the context, caches in place, copied and
/// windowed.
class FitTest : public ::testing::TestWithParam<const char*> {
 protected:
  ModelSource source() const {
    return FindModel(std::string(ULLAGE_SOURCE_DIR "/tests/") + GetParam(), "", true);
  }
};

std::unique_ptr<Decoder> Planned(const ModelSource& source, int64_t context, int64_t chunk) {
  DecoderOptions o;
  o.context = context;
  o.chunk = chunk;
  o.plan_only = true;
  return Decoder::Create(source, o);
}

TEST_P(FitTest, PlanningAgainIsPlanning) {
  const auto from = source();
  const auto wide = Planned(from, 120, 100);
  for (const auto& [context, chunk] : std::vector<std::pair<int64_t, int64_t>>{{120, 100}, {80, 10}}) {
    const auto again = wide->Planned(context, chunk);
    const auto anew = Planned(from, context, chunk)->session().device_plan().tags;
    EXPECT_EQ(again.ToString(), anew.ToString()) << context << " " << chunk;
  }
  EXPECT_THROW(wide->Planned(121, 10), Error);
  EXPECT_THROW(wide->Planned(110, 101), Error);
  EXPECT_THROW(wide->Planned(0, 1), Error);
}

TEST_P(FitTest, TheLargestContextIsTheLargest) {
  const auto from = source();
  DecoderOptions o;
  o.context = kLargestContext;
  std::vector<session::Remedy> remedies;
  const auto wide = PlanFitting(from, o, &remedies);
  const int64_t most = wide->context();
  for (const int64_t wanted : std::vector<int64_t>{2, 3, 33, most / 2, most - 1, most}) {
    const auto bytes_of = [&](int64_t n) { return Planned(from, n, 0)->session().device_plan().tags.Sum(); };
    o.cpu_limit = bytes_of(wanted);
    const auto d = PlanFitting(from, o, &remedies);
    EXPECT_GE(d->context(), wanted);
    EXPECT_LE(d->session().device_plan().tags.Sum(), *o.cpu_limit);
    if (d->context() < most) {
      EXPECT_GT(bytes_of(d->context() + 1), *o.cpu_limit);
    }
  }
  EXPECT_TRUE(remedies.empty());
  o.cpu_limit = 100;
  const auto none = PlanFitting(from, o, &remedies);
  EXPECT_EQ(none->context(), 1);
  EXPECT_THROW(CreateFitting(from, o), Error);
}

TEST_P(FitTest, RemediesFit) {
  const auto from = source();
  DecoderOptions o;
  const int64_t need = PlanFitting(from, o, nullptr)->session().device_plan().tags.Sum();
  for (const int64_t limit : {need - 1, need - need / 100, need - need / 10}) {
    o.cpu_limit = limit;
    std::vector<session::Remedy> remedies;
    PlanFitting(from, o, &remedies);
    for (const auto& r : remedies) EXPECT_LE(r.planned_bytes, limit) << r.change;
    if (limit == need - 1) {
      EXPECT_FALSE(remedies.empty());
    }
  }
  o.cpu_limit = need;
  std::vector<session::Remedy> none;
  PlanFitting(from, o, &none);
  EXPECT_TRUE(none.empty());
}

INSTANTIATE_TEST_SUITE_P(Models, FitTest,
                         ::testing::Values("gguf/models/gemma3.gguf", "gguf/models/phi3.gguf",
                                           "zoo/genai-llama-int4-cpu", "zoo/genai-llama-fp16-cpu",
                                           "zoo/genai-gemma3-fp32-cpu", "zoo/genai-phi3longrope-int4-cpu",
                                           "zoo/optimum-llama"));

}  // namespace
}  // namespace ullage::llm
