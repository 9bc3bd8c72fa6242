// Blockwise attention against whole matrices in double.
#include "tests/support/kernel_fixture.h"

namespace tidepool::test {
namespace {

struct Case {
  AttentionShape shape;
  float dropout;
};

struct Reference {
  std::vector<double> out, dqkv;
};

Reference reference(const AttentionShape& s, const std::vector<float>& qkv, const std::vector<float>& dout,
                    const Dropout& dropout) {
  const u64 t = s.tokens, d = s.head_size, h = s.hidden(), stride = 3 * h;
  Reference r = {std::vector<double>(u64{s.sequences} * t * h, 0.0), std::vector<double>(qkv.size(), 0.0)};
  const double scale = 1 / std::sqrt(double(d));
  for (u64 b = 0; b < s.sequences; ++b) {
    for (u64 head = 0; head < s.heads; ++head) {
      for (u64 i = 0; i < t; ++i) {
        std::vector<double> p(i + 1), mask(i + 1, 1.0), dp(i + 1, 0.0);
        const u64 q = (b * t + i) * stride + head * d, o = (b * t + i) * h + head * d;
        const auto k_at = [&](u64 j) { return (b * t + j) * stride + h + head * d; };
        double sum = 0, delta = 0;
        for (u64 j = 0; j <= i; ++j) {
          double dot = 0;
          for (u64 e = 0; e < d; ++e) dot += double(qkv[q + e]) * qkv[k_at(j) + e];
          sum += p[j] = std::exp(scale * dot);
        }
        for (u64 j = 0; j <= i; ++j) {
          p[j] /= sum;
          if (dropout.on()) {
            const float one = 1.0f;
            float kept;
            dropout_row(dropout, ((b * s.heads + head) * t + i) * t + j, &one, &kept, 1);
            mask[j] = kept;
          }
          for (u64 e = 0; e < d; ++e) {
            const double v = qkv[k_at(j) + h + e], g = dout[o + e];
            r.out[o + e] += p[j] * mask[j] * v;
            r.dqkv[k_at(j) + h + e] += p[j] * mask[j] * g;
            dp[j] += g * v * mask[j];
          }
          delta += p[j] * dp[j];
        }
        for (u64 j = 0; j <= i; ++j) {
          const double ds = p[j] * (dp[j] - delta) * scale;
          for (u64 e = 0; e < d; ++e) {
            r.dqkv[q + e] += ds * qkv[k_at(j) + e];
            r.dqkv[k_at(j) + e] += ds * qkv[q + e];
          }
        }
      }
    }
  }
  return r;
}

class AttentionTest : public testing::TestWithParam<Case> {};

TEST_P(AttentionTest, MatchesDoubleOnAnyThreads) {
  const auto [shape, p] = GetParam();
  const Dropout dropout = {.p = p, .seed = 1, .step = 2, .micro_batch = 3, .tensor = 4};
  const u64 rows = u64{shape.sequences} * shape.tokens;
  const auto qkv = random_floats(rows * 3 * shape.hidden(), 1), dout = random_floats(rows * shape.hidden(), 2);
  const Reference want = reference(shape, qkv, dout, dropout);
  std::vector<float> first;
  for (u32 workers : {1u, 2u, 3u}) {
    const auto pool = make_pool(workers);
    std::vector<float> out(dout.size(), NAN), lse(shape.lse_elements(), NAN), dqkv(qkv.size(), NAN);
    attention_cpu({.shape = shape, .qkv = qkv.data(), .out = out.data(), .lse = lse.data(), .dropout = dropout},
                  *pool);
    attention_backward_cpu({.shape = shape, .qkv = qkv.data(), .out = out.data(), .lse = lse.data(),
                            .dout = dout.data(), .dqkv = dqkv.data(), .dropout = dropout}, *pool);
    EXPECT_LE(relative_error(out, want.out), 1e-6);
    EXPECT_LE(relative_error(dqkv, want.dqkv), 2e-6);
    out.insert(out.end(), dqkv.begin(), dqkv.end());
    out.insert(out.end(), lse.begin(), lse.end());
    if (workers == 1) first = out;
    EXPECT_TRUE(same_bits(out, first)) << workers;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, AttentionTest,
    testing::Values(Case{{.sequences = 1, .tokens = 1, .heads = 1, .head_size = 4}, 0},
                    Case{{.sequences = 3, .tokens = 24, .heads = 3, .head_size = 16}, 0},
                    Case{{.sequences = 2, .tokens = 130, .heads = 2, .head_size = 20}, 0.2f},
                    Case{{.sequences = 1, .tokens = 1100, .heads = 1, .head_size = 8}, 0.1f}));  // 3 key blocks

// Scores of several hundred: only the running maximum keeps the exponentials finite.
TEST(Attention, LargeScoresStayFinite) {
  const AttentionShape shape = {.sequences = 1, .tokens = 600, .heads = 1, .head_size = 8};
  const auto qkv = random_floats(u64{600} * 24, 3, 8.0f);
  std::vector<float> out(u64{600} * 8, NAN);
  const auto pool = make_pool(2);
  attention_cpu({.shape = shape, .qkv = qkv.data(), .out = out.data()}, *pool);
  EXPECT_LE(relative_error(out, reference(shape, qkv, out, {}).out), 1e-4);
}

}  // namespace
}  // namespace tidepool::test
