// Embeddings on the device have the CPU's bits, because sums have the same order.
#include <algorithm>

#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/embedding/embedding_launch.h"
#include "kernels/embedding/sort_tokens_cuda.h"
#include "tests/cuda/cuda_fixture.h"

namespace tidepool::test::embedding_test {

struct Sizes {
  u32 sequences, tokens_per_sequence, columns, vocabulary, positions;

  u32 rows() const { return sequences * tokens_per_sequence; }
};

std::vector<i32> tokens_of(const Sizes& s) {
  std::vector<i32> tokens;
  for (u32 i = 0; i < s.rows(); ++i) tokens.push_back(static_cast<i32>(u64{i} * i % 11 % s.vocabulary));
  return tokens;
}

class CudaEmbedding : public CudaTest {
 protected:
  void expect_lookup(const Sizes& s, Precision activation, Precision parameter, float drop, u64 shift);
  void expect_backward(const Sizes& s, Precision precision, u64 shift);

  std::unique_ptr<CorePool> pool_ = make_pool(1);
};

void CudaEmbedding::expect_lookup(const Sizes& s, Precision activation, Precision parameter, float drop,
                                  u64 shift) {
  const auto tokens = tokens_of(s);
  const u64 n = u64{s.rows()} * s.columns;
  const DeviceValues wte(random_floats(u64{s.vocabulary} * s.columns, 1), parameter, shift);
  const DeviceValues wpe(random_floats(u64{s.positions} * s.columns, 2), parameter, shift);
  const DeviceValues out(n, activation, shift);
  const DeviceArray on_device(tokens.data(), tokens.size() * 4);
  Embedding op = {.sequences = s.sequences,
                  .tokens_per_sequence = s.tokens_per_sequence,
                  .columns = s.columns,
                  .tokens = on_device.as<i32>(),
                  .wte = wte.values(),
                  .wpe = wpe.values(),
                  .out = out.values(),
                  .dropout = {.p = drop, .seed = 3, .step = 4}};
  embedding_cuda(op, stream_);
  synchronize();
  std::vector<float> want(n);
  op.tokens = tokens.data(), op.wte = wte.given().data(), op.wpe = wpe.given().data(), op.out = want.data();
  embedding_cpu(op, *pool_);
  EXPECT_TRUE(same_bits(out.now(), rounded_to(want, activation)));

  op.wpe = {}, op.scale = 8.5f;
  embedding_cpu(op, *pool_);
  op.tokens = on_device.as<i32>(), op.wte = wte.values(), op.out = out.values();
  embedding_cuda(op, stream_);
  synchronize();
  EXPECT_TRUE(same_bits(out.now(), rounded_to(want, activation))) << "without positions, scaled";
}

TEST_F(CudaEmbedding, LooksUpAsTheCpuDoes) {
  for (const u32 columns : {64u, 70u, 1u, 13u}) {
    const Sizes s = {3, 7, columns, 9, 8};
    for (const Precision activation : {Precision::fp32, Precision::bf16, Precision::fp16})
      for (const Precision parameter : {Precision::fp32, Precision::bf16, Precision::fp16})
        for (const float drop : {0.0f, 0.2f}) {
          const bool mixed =
              activation != parameter && activation != Precision::fp32 && parameter != Precision::fp32;
          if (!mixed) expect_lookup(s, activation, parameter, drop, columns == 64 ? 0 : 3);
        }
  }
  expect_lookup({3, 7, 64, 9, 8}, Precision::bf16, Precision::bf16, 0.1f, 1);
}

TEST_F(CudaEmbedding, NoiseIsThatOfTheCpu) {
  for (const u32 columns : {64u, 13u}) {
    const Sizes s = {3, 7, columns, 9, 8};
    const auto tokens = tokens_of(s);
    const u64 n = u64{s.rows()} * columns;
    const DeviceValues wte(std::vector<float>(u64{s.vocabulary} * columns), Precision::fp32),
        out(n, Precision::fp32);
    const DeviceArray on_device(tokens.data(), tokens.size() * 4);
    Embedding op = {.sequences = s.sequences,
                    .tokens_per_sequence = s.tokens_per_sequence,
                    .columns = columns,
                    .tokens = on_device.as<i32>(),
                    .wte = wte.values(),
                    .out = out.values(),
                    .noise = {.magnitude = 0.25f, .key = {.seed = 3, .step = 4, .tensor = 1}}};
    embedding_cuda(op, stream_);
    synchronize();
    std::vector<float> want(n);
    op.tokens = tokens.data(), op.wte = wte.given().data(), op.out = want.data();
    embedding_cpu(op, *pool_);
    EXPECT_TRUE(same_bits(out.now(), want));
    double sum = 0, squares = 0;
    for (const float x : want) {
      EXPECT_LE(std::abs(x), 0.25f);
      sum += x, squares += double{x} * x;
    }
    EXPECT_NEAR(sum / double(n), 0, 0.03);
    EXPECT_NEAR(squares / double(n), 0.25 * 0.25 / 3, 0.004);
  }
}

void CudaEmbedding::expect_backward(const Sizes& s, Precision precision, u64 shift) {
  SCOPED_TRACE(testing::Message() << s.rows() << " x " << s.columns << " of " << s.vocabulary);
  const auto tokens = tokens_of(s);
  const u64 wte_elements = u64{s.vocabulary} * s.columns, wpe_elements = u64{s.positions} * s.columns;
  const DeviceValues dout(random_floats(u64{s.rows()} * s.columns, 1), precision, shift);
  const DeviceValues dwte(random_floats(wte_elements, 2), Precision::fp32, shift);
  const DeviceValues dwpe(random_floats(wpe_elements, 3), Precision::fp32, shift);
  const DeviceArray on_device(tokens.data(), tokens.size() * 4), order(s.rows() * 8);
  EmbeddingBackward op = {.sequences = s.sequences,
                          .tokens_per_sequence = s.tokens_per_sequence,
                          .columns = s.columns,
                          .vocabulary = s.vocabulary,
                          .positions = s.positions};
  auto want_wte = dwte.given(), want_wpe = dwpe.given();
  std::vector<u64> host_order(s.rows());
  for (const bool accumulate : {true, false}) {
    op.accumulate = accumulate;
    op.tokens = on_device.as<i32>(), op.dout = dout.values(), op.order = order.as<u64>();
    op.dwte = dwte.values().fp32(), op.dwpe = dwpe.values().fp32();
    embedding_backward_cuda(op, stream_);
    synchronize();
    op.tokens = tokens.data(), op.dout = dout.given().data(), op.order = host_order.data();
    op.dwte = want_wte.data(), op.dwpe = want_wpe.data();
    embedding_backward_cpu(op, *pool_);
    EXPECT_TRUE(same_bits(dwte.now(), want_wte));
    EXPECT_TRUE(same_bits(dwpe.now(), want_wpe));
  }
  op.tokens = on_device.as<i32>(), op.dout = dout.values(), op.order = order.as<u64>();
  op.dwte = dwte.values().fp32(), op.dwpe = nullptr;  // no positions; the last pass overwrote
  embedding_backward_cuda(op, stream_);
  synchronize();
  EXPECT_TRUE(same_bits(dwte.now(), want_wte));
  op.scale = 4;  // a power of two scales exactly
  embedding_backward_cuda(op, stream_);
  synchronize();
  for (float& value : want_wte) value *= 4;
  EXPECT_TRUE(same_bits(dwte.now(), want_wte));
}

TEST_F(CudaEmbedding, BackwardGivesTheSameBitsAsTheCpu) {
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    expect_backward({3, 50, 72, 13, 60}, precision, 0);
    expect_backward({3, 50, 70, 13, 50}, precision, 0);
    expect_backward({2, 30, 72, 1, 30}, precision, 1);   // one token only
    expect_backward({1, 5, 1100, 40, 8}, precision, 0);  // several blocks of columns
  }
  expect_backward({1, 1, 8, 1, 1}, Precision::fp32, 0);
  expect_backward({3, 700, 8, 11, 700}, Precision::fp32, 0);  // more than a tile of keys
}

TEST_F(CudaEmbedding, SortsAnyNumberOfRows) {
  for (const u32 rows : {1u, 2u, 3u, 2047u, 2048u, 2049u, 4100u, 8192u, 17000u}) {
    for (const u32 vocabulary : {1u, 7u, 50257u, 0x7fffffffu}) {
      std::vector<i32> tokens(rows);
      std::vector<u64> want(rows);
      std::mt19937 random(rows);
      for (u32 i = 0; i < rows; ++i) {
        tokens[i] = static_cast<i32>(random() % vocabulary);
        want[i] = u64(tokens[i]) << 32 | i;
      }
      std::sort(want.begin(), want.end());
      const DeviceArray on_device(tokens.data(), rows * 4), order(rows * 8);
      cuda::sort_tokens(on_device.as<i32>(), rows, vocabulary, order.as<u64>(), stream_);
      synchronize();
      EXPECT_TRUE(order.values<u64>() == want) << rows << " " << vocabulary;
      if (rows > 5000) break;
    }
  }
}

#ifdef CUDA_EMULATED  // on a GPU nothing can run after a trap

TEST_F(CudaEmbedding, ATokenOutsideTheVocabularyStops) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // the stream's thread does not survive a fork
  const i32 token = 9;
  const DeviceArray on_device(&token, 4), order(8);
  EXPECT_DEATH(
      {
        cuda::sort_tokens(on_device.as<i32>(), 1, 9, order.as<u64>(), stream_);
        cudaStreamSynchronize(stream_);
      },
      "trapped");
}

#endif

TEST(CudaEmbeddingLaunch, FitsEveryDevice) {
  for (const u32 rows : {1u, 16384u, 1u << 30}) {
    for (const u32 columns : {1u, 768u, 16384u, 1u << 18}) {
      const cuda::LaunchShape shape = cuda::embedding_backward_launch(rows, columns);
      EXPECT_TRUE(fits_every_device(shape));
      EXPECT_GE(u64{8} * shape.grid.y * shape.block.x, columns);
    }
    EXPECT_TRUE(fits_every_device(cuda::sort_tiles_launch(rows)));
    for (const u64 run : {u64{4096}, u64{1} << 31})
      EXPECT_TRUE(fits_every_device(cuda::sort_pairs_launch(rows, run)));
  }
}

}  // namespace tidepool::test::embedding_test
