// Tests the emulation itself: its results, and that it stops on errors that hardware leaves to chance.
#include <algorithm>

#include "kernels/cuda/async_copy.h"
#include "kernels/cuda/launch.h"
#include "tests/cuda/cuda_fixture.h"

namespace tidepool::test::emulated_language_test {

using namespace cuda;

using EmulatedLanguageTest = CudaTest;
using EmulatedLanguageDeathTest = CudaTest;

__global__ void reverse_kernel(const u32* x, u32* y, bool wait) {
  BLOCK_SHARED(u32[256], shared);
  shared[threadIdx.x] = x[threadIdx.x];
  if (wait) __syncthreads();
  y[threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}

TEST_F(EmulatedLanguageTest, SharedMemoryIsVisibleOnlyAfterABarrier) {
  std::vector<u32> x(256);
  for (u32 i = 0; i < 256; ++i) x[i] = i;
  const DeviceArray from(x.data(), 1024), to(1024);
  launch(reverse_kernel, {.block = {256}}, stream_, from.as<u32>(), to.as<u32>(), true);
  synchronize();
  const std::vector<u32> reversed = to.values<u32>();
  for (u32 i = 0; i < 256; ++i) ASSERT_EQ(reversed[i], 255 - i);
  launch(reverse_kernel, {.block = {256}}, stream_, from.as<u32>(), to.as<u32>(), false);
  synchronize();
  EXPECT_NE(to.values<u32>(), reversed) << "without the barrier some threads read what is not there yet";
}

__global__ void early_copy_kernel(const uint4* in, uint4* out) {
  BLOCK_SHARED(uint4[1], shared);
  async_copy_16(&shared[0], in);
  async_copy_commit();
  async_copy_wait<1>();  // one group may be in flight: this one
  *out = shared[0];
}

TEST_F(EmulatedLanguageTest, AnAsynchronousCopyArrivesAtItsWait) {
  const u32 in[4] = {1, 2, 3, 4};
  const DeviceArray from(in, 16), to(16);
  launch(early_copy_kernel, {.block = {1}}, stream_, from.as<uint4>(), to.as<uint4>());
  synchronize();
  EXPECT_EQ(to.value<u32>(0), 0xffff'ffffu) << "shared memory is poisoned";
}

__global__ void order_kernel(u32* order, u32* next) { order[blockIdx.x] = (*next)++; }

TEST_F(EmulatedLanguageTest, BlocksRunOnceEachInNoOrder) {
  const DeviceArray order(400), next(4);
  next.set(0u);
  launch(order_kernel, {.grid = {100}, .block = {1}}, stream_, order.as<u32>(), next.as<u32>());
  synchronize();
  EXPECT_EQ(next.value<u32>(), 100u);
  const std::vector<u32> began = order.values<u32>();
  EXPECT_FALSE(std::is_sorted(began.begin(), began.end()));
}

__global__ void lost_thread_kernel() {
  if (threadIdx.x == 40) return;
  __syncthreads();
}
__global__ void two_barriers_kernel() {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}
__global__ void lost_lane_kernel() {
  if (threadIdx.x != 7) __syncwarp();
}
__global__ void outside_kernel(float* y) { y[threadIdx.x] = 1; }

TEST_F(EmulatedLanguageDeathTest, UndefinedBehaviourOfHardwareStopsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const DeviceArray y(63 * 4);
  const LaunchShape two_warps = {.block = {64}};
  const auto run = [&](auto kernel, auto... arguments) {
    launch(kernel, two_warps, stream_, arguments...);
    synchronize();
  };
  EXPECT_DEATH(run(lost_thread_kernel), "thread \\(40, 0, 0\\) has left the kernel");
  EXPECT_DEATH(run(two_barriers_kernel), "different barriers");
  EXPECT_DEATH(run(lost_lane_kernel), "62 in warp collectives|31 in warp collectives");
  EXPECT_DEATH(run(outside_kernel, y.as<float>()), "behind an allocation of 252 bytes");
}

}  // namespace tidepool::test::emulated_language_test
