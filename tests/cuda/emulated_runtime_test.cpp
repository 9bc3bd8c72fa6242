// Tests streams, events, memory and faults of the emulated runtime.
#include "kernels/cuda/device.h"
#include "kernels/cuda/launch.h"
#include "tests/cuda/cuda_fixture.h"

namespace tidepool::test::emulated_runtime_test {

using namespace cuda;

__global__ void add_kernel(u32* x, u32 amount) { *x += amount; }

__global__ void both_shared_kernel(u32* x) {
  BLOCK_SHARED(u32[1024], sums);
  u32* const more = dynamic_shared<u32>();
  sums[0] = 2, more[0] = 3;
  *x = sums[0] + more[0];
}

class EmulatedRuntimeTest : public CudaTest {
 protected:
  EmulatedRuntimeTest() {
    EXPECT_EQ(cudaStreamCreateWithFlags(&other_, cudaStreamNonBlocking), cudaSuccess);
    EXPECT_EQ(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), cudaSuccess);
    EXPECT_EQ(cudaHostAlloc(&host_, 4, cudaHostAllocDefault), cudaSuccess);
  }
  ~EmulatedRuntimeTest() override {
    emulated_cuda::set_faults({});
    cudaFreeHost(host_);
    cudaEventDestroy(event_);
    cudaStreamDestroy(other_);
  }
  void restart(const emulated_cuda::Options& options) {
    cudaFreeHost(host_);
    cudaEventDestroy(event_);
    cudaStreamDestroy(other_);
    cudaStreamDestroy(stream_);
    emulated_cuda::reset(options);
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaStreamCreateWithFlags(&other_, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), cudaSuccess);
    ASSERT_EQ(cudaHostAlloc(&host_, 4, cudaHostAllocDefault), cudaSuccess);
  }
  // A copy to the device in one stream and a kernel in another, with or without a wait between them.
  u32 pipeline(bool wait) {
    const DeviceArray x(4);
    x.set(100u);
    *host_ = 1;
    cudaMemcpyAsync(x.data(), host_, 4, cudaMemcpyHostToDevice, other_);
    cudaEventRecord(event_, other_);
    if (wait) cudaStreamWaitEvent(stream_, event_, 0);
    launch(add_kernel, {}, stream_, x.as<u32>(), 5u);
    cudaStreamSynchronize(stream_);
    const u32 got = x.value<u32>();
    cudaStreamSynchronize(other_);
    return got;
  }

  cudaStream_t other_ = nullptr;
  cudaEvent_t event_ = nullptr;
  u32* host_ = nullptr;
};

TEST_F(EmulatedRuntimeTest, AMissingWaitShowsWhenStreamsRunLate) {
  restart({.late_streams = true});
  EXPECT_EQ(pipeline(true), 6u);
  EXPECT_EQ(pipeline(false), 105u) << "nobody asked for the copy, so the kernel came first";
}

TEST_F(EmulatedRuntimeTest, JitterKeepsTheOrderOfEvents) {
  for (u64 seed = 1; seed < 6; ++seed) {
    restart({.seed = seed, .jitter_us_max = 300});
    EXPECT_EQ(pipeline(true), 6u);
  }
}

TEST_F(EmulatedRuntimeTest, CallsAreRecordedInTheHostsOrder) {
  emulated_cuda::clear_calls();
  pipeline(true);
  using emulated_cuda::CallKind;
  std::vector<CallKind> kinds;
  for (const auto& call : emulated_cuda::calls()) kinds.push_back(call.kind);
  EXPECT_EQ(kinds, (std::vector{CallKind::allocate, CallKind::copy, CallKind::event_record,
                                CallKind::stream_wait_event, CallKind::launch, CallKind::stream_synchronize,
                                CallKind::stream_synchronize, CallKind::free}));
  const auto wait = emulated_cuda::calls()[3];
  EXPECT_EQ(wait.stream, emulated_cuda::number_of(stream_));
  EXPECT_EQ(wait.event, emulated_cuda::number_of(event_));
}

TEST_F(EmulatedRuntimeTest, AWaitIsForTheEventAsRecordedAtTheCall) {
  ASSERT_EQ(cudaStreamWaitEvent(stream_, event_, 0), cudaSuccess);  // never recorded: passes
  synchronize();
  ASSERT_EQ(cudaEventRecord(event_, other_), cudaSuccess);
  ASSERT_EQ(cudaEventSynchronize(event_), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event_), cudaSuccess);
}

TEST_F(EmulatedRuntimeTest, NotReadyIsAlsoTheThreadsLastError) {
  restart({.late_streams = true});
  const DeviceArray x(4);
  ASSERT_EQ(cudaMemsetAsync(x.data(), 0, 4, stream_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event_), cudaErrorNotReady);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(x.data(), 0, 4, other_), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(other_), cudaErrorNotReady);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady);
  synchronize();
  EXPECT_EQ(cudaStreamSynchronize(other_), cudaSuccess);
}

TEST_F(EmulatedRuntimeTest, AnErrorOfTheDeviceStays) {
  emulated_cuda::set_faults({.operation = 1, .operation_error = cudaErrorECCUncorrectable});
  ASSERT_EQ(cudaMemsetAsync(host_, 0, 0, stream_), cudaSuccess);
  const DeviceArray x(4);
  x.set(1u);
  launch(add_kernel, {}, stream_, x.as<u32>(), 5u);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorECCUncorrectable);
  EXPECT_EQ(cudaGetLastError(), cudaErrorECCUncorrectable);
  EXPECT_EQ(cudaGetLastError(), cudaErrorECCUncorrectable);
  EXPECT_EQ(x.value<u32>(), 1u) << "what failed did nothing";
  emulated_cuda::clear_failure();
}

TEST_F(EmulatedRuntimeTest, AllocationsAndLaunchesFailOnDemand) {
  emulated_cuda::set_faults({.device_allocation = 2, .host_allocation = 1});
  void *first = nullptr, *second = nullptr;
  EXPECT_EQ(cudaMalloc(&first, 16), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&second, 16), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaHostAlloc(&second, 16, 0), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "an error that is not sticky is told once";
  EXPECT_EQ(cudaFree(first), cudaSuccess);
  int count = -1;
  emulated_cuda::set_faults({.every_call = cudaErrorInsufficientDriver});
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
  emulated_cuda::set_faults({});
  cudaGetLastError();
}

TEST_F(EmulatedRuntimeTest, MemoryIsCountedAgainstTheDevice) {
  restart({.device_memory_bytes = 1000, .taken_by_others_bytes = 300});
  std::size_t free_bytes = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free_bytes, &total), cudaSuccess);
  EXPECT_EQ(free_bytes, 700u);
  void* p = nullptr;
  EXPECT_EQ(cudaMalloc(&p, 701), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMalloc(&p, 700), cudaSuccess);
  EXPECT_EQ(cudaFree(p), cudaSuccess);
  EXPECT_EQ(emulated_cuda::live().device_bytes_peak, 700u);
}

TEST_F(EmulatedRuntimeTest, ShapesThatADriverRefusesStopTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const DeviceArray x(4);
  const auto run = [&](const LaunchShape& shape) { launch(add_kernel, shape, stream_, x.as<u32>(), 5u); };
  EXPECT_DEATH(run({.block = {1025}}), "cudaErrorInvalidConfiguration .*1025");
  EXPECT_DEATH(run({.grid = {1, 65536}}), "cudaErrorInvalidConfiguration .*65536");
  EXPECT_DEATH(run({.shared_bytes = 228 * 1024}), "cudaErrorInvalidValue");
  x.set(0u);
  run({.shared_bytes = 227 * 1024});
  synchronize();
  EXPECT_EQ(x.value<u32>(), 5u);
}

TEST_F(EmulatedRuntimeTest, StaticAndDynamicSharedMemoryCountTogether) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const DeviceArray x(4);
  const auto run = [&](u32 shared_bytes) {
    launch(both_shared_kernel, {.shared_bytes = shared_bytes}, stream_, x.as<u32>());
    synchronize();
  };
  for (const u32 kib_of_block : {48u, 227u}) {  // the default, and a requested size
    EXPECT_DEATH(run(kib_of_block * 1024 - 4095), "4096 bytes of static shared memory, .* leaves 4095");
    run(kib_of_block * 1024 - 4096);
    EXPECT_EQ(x.value<u32>(), 5u);
  }
}

TEST_F(EmulatedRuntimeTest, AnExistingContextKeepsItsFlags) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  restart({.devices = 2});  // streams have started the first device
  const auto start = [] {
    return cudaInitDevice(1, cudaDeviceScheduleBlockingSync, cudaInitDeviceFlagsAreValid);
  };
  EXPECT_DEATH(cudaSetDevice(1) == cudaSuccess ? start() : cudaErrorUnknown,
               "a context with flags 0 is there");
  EXPECT_EQ(start(), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(start(), cudaSuccess) << "nothing changes";
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
}

// NaNs reveal a kernel that reads there even if it multiplies by zero.
TEST_F(EmulatedRuntimeTest, AllocationsAreSurroundedByNans) {
  for (const u64 bytes : {u64{64}, u64{66}}) {
    const DeviceArray x(bytes);
    const std::byte* const behind = x.data() + bytes;
    u16 half = 0;
    float whole = 0, before = 0;
    std::memcpy(&half, behind, 2), std::memcpy(&whole, behind, 4), std::memcpy(&before, x.data() - 4, 4);
    EXPECT_TRUE(std::isnan(whole) && std::isnan(before)) << bytes;
    for (const Precision precision : {Precision::bf16, Precision::fp16})
      EXPECT_TRUE(std::isnan(value_of_half(half, precision))) << bytes;
  }
}

TEST_F(EmulatedRuntimeTest, PageableCopiesStopTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const DeviceArray x(4);
  u32 pageable = 0;
  EXPECT_DEATH(cudaMemcpyAsync(x.data(), &pageable, 4, cudaMemcpyHostToDevice, stream_), "source is neither");
  EXPECT_DEATH(cudaMemcpyAsync(x.data(), host_, 4, cudaMemcpyDeviceToHost, stream_),
               "kind says something else");
  EXPECT_DEATH(cudaMemcpyAsync(x.data(), host_, 8, cudaMemcpyHostToDevice, stream_), "target is neither");
  ASSERT_EQ(cudaHostRegister(&pageable, 4, cudaHostRegisterDefault), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(&pageable, x.data(), 4, cudaMemcpyDeviceToHost, stream_), cudaSuccess);
  synchronize();
  EXPECT_EQ(pageable, 0xffff'ffffu) << "device memory that nobody wrote";
  EXPECT_EQ(cudaHostUnregister(&pageable), cudaSuccess);
}

}  // namespace tidepool::test::emulated_runtime_test
