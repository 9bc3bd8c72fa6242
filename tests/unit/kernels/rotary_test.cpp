// Compares rotation, with and without norms, documents and gates between the heads of q, with plain double
// code, forward and backward.
#include "tests/support/references/rotary.h"

#include <cmath>
#include <span>

#include "kernels/rotary/rotary_cost.h"
#include "tests/support/kernel_fixture.h"

namespace tidepool::test::rotary_test {

class RotaryTest : public testing::TestWithParam<RotaryCase> {
 protected:
  // Backward with the norms' gradients. RETURNS: dx, then the norms' gradients if there are norms.
  std::vector<float> backward(RotaryBackward back, std::vector<float>& dx, CorePool& pool) const {
    const u32 size = c.shape.head_size;
    std::vector<float> dq_norm(size, NAN), dk_norm(size, NAN);
    std::vector<float> partials(rotary_partials(c.shape.rows, size), NAN);
    back.dq_norm = dq_norm.data(), back.dk_norm = dk_norm.data(), back.partials = partials.data();
    rotary_backward_cpu(back, pool);
    std::vector<float> all = dx;
    if (!c.norms) return all;
    all.insert(all.end(), dq_norm.begin(), dq_norm.end());
    all.insert(all.end(), dk_norm.begin(), dk_norm.end());
    return all;
  }

  const RotaryCase c = GetParam();
  const RotaryShape& s = c.shape;
  const bool dense = s.in_columns() == s.columns();
  const RotaryData d{c};
};

TEST_P(RotaryTest, MatchesDoubleOnAnyThreads) {
  const RotaryReference want = rotary_reference(c, d);
  std::vector<double> want_back = want.dx;
  if (c.norms) {
    want_back.insert(want_back.end(), want.dq_norm.begin(), want.dq_norm.end());
    want_back.insert(want_back.end(), want.dk_norm.begin(), want.dk_norm.end());
  }
  std::vector<float> first, first_back;
  for (u32 workers : {1u, 2u, 3u}) {
    const auto pool = make_pool(workers);
    // The reference has zeros for k and v that are given.
    const float before = s.values == RotaryValues::given ? 0 : NAN;
    std::vector<float> out(d.dout.size(), before), dqkv = d.dout, dx(d.qkv.size(), untouched);
    rotary_cpu(d.forward(c, d.qkv.data(), out.data()), *pool);
    EXPECT_LE(relative_error(out, want.out), 1e-6);
    const std::vector<float> back = backward(d.backward(c, d.qkv.data(), dqkv.data(), dx.data()), dx, *pool);
    EXPECT_LE(relative_error(back, want_back), 1e-6);
    EXPECT_TRUE(same_bits(dqkv, d.dout));
    for_gates(s, [&](u64 i) { ASSERT_EQ(dx[i], untouched) << i; });
    if (workers == 1) first = out, first_back = back;
    EXPECT_TRUE(same_bits(out, first)) << workers;
    EXPECT_TRUE(same_bits(back, first_back)) << workers;
  }
}

TEST_P(RotaryTest, WorksInPlace) {
  const auto pool = make_pool(2);
  std::vector<float> out(d.dout.size()), dqkv = d.dout, dx(d.qkv.size(), untouched), in_place = d.qkv;
  rotary_cpu(d.forward(c, d.qkv.data(), out.data()), *pool);
  const std::vector<float> back = backward(d.backward(c, d.qkv.data(), dqkv.data(), dx.data()), dx, *pool);
  if (dense) {
    rotary_cpu(d.forward(c, in_place.data(), in_place.data()), *pool);
    EXPECT_TRUE(same_bits(in_place, out));
    EXPECT_TRUE(same_bits(backward(d.backward(c, d.qkv.data(), dqkv.data()), dqkv, *pool), back));
  }
  in_place = d.qkv, dqkv = d.dout;  // dx in place of qkv, whose gates stay
  std::vector<float> over =
      backward(d.backward(c, in_place.data(), dqkv.data(), in_place.data()), in_place, *pool);
  for_gates(s, [&](u64 i) {
    ASSERT_EQ(over[i], d.qkv[i]) << i;
    over[i] = untouched;
  });
  EXPECT_TRUE(same_bits(over, back));
}

TEST_P(RotaryTest, AddsToGradientsOfNorms) {
  if (!c.norms) return;
  const auto pool = make_pool(2);
  std::vector<float> dqkv = d.dout, dx(d.qkv.size(), untouched), sum_q = d.q_norm, sum_k = d.k_norm;
  RotaryBackward back = d.backward(c, d.qkv.data(), dqkv.data(), dx.data());
  const std::vector<float> overwritten = backward(back, dx, *pool);
  std::vector<float> partials(rotary_partials(s.rows, s.head_size), NAN);
  back.dq_norm = sum_q.data(), back.dk_norm = sum_k.data(), back.partials = partials.data();
  back.accumulate = true;
  rotary_backward_cpu(back, *pool);
  for (u32 i = 0; i < s.head_size; ++i) {
    ASSERT_EQ(sum_q[i], d.q_norm[i] + overwritten[dx.size() + i]);
    ASSERT_EQ(sum_k[i], d.k_norm[i] + overwritten[dx.size() + s.head_size + i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, RotaryTest, testing::ValuesIn(rotary_cases));

TEST(Rotary, CostsWhatItReadsAndWrites) {
  RotaryShape shape = {
      .rows = 10, .tokens = 10, .heads = 3, .kv_heads = 1, .head_size = 8, .rotated_size = 4};
  EXPECT_EQ(rotary_cost(shape, false).elements, 2u * 10 * 4 * 4);
  EXPECT_EQ(rotary_cost(shape, true).elements, 2u * 10 * 4 * 8);
  EXPECT_EQ(rotary_backward_cost(shape, true).elements, 3u * 10 * 4 * 8);
  shape.query_stride = 16;  // all of q and k moves, and v
  EXPECT_EQ(rotary_cost(shape, false).elements, 2u * 10 * 5 * 8);
  EXPECT_EQ(rotary_cost(shape, true).elements, 2u * 10 * 5 * 8);
  EXPECT_EQ(rotary_backward_cost(shape, true).elements, 2u * 10 * 5 * 8 + 10 * 4 * 8);
  shape.query_stride = 0, shape.values = RotaryValues::normalised;
  EXPECT_EQ(rotary_cost(shape, true).elements, 2u * 10 * 5 * 8);
  EXPECT_EQ(rotary_backward_cost(shape, true).elements, 3u * 10 * 5 * 8);
}

// Compares the norms' gradients with differences of the kernel's own results.
TEST(Rotary, NormGradientsAreSlopes) {
  const RotaryCase c = {.shape = {.rows = 9, .tokens = 9, .heads = 3, .kv_heads = 1, .head_size = 8},
                        .norms = true,
                        .documents = true};
  RotaryData d(c);
  const auto pool = make_pool(1);
  std::vector<float> dqkv = d.dout, dq_norm(8), dk_norm(8), partials(rotary_partials(9, 8));
  RotaryBackward back = d.backward(c, d.qkv.data(), dqkv.data());
  back.dq_norm = dq_norm.data(), back.dk_norm = dk_norm.data(), back.partials = partials.data();
  rotary_backward_cpu(back, *pool);
  const auto loss = [&] {
    std::vector<float> out(d.qkv.size());
    rotary_cpu(d.forward(c, d.qkv.data(), out.data()), *pool);
    double sum = 0;
    for (u64 i = 0; i < out.size(); ++i) sum += double(out[i]) * d.dout[i];
    return sum;
  };
  const auto expect_slopes = [&](std::vector<float>& values, std::span<const float> gradient) {
    for (u64 i = 0; i < gradient.size(); ++i) {
      const float kept = values[i], step = 1.0f / 128;
      values[i] = kept + step;
      const double above = loss();
      values[i] = kept - step;
      const double below = loss();
      values[i] = kept;
      EXPECT_NEAR(gradient[i], (above - below) / (2 * double(step)), 3e-3) << i;
    }
  };
  expect_slopes(d.q_norm, dq_norm);
  expect_slopes(d.k_norm, dk_norm);
  expect_slopes(d.qkv, dqkv);
}

// A document's results do not depend on its place.
TEST(Rotary, PositionsStartWithEachDocument) {
  const RotaryShape shape = {.rows = 12, .tokens = 12, .heads = 2, .kv_heads = 1, .head_size = 16};
  const RotaryCase c = {.shape = shape, .norms = false, .documents = false};
  RotaryData d(c);
  const std::vector<i32> starts = {0, 0, 0, 0, 0, 5, 5, 5, 5, 5, 5, 11};
  const auto pool = make_pool(1);
  std::vector<float> packed(d.qkv.size()), alone(d.qkv.size());
  Rotary op = d.forward(c, d.qkv.data(), packed.data());
  op.starts = starts.data();
  rotary_cpu(op, *pool);
  op.starts = nullptr;
  for (const auto& [begin, tokens] : {std::pair{0u, 5u}, {5u, 6u}, {11u, 1u}}) {
    const u64 at = u64{begin} * shape.columns();
    op.shape.rows = op.shape.tokens = tokens;
    op.qkv = d.qkv.data() + at;
    op.out = alone.data() + at;
    rotary_cpu(op, *pool);
  }
  EXPECT_TRUE(same_bits(packed, alone));
}

}  // namespace tidepool::test::rotary_test
