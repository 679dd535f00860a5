// Sessions in several threads at once: what the thread sanitizer is to see.
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "core/error.h"
#include "core/temp_folder.h"
#include "session/session.h"

namespace ullage::session {
namespace {

constexpr int64_t kWidth = 96, kLayers = 6;

/// y = relu(... relu(x W0 + b) ... W5 + b): weights that are packed and biases that are read, in a file.
class Concurrent : public testing::Test {
 protected:
  Concurrent() {
    std::vector<float> v(static_cast<size_t>(kLayers * (kWidth * kWidth + kWidth)));
    for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(static_cast<int>(i % 13) - 6) / 64;
    std::ofstream(folder_ / "weights", std::ios::binary)
        .write(reinterpret_cast<const char*>(v.data()), static_cast<long>(v.size() * 4));
  }

  std::unique_ptr<Session> Make(const std::vector<std::pair<std::string, std::string>>& options) const {
    const auto file = MappedFile::Open(folder_ / "weights");
    auto g = std::make_shared<graph::Graph>();
    g->opsets = {{"", 21}, {"ullage", 1}};
    auto value = g->AddInput("x", DType::kFloat, graph::DeclaredShape{{-1, "n"}, {kWidth, ""}});
    size_t at = 0;
    const auto constant = [&](const std::string& name, const Shape& shape) {
      auto c = std::make_shared<graph::Constant>();
      c->dtype = DType::kFloat;
      c->shape = shape;
      c->size_bytes = static_cast<size_t>(shape.elements()) * 4;
      c->bytes = file->bytes().data() + at;
      c->owner = file;
      c->file = file->path();
      c->file_offset = at;
      at += c->size_bytes;
      return g->AddConstant(name, c);
    };
    for (int64_t i = 0; i < kLayers; ++i) {
      const std::string n = std::to_string(i);
      const auto w = constant("w" + n, {kWidth, kWidth}), b = constant("b" + n, {kWidth});
      const auto product = g->AddValue("p" + n), sum = g->AddValue("s" + n), out = g->AddValue("y" + n);
      g->AddNode("", "MatMul", "matmul" + n, {value, w}, {product});
      g->AddNode("", "Add", "add" + n, {product, b}, {sum});
      g->AddNode("", "Relu", "relu" + n, {sum}, {out});
      value = out;
    }
    g->outputs = {value};
    SessionSpec spec;
    spec.graph = g;
    spec.threads = 2;
    spec.profiles = {{"p", [](const graph::Graph&, ops::SymbolTable& table) {
                        ops::ValueFacts f;
                        f.dtype = DType::kFloat;
                        f.shape = ops::BoundedShape::Scalar();
                        f.shape.push_back(table.Symbol("n", 1, 8));
                        f.shape.push_back(ops::Bound::Exactly(kWidth));
                        return std::vector<ops::ValueFacts>{f};
                      }}};
    for (const auto& [key, text] : options) spec.options.Set(key, text);
    return Session::Create(std::move(spec));
  }

  static std::vector<float> Result(Session& s, int64_t rows) {
    std::vector<float> x(static_cast<size_t>(rows * kWidth));
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7);
    const TensorView in{x.data(), DType::kFloat, Shape{rows, kWidth}, 0};
    const Execution run = s.Run(0, {&in, 1});
    return {run.output(0).as<float>(), run.output(0).as<float>() + run.output(0).elements()};
  }

  template <class Fn>
  static void InThreads(int count, const Fn& fn) {
    std::vector<std::thread> threads;
    for (int t = 0; t < count; ++t) threads.emplace_back([&fn, t] { fn(t); });
    for (auto& t : threads) t.join();
  }

  test::TempFolder folder_;
};

TEST_F(Concurrent, RunsOfOneSession) {
  const auto s = Make({});
  std::vector<std::vector<float>> want;
  for (int64_t rows = 1; rows <= 8; ++rows) want.push_back(Result(*s, rows));
  InThreads(4, [&](int t) {
    for (int i = 0; i < 30; ++i) {
      const int64_t rows = 1 + (t * 3 + i) % 8;
      EXPECT_EQ(Result(*s, rows), want[static_cast<size_t>(rows - 1)]);
      if (i % 10 == 9) s->Trim();
      EXPECT_GE(s->peak_bytes(), s->current_bytes());
    }
  });
}

TEST_F(Concurrent, RunsOfOneSessionWithReservedBuffers) {
  const auto s = Make({{"session.pre_allocate_execution_buffers", "1"}});
  const auto want = Result(*s, 5);
  std::atomic<int> done = 0, busy = 0;
  InThreads(4, [&](int) {
    for (int i = 0; i < 30; ++i) {
      try {
        EXPECT_EQ(Result(*s, 5), want);
        ++done;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::kBusy);
        ++busy;
      }
    }
  });
  EXPECT_EQ(done + busy, 120);
  EXPECT_GT(done, 0);
  EXPECT_EQ(s->allocations_during_run(), 0);
}

TEST_F(Concurrent, SessionsAreMadeAndEnd) {
  const std::string cache = folder_ / "cache";
  const auto want = Result(*Make({}), 3);
  InThreads(4, [&](int t) {
    for (int i = 0; i < 3; ++i) {
      std::vector<std::pair<std::string, std::string>> options;
      if ((t + i) % 2 == 0) options.emplace_back("session.prepacked_cache", cache);
      if ((t + i) % 3 == 0) options.emplace_back("session.weights_resident", "copied");
      if (t == 3) options.emplace_back("session.prepacked_cache_limit", "300KiB");
      EXPECT_EQ(Result(*Make(options), 3), want);
    }
  });
}

TEST_F(Concurrent, ARunIsStoppedFromOutside) {
  const auto s = Make({});
  std::atomic<bool> stop = false;
  std::thread other([&] { stop = true; });
  std::vector<float> x(static_cast<size_t>(8 * kWidth), 1);
  const TensorView in{x.data(), DType::kFloat, Shape{8, kWidth}, 0};
  try {
    for (int i = 0; i < 100000; ++i) (void)s->Run(0, {&in, 1}, &stop);
    ADD_FAILURE() << "it was not stopped";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInterrupted);
  }
  other.join();
  stop = false;
  EXPECT_NO_THROW((void)s->Run(0, {&in, 1}, &stop));
}

}  // namespace
}  // namespace ullage::session
