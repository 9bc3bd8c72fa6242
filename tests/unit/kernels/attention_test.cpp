// Compares blockwise attention with whole matrices in double.
#include "tests/support/documents.h"
#include "tests/support/kernel_fixture.h"

namespace tidepool::test::attention_test {

struct Case {
  AttentionShape shape;
  float dropout = 0;
  bool documents = false;
};

struct Reference {
  std::vector<double> out, dqkv;
};

Reference reference(const AttentionShape& s, const std::vector<float>& qkv, const std::vector<float>& dout,
                    const Dropout& dropout, const i32* starts = nullptr) {
  const u64 t = s.tokens, d = s.head_size, h = s.hidden(), keys = s.key_columns(), stride = h + 2 * keys;
  Reference r = {std::vector<double>(u64{s.sequences} * t * h, 0.0), std::vector<double>(qkv.size(), 0.0)};
  const double scale = 1 / std::sqrt(double(s.scale_size != 0 ? s.scale_size : d));
  for (u64 b = 0; b < s.sequences; ++b) {
    for (u64 head = 0; head < s.heads; ++head) {
      for (u64 i = 0; i < t; ++i) {
        std::vector<double> p(i + 1), mask(i + 1, 1.0), dp(i + 1, 0.0);
        const u64 q = (b * t + i) * stride + head * d, o = (b * t + i) * h + head * d;
        u64 begin = starts == nullptr ? 0 : u64(starts[b * t + i]);
        if (s.window != 0 && i >= begin + s.window) begin = i + 1 - s.window;
        const auto k_at = [&](u64 j) { return (b * t + j) * stride + h + head / s.group() * d; };
        double sum = 0, delta = 0;
        for (u64 j = begin; j <= i; ++j) {
          double dot = 0;
          for (u64 e = 0; e < d; ++e) dot += double(qkv[q + e]) * qkv[k_at(j) + e];
          sum += p[j] = std::exp(scale * dot);
        }
        for (u64 j = begin; j <= i; ++j) {
          p[j] /= sum;
          if (dropout.on()) {
            const float one = 1.0f;
            float kept;
            dropout_row(dropout, ((b * s.heads + head) * t + i) * t + j, &one, &kept, 1);
            mask[j] = kept;
          }
          for (u64 e = 0; e < d; ++e) {
            const double v = qkv[k_at(j) + keys + e], g = dout[o + e];
            r.out[o + e] += p[j] * mask[j] * v;
            r.dqkv[k_at(j) + keys + e] += p[j] * mask[j] * g;
            dp[j] += g * v * mask[j];
          }
          delta += p[j] * dp[j];
        }
        for (u64 j = begin; j <= i; ++j) {
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
  const auto [shape, p, documents] = GetParam();
  const Dropout dropout = {.p = p, .seed = 1, .step = 2, .micro_batch = 3, .tensor = 4};
  const u64 rows = u64{shape.sequences} * shape.tokens;
  const std::vector<i32> lengths = growing_documents(shape.sequences, shape.tokens);
  const i32* const starts = documents ? lengths.data() : nullptr;
  const auto qkv = random_floats(rows * shape.qkv_columns(), 1),
             dout = random_floats(rows * shape.hidden(), 2);
  const Reference want = reference(shape, qkv, dout, dropout, starts);
  std::vector<float> first;
  for (u32 workers : {1u, 2u, 3u}) {
    const auto pool = make_pool(workers);
    std::vector<float> out(dout.size(), NAN), lse(shape.lse_elements(), NAN), dqkv(qkv.size(), NAN);
    attention_cpu({.shape = shape,
                   .qkv = qkv.data(),
                   .out = out.data(),
                   .lse = lse.data(),
                   .starts = starts,
                   .dropout = dropout},
                  *pool);
    attention_backward_cpu({.shape = shape,
                            .qkv = qkv.data(),
                            .out = out.data(),
                            .lse = lse.data(),
                            .dout = dout.data(),
                            .dqkv = dqkv.data(),
                            .starts = starts,
                            .dropout = dropout},
                           *pool);
    EXPECT_LE(relative_error(out, want.out), 1e-6);
    EXPECT_LE(relative_error(dqkv, want.dqkv), 2e-6);
    out.insert(out.end(), dqkv.begin(), dqkv.end());
    out.insert(out.end(), lse.begin(), lse.end());
    if (workers == 1) first = out;
    EXPECT_TRUE(same_bits(out, first)) << workers;
  }
}

constexpr AttentionShape windowed(u32 tokens, u32 window) {
  return {.sequences = 2, .tokens = tokens, .heads = 2, .head_size = 8, .kv_heads = 1, .window = window};
}

INSTANTIATE_TEST_SUITE_P(Shapes, AttentionTest,
                         testing::Values(Case{{.sequences = 1, .tokens = 1, .heads = 1, .head_size = 4}, 0},
                                         Case{{.sequences = 3, .tokens = 24, .heads = 3, .head_size = 16}, 0},
                                         Case{{.sequences = 2, .tokens = 130, .heads = 2, .head_size = 20},
                                              0.2f},
                                         Case{{.sequences = 1, .tokens = 1100, .heads = 1, .head_size = 8},
                                              0.1f}));  // 3 key blocks

AttentionShape grouped(u32 tokens, u32 head_size, u32 heads, u32 kv_heads, u32 sequences = 1) {
  return {
      .sequences = sequences, .tokens = tokens, .heads = heads, .head_size = head_size, .kv_heads = kv_heads};
}
INSTANTIATE_TEST_SUITE_P(
    GroupedAndPacked, AttentionTest,
    testing::Values(Case{grouped(70, 8, 4, 4), 0, true}, Case{grouped(65, 16, 4, 2, 2)},
                    Case{grouped(130, 20, 4, 1), 0.2f, true}, Case{grouped(129, 64, 8, 1)},
                    Case{grouped(90, 80, 4, 2), 0.1f, true}, Case{grouped(64, 96, 2, 1), 0, true},
                    Case{{.sequences = 1, .tokens = 70, .heads = 2, .head_size = 8, .scale_size = 30}},
                    Case{windowed(130, 1)}, Case{windowed(130, 64)}, Case{windowed(200, 37), 0.2f},
                    Case{windowed(200, 70), 0, true}, Case{windowed(1300, 600)},
                    Case{grouped(200, 128, 8, 2), 0, true},
                    Case{grouped(1300, 8, 2, 1, 2), 0.1f, true}));  // longer than a key block

// Compares documents packed into one sequence with the same documents in separate sequences.
TEST(Attention, PackedDocumentsAreAsIfAlone) {
  const std::vector<u32> lengths = {700, 1, 64, 3, 129, 400};
  u32 tokens = 0;
  std::vector<i32> starts;
  for (const u32 length : lengths) {
    starts.insert(starts.end(), length, i32(tokens));
    tokens += length;
  }
  const AttentionShape shape = grouped(tokens, 16, 4, 2);
  const u64 columns = shape.qkv_columns(), hidden = shape.hidden();
  const auto qkv = random_floats(tokens * columns, 1), dout = random_floats(tokens * hidden, 2);
  const auto pool = make_pool(2);
  const auto run = [&](const AttentionShape& s, u64 first, const i32* documents, std::vector<float>& out,
                       std::vector<float>& dqkv) {
    std::vector<float> lse(s.lse_elements());
    attention_cpu({.shape = s,
                   .qkv = &qkv[first * columns],
                   .out = &out[first * hidden],
                   .lse = lse.data(),
                   .starts = documents},
                  *pool);
    attention_backward_cpu({.shape = s,
                            .qkv = &qkv[first * columns],
                            .out = &out[first * hidden],
                            .lse = lse.data(),
                            .dout = &dout[first * hidden],
                            .dqkv = &dqkv[first * columns],
                            .starts = documents},
                           *pool);
  };
  std::vector<float> out(dout.size(), NAN), dqkv(qkv.size(), NAN), alone(dout.size(), NAN),
      dalone(qkv.size(), NAN);
  run(shape, 0, starts.data(), out, dqkv);
  u64 first = 0;
  for (const u32 length : lengths) {
    run(grouped(length, 16, 4, 2), first, nullptr, alone, dalone);
    first += length;
  }
  EXPECT_LE(relative_error(out, alone), 1e-6);
  EXPECT_LE(relative_error(dqkv, dalone), 2e-6);
}

// Scores of several hundred: only the running maximum keeps the exponentials finite.
TEST(Attention, LargeScoresStayFinite) {
  const AttentionShape shape = {.sequences = 1, .tokens = 600, .heads = 1, .head_size = 8};
  const auto qkv = random_floats(u64{600} * 24, 3, 8.0f);
  std::vector<float> out(u64{600} * 8, NAN);
  const auto pool = make_pool(2);
  attention_cpu({.shape = shape, .qkv = qkv.data(), .out = out.data()}, *pool);
  EXPECT_LE(relative_error(out, reference(shape, qkv, out, {}).out), 1e-4);
}

}  // namespace tidepool::test::attention_test
