#include "session/prepacked_cache.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/error.h"
#include "core/temp_folder.h"
#include "session/session.h"

namespace ullage::session {
namespace {

namespace fs = std::filesystem;

class Prepacked : public testing::Test {
 protected:
  /// y = x W with W [K, N] in a file of floats.
  std::unique_ptr<Session> Make(const std::string& weights, int64_t n = 40, const char* limit = nullptr) {
    auto g = std::make_shared<graph::Graph>();
    g->opsets = {{"", 21}, {"ullage", 1}};
    const auto file = MappedFile::Open(weights);
    auto c = std::make_shared<graph::Constant>();
    c->dtype = DType::kFloat;
    c->shape = {kK, n};
    c->size_bytes = static_cast<size_t>(kK * n) * 4;
    c->bytes = file->bytes().data();
    c->owner = file;
    c->file = weights;
    const auto x = g->AddInput("x", DType::kFloat, graph::DeclaredShape{{1, ""}, {kK, ""}});
    const auto w = g->AddConstant("w", c), y = g->AddValue("y");
    g->AddNode("", "MatMul", "matmul", {x, w}, {y});
    g->outputs = {y};
    SessionSpec spec;
    spec.graph = g;
    spec.threads = 2;
    spec.profiles = {ExactProfile("p", {Shape{1, kK}})};
    spec.options.Set("session.prepacked_cache", folder_ / "cache");
    if (limit) spec.options.Set("session.prepacked_cache_limit", limit);
    return Session::Create(std::move(spec));
  }
  std::string WriteWeights(float first, int64_t n = 40) {
    std::vector<float> v(static_cast<size_t>(kK * n));
    for (size_t i = 0; i < v.size(); ++i) v[i] = first + 0.01f * static_cast<float>(i % 97);
    const std::string path = folder_ / "weights";
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(v.data()), static_cast<long>(v.size() * 4));
    return path;
  }
  static std::vector<float> Result(Session& s) {
    std::vector<float> x(kK);
    for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
    const TensorView in{x.data(), DType::kFloat, Shape{1, kK}, 0};
    const Execution run = s.Run(0, {&in, 1});
    const TensorView& y = run.output(0);
    return {y.as<float>(), y.as<float>() + y.elements()};
  }
  std::vector<fs::path> Files() const {
    std::vector<fs::path> out;
    for (const auto& e : fs::directory_iterator(folder_ / "cache")) out.push_back(e.path());
    return out;
  }

  static constexpr int64_t kK = 300;
  test::TempFolder folder_;
};

TEST_F(Prepacked, TheSecondSessionMapsWhatTheFirstWrote) {
  const std::string weights = WriteWeights(1);
  const auto first = Make(weights);
  EXPECT_EQ(first->prepacked_cache(), "written");
  const auto second = Make(weights);
  EXPECT_EQ(second->prepacked_cache(), "mapped");
  EXPECT_EQ(Result(*first), Result(*second));
  EXPECT_EQ(first->device_plan().tags, second->device_plan().tags);
  EXPECT_EQ(first->peak_bytes(), second->peak_bytes());
  EXPECT_EQ(Files().size(), 1u);
}

TEST_F(Prepacked, AnotherModelIsPackedAnew) {
  const std::string weights = WriteWeights(1);
  const auto before = Result(*Make(weights));
  WriteWeights(2);
  const auto after = Make(weights);
  EXPECT_EQ(after->prepacked_cache(), "written");
  EXPECT_NE(Result(*after), before);
  EXPECT_EQ(Make(weights, 20)->prepacked_cache(), "written");
  EXPECT_EQ(Files().size(), 3u);
}

TEST_F(Prepacked, WhatWasUsedLongestAgoGoes) {
  const std::string weights = WriteWeights(1);
  const auto used = [&](int64_t n) { return Make(weights, n)->prepacked_cache(); };
  for (const int64_t n : {10, 20, 30}) EXPECT_EQ(used(n), "written");
  folder_.Write("cache/left.prepacked.aBcDeF", "partial");
  folder_.Write("cache/new.prepacked.aBcDeF", "partial");
  folder_.Write("cache/notes.txt", "not ours");
  fs::last_write_time(folder_ / "cache/left.prepacked.aBcDeF",
                      fs::file_time_type::clock::now() - std::chrono::hours(2));
  EXPECT_EQ(used(10), "mapped");
  // Room for two of them and the new one.
  int64_t bytes = 0;
  for (const auto& file : Files())
    if (file.extension() == ".prepacked") bytes += static_cast<int64_t>(fs::file_size(file));
  EXPECT_EQ(Make(weights, 16, std::to_string(bytes).c_str())->prepacked_cache(), "written");
  EXPECT_EQ(used(20), "written") << "used longest ago";
  for (const int64_t n : {10, 16, 30}) EXPECT_EQ(used(n), "mapped") << n;
  EXPECT_FALSE(fs::exists(folder_ / "cache/left.prepacked.aBcDeF"));
  EXPECT_TRUE(fs::exists(folder_ / "cache/new.prepacked.aBcDeF"));
  EXPECT_TRUE(fs::exists(folder_ / "cache/notes.txt"));
  // What is larger than the limit is not written.
  const auto s = Make(weights, 12, "1000");
  EXPECT_NE(s->prepacked_cache().find("session.prepacked_cache_limit"), std::string::npos);
  EXPECT_EQ(Result(*s).size(), 12u);
}

TEST_F(Prepacked, DamagedFilesAreNeverUsed) {
  const std::string weights = WriteWeights(1);
  const auto want = Result(*Make(weights));
  const fs::path path = Files().at(0);
  std::ifstream in(path, std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(in)), {});
  ASSERT_GT(good.size(), 4096u);
  const auto check = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc)
        .write(bytes.data(), static_cast<long>(bytes.size()));
    const auto s = Make(weights);
    EXPECT_EQ(s->prepacked_cache(), "written") << "with " << bytes.size() << " bytes";
    EXPECT_EQ(Result(*s), want);
    std::ifstream again(path, std::ios::binary);
    EXPECT_EQ(std::string((std::istreambuf_iterator<char>(again)), {}), good);
  };
  for (size_t length : {size_t{0}, size_t{7}, size_t{40}, size_t{100}, good.size() / 2, good.size() - 1})
    check(good.substr(0, length));
  check(good + "x");
  // A bit in every part: magic, sizes, key, checksums, the packed bytes.
  for (size_t at = 0; at < good.size(); at += at < 600 ? 13 : 4001) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 4);
    const auto team = std::make_unique<ThreadTeam>(2);
    std::ofstream(path, std::ios::binary | std::ios::trunc).write(bad.data(), static_cast<long>(bad.size()));
    const std::byte* region = nullptr;
    const size_t key_bytes = static_cast<size_t>(static_cast<unsigned char>(good[8])) +
                             256 * static_cast<size_t>(static_cast<unsigned char>(good[9]));
    const std::string key = good.substr(40, key_bytes);
    const size_t begin = (good.size() - size_t{kK} * 64 * 4);
    // The gap between the checksums and the region holds nothing.
    const bool gap = at >= 40 + key_bytes + 8 && at < begin;
    EXPECT_EQ(OpenPrepacked(path, key, size_t{kK} * 64 * 4, *team, &region) != nullptr, gap) << "byte " << at;
  }
  check(good.substr(0, 5000));
}

TEST_F(Prepacked, FoldersThatCannotBeWrittenAreReported) {
  const std::string weights = WriteWeights(1);
  std::ofstream(folder_ / "cache") << "a file";
  const auto s = Make(weights);
  EXPECT_NE(s->prepacked_cache().find("cannot write"), std::string::npos) << s->prepacked_cache();
  EXPECT_EQ(Result(*s).size(), 40u);
}

TEST(HashOf, TellsLengthsAndOrderApart) {
  std::vector<std::byte> a(64), b(65);
  EXPECT_NE(HashOf(a), HashOf(b));
  EXPECT_NE(HashOf(a, 1), HashOf(a, 2));
  a[3] = std::byte{1};
  auto c = std::vector<std::byte>(64);
  c[4] = std::byte{1};
  EXPECT_NE(HashOf(a), HashOf(c));
}

}  // namespace
}  // namespace ullage::session
