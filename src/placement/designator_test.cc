#include "placement/designator.h"

#include <gtest/gtest.h>

#include "placement/test_graph.h"
#include "ullage/error.h"

namespace ullage::placement {
namespace {

using providers::DeviceInfo;
using providers::DeviceType;
using test::Device;

bool Is(const std::string& text, const DeviceInfo& device) {
  return Matches(ParseDesignator(text), device);
}
/// Name of the device that the text chooses, "" when there is none.
std::string Chosen(const std::string& text, const std::vector<DeviceInfo>& devices) {
  const auto found = FindDevice(ParseDesignator(text), devices);
  return found ? devices[*found].name : "";
}

TEST(Designator, Cpu) {
  EXPECT_TRUE(Is("CPU", Device("cpu")));
  EXPECT_TRUE(Is("CPU", Device("CPUExecutionProvider")));
  EXPECT_TRUE(Is("cpu", Device("other", DeviceType::kCpu)));
  EXPECT_FALSE(Is("cpu", Device("other", DeviceType::kGpu)));
  EXPECT_TRUE(Is("cpu:0", Device("cpu", DeviceType::kCpu)));
  EXPECT_FALSE(Is("cpu:1", Device("cpu", DeviceType::kCpu)));
}

TEST(Designator, Gpu) {
  EXPECT_TRUE(Is("GPU", Device("opencl", DeviceType::kGpu)));
  EXPECT_TRUE(Is("gpu", Device("cuda")));
  EXPECT_TRUE(Is("gpu", Device("dml")));
  EXPECT_FALSE(Is("gpu", Device("cpu", DeviceType::kCpu)));
  EXPECT_FALSE(Is("gpu", Device("opencl", DeviceType::kNpu)));
}

TEST(Designator, GpuVendors) {
  EXPECT_TRUE(Is("gpu:nvidia", Device("x", DeviceType::kGpu, 0, "NVIDIA")));
  EXPECT_FALSE(Is("gpu:nvidia", Device("x", DeviceType::kGpu, 0, "AMD")));
  EXPECT_TRUE(Is("gpu:intel", Device("x", DeviceType::kGpu, 0, "", 0x8086)));
  EXPECT_TRUE(Is("gpu:nvidia", Device("x", DeviceType::kGpu, 0, "", 0x10DE)));
  EXPECT_TRUE(Is("gpu:amd", Device("x", DeviceType::kGpu, 0, "", 0x1002)));
  EXPECT_FALSE(Is("gpu:amd", Device("x", DeviceType::kGpu, 0, "", 0x10DE)));
  EXPECT_TRUE(Is("gpu:nvidia", Device("cuda", DeviceType::kGpu)));
  EXPECT_FALSE(Is("gpu:nvidia", Device("cuda", DeviceType::kGpu, 0, "AMD")));
}

TEST(Designator, GpuOrdinals) {
  EXPECT_TRUE(Is("gpu:1", Device("x", DeviceType::kGpu, 1)));
  EXPECT_FALSE(Is("gpu:1", Device("x", DeviceType::kGpu, 0)));
  EXPECT_FALSE(Is("gpu:1", Device("x", DeviceType::kGpu, -1)));  // unknown: a PCI id is no substitute
}

TEST(Designator, OtherKinds) {
  EXPECT_FALSE(Is("accelerator", Device("cpu")));
  EXPECT_TRUE(Is("accelerator", Device("custom")));
  EXPECT_TRUE(Is("accelerator", Device("x", DeviceType::kGpu)));
  EXPECT_FALSE(Is("accelerator", Device("x", DeviceType::kCpu)));
  EXPECT_TRUE(Is("npu", Device("x", DeviceType::kNpu)));
  EXPECT_TRUE(Is("npu", Device("QNNExecutionProvider")));
  EXPECT_TRUE(Is("fpga", Device("x", DeviceType::kFpga)));
  EXPECT_FALSE(Is("fpga", Device("x", DeviceType::kGpu)));
}

TEST(Designator, ProvidersByName) {
  EXPECT_TRUE(Is("cuda", Device("cuda")));
  EXPECT_TRUE(Is("CUDAExecutionProvider", Device("cuda")));
  EXPECT_TRUE(Is("dml", Device("dml")));
  EXPECT_TRUE(Is("MyCustomEP", Device("MyCustomEP")));
  EXPECT_FALSE(Is("mycustomep", Device("MyCustomEP")));
  EXPECT_FALSE(Is("cuda", Device("opencl", DeviceType::kGpu, 0, "NVIDIA")));
  EXPECT_TRUE(Is("reference:1", Device("reference", DeviceType::kGpu, 1)));
  EXPECT_FALSE(Is("reference:1", Device("reference", DeviceType::kGpu, 0)));
}

TEST(Designator, ChoosesFromLists) {
  const std::vector<DeviceInfo> both = {Device("cuda", DeviceType::kGpu), Device("cpu", DeviceType::kCpu)};
  EXPECT_EQ(Chosen("CPU", both), "cpu");
  EXPECT_EQ(Chosen("GPU", both), "cuda:0");
  EXPECT_EQ(Chosen("gpu:nvidia", both), "cuda:0");
  EXPECT_EQ(Chosen("GPU", {Device("cpu", DeviceType::kCpu)}), "");
  EXPECT_EQ(Chosen("accelerator", {Device("cpu", DeviceType::kCpu), Device("Mine", DeviceType::kNpu)}),
            "Mine:0");
}

TEST(Designator, CpuMeansTheHostFirst) {
  EXPECT_EQ(Chosen("cpu", {Device("xnnpack", DeviceType::kCpu), Device("cpu", DeviceType::kCpu)}), "cpu");
  EXPECT_EQ(Chosen("cpu", {Device("xnnpack", DeviceType::kCpu)}), "xnnpack:0");
}

TEST(Designator, SeveralDevicesOfOneProvider) {
  const std::vector<DeviceInfo> d = {
      Device("reference", DeviceType::kGpu, 0), Device("reference", DeviceType::kGpu, 1),
      Device("reference", DeviceType::kGpu, 2), Device("cpu", DeviceType::kCpu)};
  EXPECT_EQ(Chosen("reference", d), "reference:0");
  EXPECT_EQ(Chosen("reference:2", d), "reference:2");
  EXPECT_EQ(Chosen("gpu:1", d), "reference:1");
  EXPECT_EQ(Chosen("gpu:3", d), "");
  // Every provider counts from 0; over all of them a number is the place in the list.
  const std::vector<DeviceInfo> mixed = {Device("reference", DeviceType::kGpu, 0),
                                         Device("opencl", DeviceType::kGpu, 0),
                                         Device("opencl", DeviceType::kGpu, 1)};
  EXPECT_EQ(Chosen("gpu:0", mixed), "reference:0");
  EXPECT_EQ(Chosen("gpu:1", mixed), "opencl:0");
  EXPECT_EQ(Chosen("gpu:2", mixed), "opencl:1");
  EXPECT_EQ(Chosen("opencl:1", mixed), "opencl:1");
}

TEST(Designator, MissingDevicesAreNamed) {
  try {
    RequireDevice(ParseDesignator("gpu:nvidia"), std::vector<DeviceInfo>{Device("cpu", DeviceType::kCpu)});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kUnsupported);
    EXPECT_EQ(e.message(), "there is no device gpu:nvidia; there is cpu");
  }
}

}  // namespace
}  // namespace ullage::placement
