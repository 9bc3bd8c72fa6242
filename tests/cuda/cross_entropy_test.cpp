// Tests cross-entropy on the device against plain double code.
#include <cmath>
#include <limits>

#include "kernels/cross_entropy/cross_entropy_launch.h"
#include "kernels/cuda/kernels_cuda_parts.h"
#include "tests/cuda/cuda_fixture.h"
#include "tidepool/ignored_target.h"

namespace tidepool::test::cross_entropy_test {

struct Cut {
  u32 begin, columns, stride = 0;
  u32 row_elements() const { return stride != 0 ? stride : columns; }
};

// Logits [rows, vocabulary] in slices on the device, with the results in double.
struct Problem {
  u32 rows, vocabulary;
  Precision precision;
  float cap = 0;  // 0: none
  std::vector<Cut> cuts;
  std::vector<i32> targets;
  std::vector<float> logits;  // rounded to the precision
  std::vector<std::unique_ptr<DeviceValues>> slices;
  DeviceArray device_targets, losses, logit_sums, loss_sum;

  Problem(u32 r, std::vector<Cut> c, Precision p, u64 shift = 0)
      : rows(r),
        vocabulary(c.back().begin + c.back().columns),
        precision(p),
        cuts(std::move(c)),
        logits(u64{rows} * vocabulary),
        device_targets(rows * 4),
        losses(rows * sizeof(RowLoss)),
        logit_sums(rows * sizeof(LogitSums)),
        loss_sum(8) {
    for (u32 row = 0; row < rows; ++row)
      targets.push_back(row % 7 == 3   ? ignored_target
                        : row % 7 == 5 ? padding_target
                                       : static_cast<i32>(row * 131 % vocabulary));
    device_targets.write(targets.data(), rows * 4);
    loss_sum.set(1.0);  // added to
    const auto all = random_floats(logits.size(), 5, 4.0f);
    for (const Cut& cut : cuts) {
      std::vector<float> slice;
      for (u32 row = 0; row < rows; ++row) {
        const auto from = all.begin() + u64{row} * vocabulary + cut.begin;
        slice.insert(slice.end(), from, from + cut.columns);
        slice.resize(u64{row + 1} * cut.row_elements(), 9.0F);  // padding
      }
      slices.push_back(std::make_unique<DeviceValues>(slice, precision, shift));
      place(cut, slices.back()->given(), logits);
    }
  }
  LogitsSlice slice(u32 number) const {
    return {.rows = rows,
            .begin = cuts[number].begin,
            .columns = cuts[number].columns,
            .logits = slices[number]->values(),
            .stride = cuts[number].stride,
            .targets = device_targets.as<i32>(),
            .losses = losses.as<RowLoss>(),
            .cap = cap,
            .logit_sums = logit_sums.as<LogitSums>()};
  }
  // RETURNS: a logit as the loss sees it, and its derivative.
  std::pair<double, double> seen(u64 i) const {
    if (cap == 0) return {double{logits[i]}, 1.0};
    const double tanh = std::tanh(double{logits[i]} / cap);
    return {cap * tanh, 1 - tanh * tanh};
  }
  static constexpr float loss_scale = 0.5f;  // run() doubles its argument

  void run(float scale, cudaStream_t stream) const {
    for (u32 i = 0; i < cuts.size(); ++i) cross_entropy_slice_cuda(slice(i), stream);
    cross_entropy_loss_cuda(losses.as<RowLoss>(), device_targets.as<i32>(), rows,
                            {.loss = loss_sum.as<double>()}, stream);
    const DeviceArray half(&loss_scale, sizeof(loss_scale));
    for (u32 i = 0; i < cuts.size(); ++i)
      cross_entropy_gradient_cuda(slice(i), {.scale = 2 * scale, .loss_scale = half.as<float>()}, stream);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  }
  void place(const Cut& cut, const std::vector<float>& slice, std::vector<float>& all) const {
    for (u32 row = 0; row < rows; ++row)
      std::copy_n(slice.begin() + u64{row} * cut.row_elements(), cut.columns,
                  all.begin() + u64{row} * vocabulary + cut.begin);
  }
  std::vector<float> gradients() const {
    std::vector<float> all(logits.size());
    for (u32 s = 0; s < cuts.size(); ++s) {
      place(cuts[s], slices[s]->now(), all);
    }
    return all;
  }
  double lse(u32 row) const {
    double sum = 0;
    for (u32 c = 0; c < vocabulary; ++c) sum += std::exp(seen(u64{row} * vocabulary + c).first);
    return std::log(sum);
  }
};

using CudaCrossEntropy = CudaTest;

void expect_logit_sums(const Problem& p, u32 row, double lse, const RowLoss& loss, const LogitSums& sums) {
  double total = 0, entropy = 0, squares = 0;
  for (u32 c = 0; c < p.vocabulary; ++c) {
    const double x = p.seen(u64{row} * p.vocabulary + c).first, probability = std::exp(x - lse);
    total += x, entropy -= probability * (x - lse), squares += probability * probability;
  }
  EXPECT_NEAR(sums.logits, total, 1e-5 * p.vocabulary) << row;
  EXPECT_NEAR(entropy_of(loss, sums), entropy, 4e-6 * (1 + entropy)) << row;
  EXPECT_NEAR(log_squares_of(loss, sums), std::log(squares), 4e-6) << row;
}

// fp32 exponentials of rounded differences, dominated by the largest: about 1e-6 of the probability.
void expect_like_double(const Problem& p, float scale) {
  double want = 1.0;
  const auto gradients = p.gradients();
  // bf16 has 8 bits: a gradient is rounded by up to 2^-8 of its value. fp16 has 11 bits, and steps of 2^-24
  // below 2^-14.
  const double relative = p.precision == Precision::fp32 ? 4e-6 : 4e-6 + 0x1p-8;
  const auto losses = p.losses.values<RowLoss>();
  const auto logit_sums = p.logit_sums.values<LogitSums>();
  for (u32 row = 0; row < p.rows; ++row) {
    const double lse = p.lse(row);
    EXPECT_NEAR(losses[row].lse, lse, 2e-6 * (1 + std::abs(lse))) << row;
    expect_logit_sums(p, row, lse, losses[row], logit_sums[row]);
    const bool ignored = !has_loss(p.targets[row]);
    if (!ignored) want += lse - p.seen(u64{row} * p.vocabulary + static_cast<u32>(p.targets[row])).first;
    for (u32 c = 0; c < p.vocabulary; ++c) {
      const u64 i = u64{row} * p.vocabulary + c;
      const bool hit = static_cast<i32>(c) == p.targets[row];
      const auto [logit, slope] = p.seen(i);
      // A cap's slope is 1 minus a square, of which fp32 leaves 3e-7.
      const double of_slope = p.cap != 0 ? 3e-7 * scale : 0;
      const double gradient = ignored ? 0.0 : scale * slope * (std::exp(logit - lse) - hit);
      ASSERT_NEAR(gradients[i], gradient,
                  relative * (hit ? scale : std::abs(gradient)) +
                      (p.precision == Precision::fp16 ? 0x1p-25 : 1e-12) + of_slope)
          << row << " " << c;
    }
  }
  EXPECT_NEAR(p.loss_sum.value<double>(), want, 2e-6 * want);
}

TEST_F(CudaCrossEntropy, SlicesMatchDouble) {
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    for (const auto& cuts : {std::vector<Cut>{{0, 64}, {64, 37}},
                             {{0, 2304}},
                             {{0, 1}, {1, 8}, {9, 3}},
                             {{0, 64}, {64, 37, 64}},
                             {{0, 40, 48}, {40, 8, 11}}}) {
      for (const u64 shift : {0, 1}) {
        SCOPED_TRACE(testing::Message() << cuts.back().begin << " " << cuts.back().columns << " " << shift);
        const Problem p(11, cuts, precision, shift);
        p.run(0.5f, stream_);
        synchronize();
        expect_like_double(p, 0.5f);
      }
    }
  }
}

TEST_F(CudaCrossEntropy, CappedSlicesMatchDouble) {
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16})
    for (const auto& cuts : {std::vector<Cut>{{0, 64}, {64, 37, 64}}, {{0, 2304}}, {{0, 1}, {1, 8}, {9, 3}}})
      for (const float cap : {2.0f, 30.0f}) {
        Problem p(11, cuts, precision, 1);
        p.cap = cap;
        p.run(0.5f, stream_);
        synchronize();
        expect_like_double(p, 0.5f);
      }
}

TEST_F(CudaCrossEntropy, SoftCapIsTheCpus) {
  const DeviceValues x(random_floats(3001, 1, 60.0f), Precision::fp32);
  soft_cap_cuda({.elements = 3001, .cap = 30, .x = x.values().fp32()}, stream_);
  synchronize();
  std::vector<float> want = x.given();
  soft_cap_cpu({.elements = want.size(), .cap = 30, .x = want.data()});
  EXPECT_LE(relative_error(x.now(), want), 1e-6);
}

#ifdef CUDA_EMULATED

TEST_F(CudaCrossEntropy, ManyRowsAreSummedWhateverTheOrderOfBlocks) {
  std::vector<double> sums;
  for (const u64 seed : {1, 2}) {
    ASSERT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    emulated_cuda::reset({.seed = seed});
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    const Problem p(1500, {{0, 16}}, Precision::fp32);
    p.run(1.0f, stream_);
    synchronize();
    expect_like_double(p, 1.0f);
    sums.push_back(p.loss_sum.value<double>());
  }
  EXPECT_EQ(sums[0], sums[1]);
}

#endif

TEST_F(CudaCrossEntropy, LogitsOfMinusInfinityHaveNoProbability) {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> logits(300, -inf);
  logits[270] = 2.0f;
  const i32 target = 270;
  const DeviceValues values(logits, Precision::fp32);
  const DeviceArray targets(&target, 4), losses(sizeof(RowLoss)), loss(8);
  loss.set(0.0);
  const LogitsSlice slice = {.rows = 1,
                             .columns = 300,
                             .logits = values.values(),
                             .targets = targets.as<i32>(),
                             .losses = losses.as<RowLoss>()};
  cross_entropy_slice_cuda(slice, stream_);
  cross_entropy_loss_cuda(losses.as<RowLoss>(), targets.as<i32>(), 1, {.loss = loss.as<double>()}, stream_);
  cross_entropy_gradient_cuda(slice, {}, stream_);
  synchronize();
  EXPECT_EQ(loss.value<double>(), 0.0);
  EXPECT_EQ(values.now(), std::vector<float>(300, 0.0f));
}

TEST_F(CudaCrossEntropy, ABrokenLogitIsSeen) {
  for (const float bad : {NAN, std::numeric_limits<float>::infinity()}) {
    std::vector<float> logits(300, 0.5f);
    logits[17] = bad;
    const i32 target = 1;
    const DeviceValues values(logits, Precision::fp32);
    const DeviceArray targets(&target, 4), losses(sizeof(RowLoss)), loss(8);
    loss.set(0.0);
    cross_entropy_slice_cuda({.rows = 1,
                              .columns = 300,
                              .logits = values.values(),
                              .targets = targets.as<i32>(),
                              .losses = losses.as<RowLoss>()},
                             stream_);
    cross_entropy_loss_cuda(losses.as<RowLoss>(), targets.as<i32>(), 1, {.loss = loss.as<double>()}, stream_);
    synchronize();
    EXPECT_FALSE(std::isfinite(loss.value<double>()));
  }
}

TEST_F(CudaCrossEntropy, EvaluationMayLeaveOutTheSum) {
  const Problem p(3, {{0, 8}}, Precision::fp32);
  cross_entropy_slice_cuda(p.slice(0), stream_);
  cross_entropy_loss_cuda(p.losses.as<RowLoss>(), p.device_targets.as<i32>(), 3, {}, stream_);
  synchronize();
  EXPECT_NEAR(p.losses.value<RowLoss>(2).lse, p.lse(2), 1e-5);
}

TEST(CudaCrossEntropyLaunch, FitsEveryDevice) {
  for (const u32 rows : {1u, 1u << 30})
    for (const u32 columns : {1u, 8192u, 1u << 18}) {
      const cuda::LaunchShape shape = cuda::cross_entropy_launch(rows, columns);
      EXPECT_TRUE(fits_every_device(shape));
      EXPECT_EQ(shape.block.x % cuda::warp_threads, 0u);
    }
}

}  // namespace tidepool::test::cross_entropy_test
