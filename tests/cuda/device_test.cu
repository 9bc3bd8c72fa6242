// Tests the vocabulary of device code: shuffles, reductions, matrix instructions.
#include "kernels/cuda/async_copy.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/quad_pairs.h"
#include "kernels/cuda/tensor_core.h"
#include "tests/cuda/cuda_fixture.h"
#include "tests/support/gpu_precision.h"

namespace tidepool::test {
namespace {

using namespace cuda;

using CudaDeviceTest = CudaTest;

constexpr int capability_of_matrices = 75;  // sm_70 has only the instructions of quad pairs

__global__ void shuffle_kernel(i32* y) {
  const i32 lane = static_cast<i32>(lane_index());
  y[5 * lane + 0] = __shfl_xor_sync(all_lanes, lane, 3);
  y[5 * lane + 1] = __shfl_down_sync(all_lanes, lane, 5u);
  y[5 * lane + 2] = __shfl_up_sync(all_lanes, lane, 5u);
  y[5 * lane + 3] = __shfl_sync(all_lanes, lane, 9, 8);
  y[5 * lane + 4] = static_cast<i32>(__ballot_sync(all_lanes, lane % 3 == 0));
}

TEST_F(CudaDeviceTest, ShufflesAreCudas) {
  const DeviceArray y(32 * 5 * 4);
  launch(shuffle_kernel, {.block = {32}}, stream_, y.as<i32>());
  synchronize();
  const std::vector<i32> all = y.values<i32>();
  for (i32 lane = 0; lane < 32; ++lane) {
    const i32* got = all.data() + 5 * lane;
    EXPECT_EQ(got[0], lane ^ 3);
    EXPECT_EQ(got[1], lane + 5 < 32 ? lane + 5 : lane);
    EXPECT_EQ(got[2], lane >= 5 ? lane - 5 : lane);
    EXPECT_EQ(got[3], lane / 8 * 8 + 1);
    EXPECT_EQ(got[4], 0x4924'9249);
  }
}

__global__ void sum_kernel(double* y) {
  const float sum = block_sum(static_cast<float>(threadIdx.x + 1));
  const double again = block_sum(double(threadIdx.x));
  const float most = block_max(static_cast<float>(threadIdx.x));
  y[3 * threadIdx.x] = sum, y[3 * threadIdx.x + 1] = again, y[3 * threadIdx.x + 2] = most;
}

TEST_F(CudaDeviceTest, ReductionsReachEveryThread) {
  for (const u32 threads : {32u, 96u, 1024u}) {
    const DeviceArray y(threads * 24);
    launch(sum_kernel, {.block = {threads}}, stream_, y.as<double>());
    synchronize();
    const std::vector<double> got = y.values<double>();
    for (u32 i = 0; i < threads; ++i) {
      ASSERT_EQ(got[3 * i], threads * (threads + 1) / 2);
      ASSERT_EQ(got[3 * i + 1], threads * (threads - 1) / 2);
      ASSERT_EQ(got[3 * i + 2], threads - 1);
    }
  }
}

struct alignas(16) Tiles {
  u16 a[16][16];  // row-major
  u16 b[8][16];   // columns: b[n][k]
  float d[16][8];
};

// From shared memory, as in kernels: a by rows, b by columns.
template <class Half>
__global__ void mma_kernel(const Tiles* in, float* emulated, float* plain) {
  BLOCK_SHARED(Tiles, tiles);
  const uint4* words = reinterpret_cast<const uint4*>(in);
  for (u32 i = lane_index(); i < sizeof(Tiles) / 16; i += 32)
    async_copy_16(reinterpret_cast<uint4*>(&tiles) + i, words + i);
  async_copy_commit();
  async_copy_wait<0>();
  __syncthreads();
  u32 a[4], b[4];
  const u32 m = lane_index() / 8, r = lane_index() % 8;
  load_matrices(a, &tiles.a[r + 8 * (m % 2)][8 * (m / 2)]);
  load_matrices(b, &tiles.b[r][8 * (m % 2)]);
  const u32 right[2] = {b[0], b[1]};
  float d[4], p[4];
  const u32 row = lane_index() / 4, column = 2 * (lane_index() % 4);
  for (u32 i = 0; i < 4; ++i) d[i] = p[i] = tiles.d[row + 8 * (i / 2)][column + i % 2];
  mma_16x8x16<Half>(d, a, right);
  mma_plain<Half>(p, a, right);
  for (u32 i = 0; i < 4; ++i) {
    const u32 at = (row + 8 * (i / 2)) * 8 + column + i % 2;
    emulated[at] = d[i], plain[at] = p[i];
  }
}

template <class Half>
void expect_products(Precision precision, cudaStream_t stream) {
  Tiles tiles;
  const HalfCopy a(random_floats(256, 1), precision), b(random_floats(128, 2), precision);
  const auto d = random_floats(128, 3);
  std::memcpy(tiles.a, a.bits.data(), sizeof tiles.a);
  std::memcpy(tiles.b, b.bits.data(), sizeof tiles.b);
  std::memcpy(tiles.d, d.data(), sizeof tiles.d);
  std::vector<double> want(128);
  for (u32 i = 0; i < 128; ++i) {
    want[i] = d[i];
    for (u32 k = 0; k < 16; ++k) want[i] += double(a.values[i / 8 * 16 + k]) * b.values[i % 8 * 16 + k];
  }
  const DeviceArray in(&tiles, sizeof tiles), out(512), plain(512);
  launch(mma_kernel<Half>, {.block = {32}}, stream, in.as<Tiles>(), out.as<float>(), plain.as<float>());
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_LE(relative_error(out.values<float>(), want), 1e-6);
  EXPECT_LE(relative_error(plain.values<float>(), want), 1e-6);
}

TEST_F(CudaDeviceTest, MatrixInstructionsMultiply) {
  if (gpu_capability() < capability_of_matrices) GTEST_SKIP() << "this GPU has not the instruction";
  if (gpu_multiplies(Precision::bf16)) expect_products<Bf16>(Precision::bf16, stream_);
  expect_products<Fp16>(Precision::fp16, stream_);
}

// Tiles of four quad pairs.
struct QuadTiles {
  u16 a[4][8][4];  // row-major
  u16 b[4][4][8];  // row-major
  float d[4][8][8];
};

template <RightFactorBy by>
__global__ void quad_pairs_kernel(const QuadTiles* in, float* out) {
  const u32 pair = lane_index() / 4 % 4, eighth = lane_index() % 4 + 4 * (lane_index() / 16);
  u32 a[2] = {}, b[2] = {};
  for (u32 i = 0; i < 4; ++i) {
    const u16 right = by == RightFactorBy::columns
                          ? in->b[pair][i][eighth]
                          : in->b[pair][lane_index() % 4][4 * (lane_index() / 16) + i];
    a[i / 2] |= u32{in->a[pair][eighth][i]} << 16 * (i % 2);
    b[i / 2] |= u32{right} << 16 * (i % 2);
  }
  float d[2][4];
  const auto place = [&](u32 i) {
    const u32 row = lane_index() % 2 + 4 * (lane_index() / 16) + (i & 2),
              column = (lane_index() & 2) + (i & 5);
    return (pair * 8 + row) * 8 + column;
  };
  for (u32 i = 0; i < 8; ++i) d[i / 4][i % 4] = (&in->d[0][0][0])[place(i)];
  mma_8x8x4<by>(d[0], d[1], a, b);
  for (u32 i = 0; i < 8; ++i) out[place(i)] = d[i / 4][i % 4];
}

// Runs on any GPU: those after sm_70 have the instruction too.
TEST_F(CudaDeviceTest, QuadPairsMultiply) {
#ifdef CUDA_EMULATED
  ASSERT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
  emulated_cuda::reset({.major = 7, .minor = 0});
  make_stream();
#endif
  QuadTiles tiles;
  const HalfCopy a(random_floats(128, 1), Precision::fp16), b(random_floats(128, 2), Precision::fp16);
  const auto d = random_floats(256, 3);
  std::memcpy(tiles.a, a.bits.data(), sizeof tiles.a);
  std::memcpy(tiles.b, b.bits.data(), sizeof tiles.b);
  std::memcpy(tiles.d, d.data(), sizeof tiles.d);
  std::vector<double> want(d.begin(), d.end());
  for (u32 i = 0; i < 256; ++i) {
    const u32 pair = i / 64, row = i / 8 % 8, column = i % 8;
    for (u32 k = 0; k < 4; ++k)
      want[i] += double(a.values[(pair * 8 + row) * 4 + k]) * b.values[(pair * 4 + k) * 8 + column];
  }
  const DeviceArray in(&tiles, sizeof tiles), by_columns(1024), by_rows(1024);
  launch(quad_pairs_kernel<RightFactorBy::columns>, {.block = {32}}, stream_, in.as<QuadTiles>(),
         by_columns.as<float>());
  launch(quad_pairs_kernel<RightFactorBy::rows>, {.block = {32}}, stream_, in.as<QuadTiles>(),
         by_rows.as<float>());
  synchronize();
  for (const DeviceArray* got : {&by_columns, &by_rows})
    EXPECT_LE(relative_error(got->values<float>(), want), 1e-6);
}

struct alignas(16) Rows {
  u16 at[32][8];
};

__global__ void transposed_kernel(const u16* in, u32* out) {
  BLOCK_SHARED(Rows, rows);
  for (u32 i = 0; i < 8; ++i) rows.at[lane_index()][i] = in[8 * lane_index() + i];
  __syncwarp();
  u32 r[4];
  load_matrices_transposed(r, rows.at[lane_index()]);
  for (u32 m = 0; m < 4; ++m) out[4 * lane_index() + m] = r[m];
}

TEST_F(CudaDeviceTest, MatricesAreTransposedOnTheWay) {
  if (gpu_capability() < capability_of_matrices) GTEST_SKIP() << "this GPU has not the instruction";
  std::vector<u16> in(256);
  for (u32 i = 0; i < 256; ++i) in[i] = static_cast<u16>(i);
  const DeviceArray from(in.data(), 512), to(512);
  launch(transposed_kernel, {.block = {32}}, stream_, from.as<u16>(), to.as<u32>());
  synchronize();
  const std::vector<u32> got = to.values<u32>();
  for (u32 lane = 0; lane < 32; ++lane) {
    for (u32 m = 0; m < 4; ++m) {
      const u32 first = 64 * m + 16 * (lane % 4) + lane / 4;
      EXPECT_EQ(got[4 * lane + m], first | (first + 8) << 16);
    }
  }
}

}  // namespace
}  // namespace tidepool::test
