// Tests GPUs opened to be measured, and measurements of them.
#include "executor/cuda/cuda_gpu.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "executor/cuda/cuda_devices.h"
#include "probe/benches.h"
#include "probe/fill_device.h"
#include "probe/gpu_meters.h"
#include "tests/cuda/cuda_fixture.h"

namespace tidepool::cuda_gpu_test {

GpuWork small_work() {
  return {.products = {{32, 64, 32}},
          .layer = {.vocab_size = 64, .positions = 16, .width = 64, .layers = 1, .attention = {.heads = 1}},
          .batch = {.sequences = 1, .tokens = 16},
          .elements = 64 * kib,
          .copies = {.bytes = Bytes{128 * kib}, .piece = Bytes{64 * kib}}};
}

// A clock that advances when it is read, so that one call makes a sample, however slow it is.
Clock impatient_clock() {
  return [now = 0.0]() mutable { return now += 1; };
}

constexpr std::array<u32, 1> first_gpu{0};

std::unique_ptr<Meter> copy_meter(Device& device, const GpuMeterOptions& options) {
  return create_copy_meter(device, {.work = options.work.copies, .now = options.now});
}

class CudaGpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef CUDA_EMULATED
    emulated_cuda::reset({.devices = 2});
#endif
    register_cuda();
    if (!gpu_backend()->why_none(first_gpu).empty()) GTEST_SKIP() << "no GPU here";
    const GpuWork work = small_work();
    host_ = Arena::create({.name = "host", .bytes = work.host_memory()}).value();
    device_ = gpu_backend()->open({.memory = work.memory(), .host_memory = host_->memory()}).value();
  }

  std::unique_ptr<Arena> host_;
  std::unique_ptr<MeasuredDevice> device_;
};

TEST_F(CudaGpuTest, EverythingIsMeasured) {
  const GpuMeterOptions options{.work = small_work(), .now = impatient_clock()};
  Rates rates;
  const auto compute = create_gpu_compute_meter(*device_, options);
  ASSERT_TRUE(compute) << compute.error().message;
  const auto measured = (*compute)->measure(rates);
  ASSERT_TRUE(measured) << measured.error().message;
  const auto copied = copy_meter(*device_, options)->measure(rates);
  ASSERT_TRUE(copied) << copied.error().message;
  EXPECT_NEAR(rates.median("copies.h2d"), 128 * 1024, 1) << "bytes of two pieces in a second";
  EXPECT_NEAR(rates.median("copies.both"), 256 * 1024, 1);
  EXPECT_NEAR(rates.median("device.update"), 26 * 64 * 1024, 1);
  for (const std::string& key :
       {product_key(Precision::fp32, 0), std::string(layer_key), std::string(launch_key)})
    EXPECT_NE(rates.find(key), nullptr) << key;
  EXPECT_EQ(rates.find(product_key(Precision::bf16, 0)) != nullptr, device_->facts().has_bf16);
}

TEST_F(CudaGpuTest, FilledNumbersReachTheDeviceAndTheHost) {
  const auto memory = device_->memory().first(64 * kib), host = device_->host_memory();
  ASSERT_TRUE(fill_device(*device_, memory, Precision::bf16, 0.5f));
  device_->copy_d2h(host.subspan(64 * kib, 64 * kib), memory);
  ASSERT_TRUE(device_->wait());
  EXPECT_EQ(std::memcmp(host.data(), host.data() + 64 * kib, 64 * kib), 0);
}

// A GPU multiplies zeros faster, and the host's memory is mostly zeros.
TEST_F(CudaGpuTest, CopiesLeaveTheOperandsOfProducts) {
  const GpuMeterOptions options{.work = small_work(), .now = impatient_clock()};
  ASSERT_TRUE(create_gpu_compute_meter(*device_, options));
  const u64 bytes = 18 * kib;  // operands of the product: 12 KiB of fp32, 6 KiB of bf16
  const auto operands = device_->memory().first(bytes), host = device_->host_memory();
  const auto read = [&] {
    device_->copy_d2h(host.first(bytes), operands);
    EXPECT_TRUE(device_->wait());
    return std::vector<std::byte>(host.begin(), host.begin() + bytes);
  };
  const std::vector<std::byte> before = read();
  std::ranges::fill(host, std::byte{0});
  Rates rates;
  ASSERT_TRUE(copy_meter(*device_, options)->measure(rates));
  EXPECT_EQ(read(), before);
}

TEST_F(CudaGpuTest, BenchmarksRun) {
  const Precision precision = layer_precision(device_->facts());
  const auto products = layer_products(16, 32);
  ASSERT_LE(product_memory(products, precision).value, device_->memory().size());
  const DeviceBenchOptions options{.repetitions = 1, .now = impatient_clock()};
  const auto rows = bench_products(*device_, products, precision, options);
  ASSERT_TRUE(rows) << rows.error().message;
  const AttentionWork work{.shape = {.sequences = 1, .tokens = 64, .heads = 2, .head_size = 64},
                           .precision = precision,
                           .peak_side = 64};
  ASSERT_LE(work.memory().value, device_->memory().size());
  const auto attention = bench_attention(*device_, work, options);
  ASSERT_TRUE(attention) << attention.error().message;
  const auto copies = bench_copies(*device_, Bytes{128 * kib}, {Bytes{64 * kib}}, options);
  ASSERT_TRUE(copies) << copies.error().message;
}

#ifdef CUDA_EMULATED

TEST_F(CudaGpuTest, FactsComeFromTheDriver) {
  EXPECT_EQ(device_->facts().name, "Emulated GPU");
  EXPECT_EQ(device_->facts().count, 2u);
  EXPECT_EQ(device_->facts().processors, 132u);
  EXPECT_TRUE(device_->facts().has_bf16);
  EXPECT_LT(gpu_backend()->free_memory(0).value(), device_->facts().memory);
  EXPECT_NE(gpu_backend()->why_none(std::array{2u}).find("2 GPUs"), std::string::npos);
}

TEST_F(CudaGpuTest, FaultsNameTheMeasurement) {
  const auto ends_with = [&](cudaError_t error, const auto& call) {
    emulated_cuda::set_faults({.operation = 1, .operation_error = error});
    call();
    const auto waited = device_->wait();
    emulated_cuda::clear_failure();
    emulated_cuda::set_faults({});
    cudaGetLastError();
    EXPECT_FALSE(waited);
    return waited ? std::string() : waited.error().message;
  };
  const auto memory = device_->memory(), host = device_->host_memory();
  const std::string copy = ends_with(cudaErrorECCUncorrectable,
                                     [&] { device_->copy_h2d(memory.first(mib / 4), host.first(mib / 4)); });
  EXPECT_NE(copy.find("measuring cuda:0"), std::string::npos) << copy;
  EXPECT_NE(copy.find("cudaErrorECCUncorrectable"), std::string::npos) << copy;
  const std::string kernel = ends_with(
      cudaErrorLaunchFailure, [&] { device_->kernels().zero(reinterpret_cast<float*>(memory.data()), 64); });
  EXPECT_NE(kernel.find("measuring cuda:0 compute"), std::string::npos) << kernel;
}

#endif

}  // namespace tidepool::cuda_gpu_test
