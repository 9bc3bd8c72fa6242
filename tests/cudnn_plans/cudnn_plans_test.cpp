// Tests our graphs of attention against a real cuDNN, without a GPU: it makes plans for a described GPU and
// compiles their kernels. The kernels' results are not tested here.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "kernels/attention/cudnn_attention_graph_cuda.h"
#include "tests/support/places.h"

namespace tidepool::cuda {
namespace {

// An H200's answers to cuDNN's cudaDeviceGetAttribute queries, under cuDNN's names.
constexpr const char* h200 = R"({
  "driverVer": 13000, "deviceVer": 900, "cudaDeviceId": 0, "deviceName": "NVIDIA H200",
  "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536,
  "multiProcessorCount": 132, "smClockRateKHz": 1980000, "memClockRateKHz": 3201000,
  "l2CacheSize": 62914560, "warpSize": 32, "maxSharedMemoryPerBlock": 49152,
  "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024,
  "maxRegistersPerSM": 65536, "pciDeviceId": 0, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024,
  "maxThreadsPerSM": 2048, "isTccDriver": 0, "supportCoopLaunch": 1, "totalGlobalMem": 150754820096,
  "smCountOrigin": 0, "oversizedSharedMemoryPerBlock": 0, "memoryBusWidth": 6144})";

class CudnnPlans : public testing::Test {
 protected:
  void SetUp() override {
    // Loaded under this name, cuDNN finds the library and takes it for the driver.
    ASSERT_NE(::dlopen(built_file("tests/fake_libcuda/libcuda.so.1").c_str(), RTLD_NOW | RTLD_GLOBAL),
              nullptr)
        << ::dlerror();
    auto loaded = cudnn::Library::load();
    // Fallback: the folder of a toolkit that the loader does not search.
    if (!loaded && std::getenv("TIDEPOOL_CUDNN") == nullptr) {
      ::setenv("TIDEPOOL_CUDNN", "/usr/local/cuda/lib64/libcudnn.so.9", 1);
      loaded = cudnn::Library::load();
      ::unsetenv("TIDEPOOL_CUDNN");
    }
    if (!loaded) GTEST_SKIP() << loaded.error().message;
    library_ = std::move(loaded).value();
  }

  Result<std::unique_ptr<cudnn::Plan>> plan(cudnn::Graph graph) {
    TRY_ASSIGN(const auto device, cudnn::DeviceProperties::of_json(*library_, h200));
    return cudnn::Plan::create(*library_, device, std::move(graph), why_not_);
  }

  void expect_plans(const AttentionShape& s, const AttentionSlice& slice, Precision precision) {
    SCOPED_TRACE(fmt::format("{} b{} t{} h{} kv{} d{}, slices of {} x {}", name(precision), s.sequences,
                             s.tokens, s.heads, s.key_heads(), s.head_size, slice.sequences, slice.kv_heads));
    const auto forward = plan(cudnn_attention_forward(*library_, s, slice, precision));
    ASSERT_TRUE(forward) << forward.error().message;
    ASSERT_NE(*forward, nullptr) << why_not_;
    EXPECT_LE((*forward)->workspace().value, cudnn_attention_slack);
    const auto backward = plan(cudnn_attention_backward(*library_, s, slice, precision));
    ASSERT_TRUE(backward) << backward.error().message;
    ASSERT_NE(*backward, nullptr) << why_not_;
    const u64 room = cudnn_backward_bytes(s, slice) - cudnn_softmax_sum_bytes(s, slice);
    EXPECT_LE((*backward)->workspace().value, room);
    EXPECT_GE((*backward)->workspace().value, cudnn_ds_bytes(s, slice));
  }

  std::unique_ptr<cudnn::Library> library_;
  std::string why_not_;
};

constexpr AttentionShape shape_of(u32 sequences, u32 tokens, u32 heads, u32 kv_heads, u32 head_size) {
  return {
      .sequences = sequences, .tokens = tokens, .heads = heads, .head_size = head_size, .kv_heads = kv_heads};
}

TEST_F(CudnnPlans, AreMadeOfOurGraphs) {
  for (const Precision precision : {Precision::bf16, Precision::fp16}) {
    expect_plans(shape_of(16, 2048, 32, 32, 128), {8, 32}, precision);
    expect_plans(shape_of(8, 1024, 32, 8, 128), {1, 4}, precision);
    expect_plans(shape_of(4, 1024, 12, 12, 64), {4, 12}, precision);
  }
}

TEST_F(CudnnPlans, KnowOddSizes) {
  expect_plans(shape_of(2, 129, 4, 2, 96), {1, 1}, Precision::bf16);
  expect_plans(shape_of(2, 1000, 12, 4, 80), {2, 4}, Precision::bf16);
  expect_plans(shape_of(1, 128, 2, 2, 8), {1, 2}, Precision::fp16);
  expect_plans(shape_of(1, 16384, 32, 8, 128), {1, 1}, Precision::bf16);
}

// A shape without an engine is a valid answer, not a failure.
TEST_F(CudnnPlans, AreNotMadeForOtherShapes) {
  const auto none =
      plan(cudnn_attention_backward(*library_, shape_of(1, 1024, 2, 2, 512), {1, 2}, Precision::bf16));
  ASSERT_TRUE(none) << none.error().message;
  EXPECT_EQ(*none, nullptr);
  EXPECT_FALSE(why_not_.empty());
  EXPECT_EQ(why_not_.find('{'), std::string::npos) << why_not_;
}

}  // namespace
}  // namespace tidepool::cuda
