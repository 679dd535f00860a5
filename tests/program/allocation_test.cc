/// What a session promises about memory, proved by means that do not trust its own counters.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>

#include "interposer.h"
#include "llm/generator.h"
#include "llm/model_source.h"
#include "ullage/session.h"

namespace ullage {
namespace {

using interposer::Counting;
using interposer::Refusing;

std::vector<std::string> SmallModels() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(ULLAGE_SOURCE_DIR "/tests/gguf/models"))
    if (entry.path().extension() == ".gguf") paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

// -- language models --

/// A decoder with a prompt fed and a sampler, ready to go on.
struct Speaker {
  Speaker(const std::string& path, int threads, int64_t context) {
    llm::DecoderOptions options;
    options.threads = threads;
    options.context = context;
    decoder = llm::Decoder::Create(llm::FindModel(path, "", false), options);
    sampler = std::make_unique<llm::Sampler>(llm::SamplingOptions{.temperature = 0.7f,
                                                                  .top_k = 40,
                                                                  .top_p = 0.9f,
                                                                  .min_p = 0.01f,
                                                                  .repetition_penalty = 1.1f,
                                                                  .seed = 7},
                                             decoder->vocabulary());
    history.reserve(static_cast<size_t>(context) + 1);
    history = {1, 2, 3, 4, 5};
    history.reserve(static_cast<size_t>(context) + 1);
    decoder->Feed(history);
    Say(1);
  }
  void Say(int tokens) {
    for (int t = 0; t < tokens; ++t) {
      const int32_t id = sampler->Sample(decoder->logits(), history);
      history.push_back(id);
      decoder->Feed({&id, 1});
    }
  }

  std::unique_ptr<llm::Decoder> decoder;
  std::unique_ptr<llm::Sampler> sampler;
  std::vector<int32_t> history;
};

void DecodeWithoutAllocating(const std::string& path, int threads, int64_t context, int tokens) {
  Speaker speaker(path, threads, context);
  {
    const Counting counting;
    speaker.Say(tokens);
    EXPECT_EQ(counting.calls(), 0);
  }
  const session::Session& session = speaker.decoder->session();
  EXPECT_EQ(session.allocations_during_run(), 0);
  EXPECT_EQ(session.peak_bytes(), session.device_plan().tags.Sum());
}

TEST(Interposer, SeesAndRefuses) {
  const auto before = interposer::Now();
  {
    const Counting counting;
    void* volatile p = std::malloc(100);
    EXPECT_EQ(counting.calls(), 1);
    std::free(p);
    EXPECT_EQ(interposer::Now().heap_blocks, before.heap_blocks);
  }
  int64_t calls = 0;
  void* volatile refused = &calls;
  {
    const Refusing refusing;
    refused = std::malloc(100);
    calls = refusing.calls();
  }
  EXPECT_EQ(refused, nullptr);
  EXPECT_EQ(calls, 1);
  {
    const memory::HostRegion region(10000, {.alignment = 1 << 16});
    EXPECT_EQ(interposer::Now().anonymous_bytes - before.anonymous_bytes, 12288);
  }
  EXPECT_EQ(interposer::Now().anonymous_bytes, before.anonymous_bytes);
}

TEST(Allocation, DecodingSmallModels) {
  const auto paths = SmallModels();
  EXPECT_FALSE(paths.empty());
  for (const std::string& path : paths)
    for (int threads : {1, 3}) {
      SCOPED_TRACE(path + " with " + std::to_string(threads) + " threads");
      DecodeWithoutAllocating(path, threads, 64, 50);
    }
}

TEST(Allocation, DecodingTheDefaultModel) {
  const std::string path = llm::ModelStore() + "/smollm2.gguf";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  DecodeWithoutAllocating(path, 2, 512, 200);
}

TEST(Allocation, DecodingGoesOnWhenNothingIsLeft) {
  for (const std::string& path : SmallModels()) {
    SCOPED_TRACE(path);
    Speaker with(path, 3, 64), without(path, 3, 64);
    with.Say(50);
    {
      const Refusing refusing;
      without.Say(50);
    }
    EXPECT_EQ(with.history, without.history);
  }
}

TEST(Allocation, TwoThousandTokensStayFlat) {
  const std::string path = SmallModels().at(0);
  Speaker speaker(path, 2, 128);
  const auto round = [&] {
    speaker.Say(100);
    speaker.decoder->Rewind(6);
    speaker.history.resize(6);
  };
  round();
  const auto before = interposer::Now();
  const int64_t resident = interposer::ResidentBytes();
  {
    const Counting counting;
    for (int i = 0; i < 20; ++i) round();
    EXPECT_EQ(counting.calls(), 0);
  }
  EXPECT_EQ(interposer::Now().heap_bytes, before.heap_bytes);
  // Stacks of threads may touch a page they had not used before.
  EXPECT_LE(interposer::ResidentBytes() - resident, 256 << 10);
}

// -- other graphs, through the public interface --

/// A graph of the zoo with inputs at its bounds.
struct Graph {
  Graph(const std::string& name, const std::map<std::string, Shape>& shapes,
        std::map<std::string, std::string> values, bool small = false) {
    SessionOptions options;
    options.values = std::move(values);
    options.max_shapes = shapes;
    session = std::make_unique<Session>(
        Session::Load(ULLAGE_SOURCE_DIR "/tests/zoo/" + name + "/model.onnx", options));
    for (const ValueInfo& in : session->inputs()) {
      Shape shape;
      for (const DimInfo& d : in.dims)
        shape.push_back(small && d.lower < d.upper ? (d.upper + 1) / 2 : d.upper);
      Tensor tensor(in.dtype, shape);
      for (int64_t i = 0; i < tensor.elements(); ++i) {
        const auto at = static_cast<size_t>(i);
        if (in.dtype == DType::kInt64)
          tensor.as<int64_t>()[at] =
              in.name == "attention_mask" ? 1 : i % (in.name == "token_type_ids" ? 2 : 50);
        else
          tensor.as<float>()[at] = static_cast<float>(i % 17) * 0.1f - 0.8f;
      }
      tensors.push_back(std::move(tensor));
    }
    for (size_t i = 0; i < tensors.size(); ++i)
      inputs.push_back(
          {session->inputs()[i].name, tensors[i].data(), tensors[i].dtype(), tensors[i].shape()});
    for (const ValueInfo& out : session->outputs()) {
      int64_t elements = 1;
      for (const DimInfo& d : out.dims) elements *= d.upper;
      results.emplace_back(static_cast<size_t>(elements) * 8);
      outputs.push_back({out.name, results.back().data(), results.back().size()});
    }
  }
  void Run() { session->Run(inputs, outputs); }

  std::unique_ptr<Session> session;
  std::vector<Tensor> tensors;
  std::vector<InputTensor> inputs;
  std::vector<std::vector<std::byte>> results;
  std::vector<OutputTensor> outputs;
};

struct Case {
  const char* name;
  std::map<std::string, Shape> shapes;
};

std::vector<Case> Cases() {
  return {
      {"ts-bert-op17", {{"input_ids", {2, 24}}, {"attention_mask", {2, 24}}, {"token_type_ids", {2, 24}}}},
      {"ts-resnet-op13", {{"pixel_values", {1, 3, 64, 64}}}},
      {"dynamo-vit-op23", {{"pixel_values", {1, 3, 32, 32}}}},
  };
}

std::map<std::string, std::string> Reserved(const char* threads) {
  return {{"session.pre_allocate_execution_buffers", "1"}, {"session.intra_op_num_threads", threads}};
}

TEST(Allocation, RunsOfGraphsAllocateNothing) {
  for (const Case& c : Cases())
    for (const char* threads : {"1", "3"}) {
      SCOPED_TRACE(std::string(c.name) + " with " + threads + " threads");
      Graph graph(c.name, c.shapes, Reserved(threads));
      const Counting counting;
      for (int i = 0; i < 200; ++i) graph.Run();
      EXPECT_EQ(counting.calls(), 0);
    }
}

TEST(Allocation, RunsOfGraphsGoOnWhenNothingIsLeft) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.name);
    Graph with(c.name, c.shapes, Reserved("3")), without(c.name, c.shapes, Reserved("3"));
    with.Run();
    {
      const Refusing refusing;
      without.Run();
    }
    EXPECT_EQ(with.results, without.results);
  }
}

int64_t Pages(int64_t bytes) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  return (bytes + page - 1) / page * page;
}

TEST(Allocation, WhatIsPlannedIsWhatTheSystemSees) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.name);
    const int64_t before = interposer::Now().anonymous_bytes;
    Graph graph(c.name, c.shapes, Reserved("1"));
    std::map<std::string, int64_t> tags;
    const DeviceMemory memory = graph.session->memory().at(0);
    for (const auto& [tag, bytes] : memory.tags) tags[tag] = bytes;
    const int64_t expected = Pages(tags["prepacked"]) + Pages(tags["activations"] + tags["workspace"]);
    EXPECT_GT(tags["activations"], 0);
    EXPECT_EQ(interposer::Now().anonymous_bytes - before, expected);
    for (int i = 0; i < 3; ++i) graph.Run();
    EXPECT_EQ(interposer::Now().anonymous_bytes - before, expected);
  }
}

TEST(Allocation, FiftySessionsLeaveNothingBehind) {
  const Case c = Cases().at(0);
  const auto live_and_die = [&](int i) {
    // Both ways to run; with and without bounds.
    const bool reserve = i % 2 == 0;
    Graph graph(c.name, c.shapes, reserve ? Reserved("2") : std::map<std::string, std::string>());
    graph.Run();
    const Speaker speaker(SmallModels().at(0), 2, 64);
  };
  for (int i = 0; i < 4; ++i) live_and_die(i);  // what a process makes once
  const auto before = interposer::Now();
  const int64_t resident = interposer::ResidentBytes();
  for (int i = 0; i < 50; ++i) live_and_die(i);
  const auto after = interposer::Now();
  EXPECT_EQ(after.anonymous_bytes, before.anonymous_bytes);
  EXPECT_EQ(after.heap_blocks, before.heap_blocks);
  // The allocator rounds a block up by 16 bytes where what would be left over is too small to be one.
  EXPECT_NEAR(static_cast<double>(after.heap_bytes), static_cast<double>(before.heap_bytes), 64);
  EXPECT_LE(interposer::ResidentBytes() - resident, 8 << 20);
}

TEST(Allocation, BatchesOfAnySizeDoNotCreep) {
  // Without bounds: the arena serves.
  const Case c = Cases().at(0);
  SessionOptions options;
  options.values["session.intra_op_num_threads"] = "1";
  const Session session =
      Session::Load(std::string(ULLAGE_SOURCE_DIR "/tests/zoo/") + c.name + "/model.onnx", options);
  const auto run = [&](int64_t batch) {
    const Shape shape = {batch, 24};
    std::vector<int64_t> ids(static_cast<size_t>(shape.elements()), 3), ones(ids.size(), 1),
        zeros(ids.size(), 0);
    std::vector<InputTensor> inputs;
    for (const ValueInfo& in : session.inputs())
      inputs.push_back({in.name,
                        in.name == "input_ids"        ? ids.data()
                        : in.name == "attention_mask" ? ones.data()
                                                      : zeros.data(),
                        DType::kInt64, shape});
    const auto out = session.Run(inputs);
    EXPECT_EQ(out.at(0).tensor.shape()[0], batch);
  };
  for (int64_t batch : {16, 7, 7, 7}) run(batch);
  const int64_t held = interposer::Now().anonymous_bytes;
  for (int round = 0; round < 20; ++round)
    for (int64_t batch : {16, 7, 7, 7, 1, 12}) run(batch);
  EXPECT_EQ(interposer::Now().anonymous_bytes, held);
}

}  // namespace
}  // namespace ullage
