// Compares blockwise attention with whole matrices in double.
#include "kernels/attention/attention_cost.h"
#include "tests/support/documents.h"
#include "tests/support/kernel_fixture.h"

namespace tidepool::test::attention_test {

struct Case {
  AttentionShape shape;
  float dropout = 0;
  bool documents = false;
  bool sinks = false;
  bool holes = false;
};

struct Reference {
  std::vector<double> out, dqkv, lse, dsinks;
};

Reference reference(const AttentionShape& s, const std::vector<float>& qkv, const std::vector<float>& dout,
                    const Dropout& dropout, const i32* starts = nullptr,
                    const std::vector<double>& sinks = {}, const KeyHole* holes = nullptr) {
  const u64 t = s.tokens, d = s.head_size, width = s.value_size != 0 ? s.value_size : d;
  const u64 h = s.heads * d, kv_heads = s.key_heads(), stride = h + kv_heads * (d + width);
  Reference r = {.out = std::vector<double>(u64{s.sequences} * t * s.heads * width, 0.0),
                 .dqkv = std::vector<double>(qkv.size(), 0.0),
                 .lse = {},
                 .dsinks = std::vector<double>(sinks.size(), 0.0)};
  const double scale =
      s.scale_given != 0 ? s.scale_given : 1 / std::sqrt(double(s.scale_size != 0 ? s.scale_size : d));
  for (u64 b = 0; b < s.sequences; ++b) {
    for (u64 head = 0; head < s.heads; ++head) {
      for (u64 i = 0; i < t; ++i) {
        std::vector<double> p(i + 1), mask(i + 1, 1.0), dp(i + 1, 0.0), slope(i + 1, 1.0);
        const u64 q = (b * t + i) * stride + head * d, o = ((b * t + i) * s.heads + head) * width;
        u64 begin = starts == nullptr ? 0 : u64(starts[b * t + i]);
        if (s.window != 0 && i >= begin + s.window) begin = i + 1 - s.window;
        const u64 kv_head = head / s.group();
        const auto k_at = [&](u64 j) { return (b * t + j) * stride + h + kv_head * d; };
        const auto v_at = [&](u64 j) { return (b * t + j) * stride + h + kv_heads * d + kv_head * width; };
        double sum = sinks.empty() ? 0 : std::exp(sinks[head]), delta = 0;
        const KeyHole hole = holes == nullptr ? KeyHole{} : holes[b * t + i];
        for (u64 j = begin; j <= i; ++j) {
          if (hole.hides(u32(j))) continue;
          double dot = 0;
          for (u64 e = 0; e < d; ++e) dot += double(qkv[q + e]) * qkv[k_at(j) + e];
          double score = scale * dot;
          if (s.cap != 0) {
            const double tanh = std::tanh(score / s.cap);
            slope[j] = 1 - tanh * tanh;
            score = s.cap * tanh;
          }
          sum += p[j] = std::exp(score);
        }
        r.lse.push_back(std::log(sum));
        for (u64 j = begin; j <= i; ++j) {
          p[j] /= sum;
          if (dropout.on()) {
            const float one = 1.0f;
            float kept;
            dropout_row(dropout, ((b * s.heads + head) * t + i) * t + j, &one, &kept, 1);
            mask[j] = kept;
          }
          for (u64 e = 0; e < width; ++e) {
            const double v = qkv[v_at(j) + e], g = dout[o + e];
            r.out[o + e] += p[j] * mask[j] * v;
            r.dqkv[v_at(j) + e] += p[j] * mask[j] * g;
            dp[j] += g * v * mask[j];
          }
          delta += p[j] * dp[j];
        }
        if (!sinks.empty()) r.dsinks[head] -= std::exp(sinks[head]) / sum * delta;
        for (u64 j = begin; j <= i; ++j) {
          const double ds = p[j] * (dp[j] - delta) * scale * slope[j];
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

// Some below all scores, some above, so that p of keys sums to nearly 1, or to little.
std::vector<float> sinks_of(const AttentionShape& s) {
  std::vector<float> sinks = random_floats(s.heads, 3, 3.0f);
  sinks.back() = 4.0f;
  return sinks;
}

class AttentionTest : public testing::TestWithParam<Case> {};

TEST_P(AttentionTest, MatchesDoubleOnAnyThreads) {
  const auto [shape, p, documents, has_sinks, has_holes] = GetParam();
  const Dropout dropout = {.p = p, .seed = 1, .step = 2, .micro_batch = 3, .tensor = 4};
  const u64 rows = u64{shape.sequences} * shape.tokens;
  const std::vector<i32> lengths = growing_documents(shape.sequences, shape.tokens);
  const SharedPrompts shared = shared_prompts(shape.sequences, shape.tokens);
  const i32* const starts = has_holes ? shared.starts.data() : documents ? lengths.data() : nullptr;
  const KeyHole* const holes = has_holes ? shared.holes.data() : nullptr;
  const auto qkv = random_floats(rows * shape.qkv_columns(), 1),
             dout = random_floats(rows * shape.out_columns(), 2);
  const std::vector<float> sinks = has_sinks ? sinks_of(shape) : std::vector<float>();
  const Reference want = reference(shape, qkv, dout, dropout, starts, {sinks.begin(), sinks.end()}, holes);
  const Param given_sinks = has_sinks ? Param(sinks.data()) : Param();
  std::vector<float> first;
  for (u32 workers : {1u, 2u, 3u}) {
    const auto pool = make_pool(workers);
    std::vector<float> out(dout.size(), NAN), lse(shape.lse_elements(), NAN), dqkv(qkv.size(), NAN),
        dsinks(sinks.size(), NAN);
    attention_cpu({.shape = shape,
                   .qkv = qkv.data(),
                   .out = out.data(),
                   .lse = lse.data(),
                   .starts = starts,
                   .holes = holes,
                   .dropout = dropout,
                   .sinks = given_sinks},
                  *pool);
    attention_backward_cpu({.shape = shape,
                            .qkv = qkv.data(),
                            .out = out.data(),
                            .lse = lse.data(),
                            .dout = dout.data(),
                            .dqkv = dqkv.data(),
                            .starts = starts,
                            .holes = holes,
                            .dropout = dropout,
                            .sinks = given_sinks,
                            .dsinks = has_sinks ? dsinks.data() : nullptr,
                            .accumulate = false},
                           *pool);
    EXPECT_LE(relative_error(out, want.out), 1e-6);
    EXPECT_LE(relative_error(lse, want.lse), 1e-6);
    EXPECT_LE(relative_error(dqkv, want.dqkv), 2e-6);
    if (has_sinks) {
      EXPECT_LE(relative_error(dsinks, want.dsinks), 2e-6);
    }
    for (const auto* more : {&dqkv, &lse, &dsinks}) out.insert(out.end(), more->begin(), more->end());
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
                    Case{grouped(200, 128, 8, 2), 0, true}, Case{grouped(70, 512, 2, 1), 0.1f, true},
                    Case{grouped(1300, 8, 2, 1, 2), 0.1f, true},  // longer than a key block
                    Case{grouped(600, 128, 2, 1), 0, true}));     // with right factors that are copied

// Compares documents packed into one sequence with the same documents in separate sequences.
TEST(Attention, PackedDocumentsAreAsIfAlone) {
  // Some are longer than a block of keys and begin anywhere, so that blocks of keys begin within blocks of
  // rows.
  const std::vector<u32> lengths = {700, 1, 64, 3, 129, 400, 901, 50, 530};
  u32 tokens = 0;
  std::vector<i32> starts;
  for (const u32 length : lengths) {
    starts.insert(starts.end(), length, i32(tokens));
    tokens += length;
  }
  const AttentionShape shape = grouped(tokens, 16, 4, 2);
  const u64 columns = shape.qkv_columns(), hidden = shape.out_columns();
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

INSTANTIATE_TEST_SUITE_P(Sinks, AttentionTest,
                         testing::Values(Case{grouped(1, 4, 1, 1), 0, false, true},
                                         Case{grouped(130, 20, 4, 2, 2), 0, false, true},
                                         Case{grouped(65, 64, 8, 1), 0.2f, false, true},
                                         Case{grouped(200, 16, 4, 4), 0, true, true},
                                         Case{windowed(130, 1), 0, false, true},
                                         Case{windowed(200, 37), 0.2f, true, true},
                                         Case{windowed(1300, 600), 0, false, true},
                                         Case{grouped(1100, 8, 2, 1, 2), 0.1f, true, true}));

// DeepSeek-V3: v is narrower than k, and scores have a factor of their own.
AttentionShape with_values(AttentionShape shape, u32 value_size, float scale = 0) {
  shape.value_size = value_size, shape.scale_given = scale;
  return shape;
}
INSTANTIATE_TEST_SUITE_P(ValueSizes, AttentionTest,
                         testing::Values(Case{with_values(grouped(1, 6, 1, 1), 4)},
                                         Case{with_values(grouped(130, 24, 4, 4, 2), 16, 0.3f)},
                                         Case{with_values(grouped(70, 192, 2, 2), 128, 0.1352f), 0, true},
                                         Case{with_values(grouped(130, 20, 4, 2), 7), 0.2f, true, true},
                                         Case{with_values(grouped(65, 8, 4, 1, 2), 40, 0.5f), 0.1f, false,
                                              true},
                                         Case{with_values(windowed(200, 37), 5), 0, true},
                                         Case{with_values(grouped(1100, 8, 2, 1), 4), 0, false, true}));

// Gemma 2: soft caps, some far below the scores.
AttentionShape capped_at(AttentionShape shape, float cap, float scale = 0) {
  shape.cap = cap, shape.scale_given = scale;
  return shape;
}
INSTANTIATE_TEST_SUITE_P(SoftCaps, AttentionTest,
                         testing::Values(Case{capped_at(grouped(1, 6, 1, 1), 1)},
                                         Case{capped_at(grouped(130, 24, 4, 2, 2), 0.5f)},
                                         Case{capped_at(grouped(130, 20, 4, 1), 50, 0.3f), 0.2f, true},
                                         Case{capped_at(windowed(200, 37), 2), 0, true},
                                         Case{capped_at(windowed(1300, 600), 1, 2), 0.1f},
                                         Case{capped_at(grouped(65, 64, 8, 1), 3), 0, false, true}));

// Prompts that several completions share.
INSTANTIATE_TEST_SUITE_P(Holes, AttentionTest,
                         testing::Values(Case{grouped(300, 8, 4, 2), 0, false, false, true},
                                         Case{grouped(65, 64, 2, 1), 0.2f, false, false, true},
                                         Case{grouped(700, 16, 2, 1, 2), 0.1f, false, true, true},
                                         Case{grouped(2600, 8, 1, 1), 0, false, false, true},
                                         Case{capped_at(grouped(400, 20, 4, 1), 2, 0.3f), 0, false, true,
                                              true}));

TEST(Attention, CapsKeepScoresWithinThem) {
  const AttentionShape shape = capped_at(grouped(40, 8, 1, 1), 2);
  const auto qkv = random_floats(u64{40} * 24, 3, 1000.0f);
  std::vector<float> out(u64{40} * 8), lse(40), dqkv(qkv.size()), dout = random_floats(out.size(), 4);
  const auto pool = make_pool(1);
  attention_cpu({.shape = shape, .qkv = qkv.data(), .out = out.data(), .lse = lse.data()}, *pool);
  for (u32 row = 0; row < 40; ++row) {
    EXPECT_LE(lse[row], 2.0f + std::log(row + 1.0f) + 1e-5f);
    EXPECT_GE(lse[row], -2.0f + std::log(row + 1.0f) - 1e-5f);
  }
  attention_backward_cpu({.shape = shape,
                          .qkv = qkv.data(),
                          .out = out.data(),
                          .lse = lse.data(),
                          .dout = dout.data(),
                          .dqkv = dqkv.data()},
                         *pool);
  for (const float gradient : dqkv) EXPECT_TRUE(std::isfinite(gradient));
}

TEST(Attention, CostsCountCaps) {
  const AttentionShape plain = grouped(100, 64, 4, 2), capped = capped_at(plain, 50);
  EXPECT_EQ(attention_cost(capped).product_flops, attention_cost(plain).product_flops);
  EXPECT_GT(attention_cost(capped).vector_flops, attention_cost(plain).vector_flops);
  EXPECT_GT(attention_backward_cost(capped).vector_flops, attention_backward_cost(plain).vector_flops);
}

TEST(Attention, GivenScaleReplacesTheRoot) {
  AttentionShape shape = grouped(1, 192, 2, 2);
  EXPECT_EQ(shape.scale(), 1 / std::sqrt(192.0f));
  shape.scale_size = 64;
  EXPECT_EQ(shape.scale(), 0.125f);
  shape.scale_given = 0.1352f;
  EXPECT_EQ(shape.scale(), 0.1352f);
}

TEST(Attention, CostsCountTheWidthsOfKeysAndValues) {
  const AttentionShape same = grouped(100, 64, 4, 2), narrow = with_values(same, 32);
  const u64 pairs = attention_pairs(same);
  EXPECT_EQ(attention_cost(same).product_flops, pairs * 256);
  EXPECT_EQ(attention_cost(narrow).product_flops, pairs * 192);
  EXPECT_EQ(attention_backward_cost(same).product_flops, pairs * 640);
  EXPECT_EQ(attention_backward_cost(narrow).product_flops, pairs * 512);
  EXPECT_EQ(attention_cost(narrow).elements, u64{100} * (256 + 128 + 64 + 128));
}

struct Given {
  AttentionShape shape;
  std::vector<float> qkv, dout;
};
Given given(const AttentionShape& shape) {
  const u64 rows = u64{shape.sequences} * shape.tokens;
  return {shape, random_floats(rows * shape.qkv_columns(), 1), random_floats(rows * shape.out_columns(), 2)};
}
// RETURNS: dsinks, added to `dsinks` if `accumulate`.
std::vector<float> sink_gradients(const Given& g, Param sinks, std::vector<float> dsinks, bool accumulate) {
  const auto pool = make_pool(2);
  std::vector<float> out(g.dout.size()), lse(g.shape.lse_elements()), dqkv(g.qkv.size());
  attention_cpu({.shape = g.shape, .qkv = g.qkv.data(), .out = out.data(), .lse = lse.data(), .sinks = sinks},
                *pool);
  attention_backward_cpu({.shape = g.shape,
                          .qkv = g.qkv.data(),
                          .out = out.data(),
                          .lse = lse.data(),
                          .dout = g.dout.data(),
                          .dqkv = dqkv.data(),
                          .sinks = sinks,
                          .dsinks = dsinks.data(),
                          .accumulate = accumulate},
                         *pool);
  return dsinks;
}

// The loss sum(dout out) rises with a sink as dsinks says.
TEST(Attention, SinkGradientsAreDifferencesOfTheLoss) {
  const Given g = given(grouped(70, 8, 4, 2, 2));
  const std::vector<float> sinks = sinks_of(g.shape);
  const auto loss = [&](u32 head, double step) {
    std::vector<double> moved(sinks.begin(), sinks.end());
    moved[head] += step;
    const Reference r = reference(g.shape, g.qkv, g.dout, {}, nullptr, moved);
    double sum = 0;
    for (u64 i = 0; i < r.out.size(); ++i) sum += r.out[i] * g.dout[i];
    return sum;
  };
  const std::vector<float> dsinks = sink_gradients(g, sinks.data(), std::vector<float>(4, NAN), false);
  for (u32 head = 0; head < 4; ++head) {
    const double want = (loss(head, 1e-4) - loss(head, -1e-4)) / 2e-4;
    EXPECT_NEAR(dsinks[head], want, 1e-4 * std::abs(want) + 1e-5) << head;
  }
}

TEST(Attention, SinkGradientsAreAddedOncePerCall) {
  const Given g = given(grouped(70, 8, 4, 2));
  const std::vector<float> sinks = sinks_of(g.shape), before = {1.5f, -2.0f, 0.25f, 100.0f};
  const std::vector<float> alone = sink_gradients(g, sinks.data(), std::vector<float>(4, NAN), false);
  const std::vector<float> added = sink_gradients(g, sinks.data(), before, true);
  for (u32 head = 0; head < 4; ++head) EXPECT_EQ(added[head], before[head] + alone[head]) << head;
}

TEST(Attention, SinksMayHave16Bits) {
  const Given g = given(grouped(70, 8, 4, 2));
  const std::vector<u16> halves = {0x3f80, 0xbf00, 0x4080, 0x0000};
  const std::vector<float> floats = {1.0f, -0.5f, 4.0f, 0.0f}, empty(4, NAN);
  const Param narrow(reinterpret_cast<const std::byte*>(halves.data()), Precision::bf16);
  EXPECT_TRUE(
      same_bits(sink_gradients(g, narrow, empty, false), sink_gradients(g, floats.data(), empty, false)));
}

// A sink far below all scores changes nothing; one far above takes all probability.
TEST(Attention, ExtremeSinksStayFinite) {
  const Given g = given(grouped(70, 8, 2, 1));
  const auto pool = make_pool(2);
  const std::vector<float> sinks = {-1000.0f, 1000.0f};
  std::vector<float> out(g.dout.size(), NAN), plain(g.dout.size(), NAN);
  attention_cpu({.shape = g.shape, .qkv = g.qkv.data(), .out = out.data(), .sinks = sinks.data()}, *pool);
  attention_cpu({.shape = g.shape, .qkv = g.qkv.data(), .out = plain.data()}, *pool);
  for (u64 i = 0; i < out.size(); ++i) {
    if (i % 16 < 8) {
      EXPECT_NEAR(out[i], plain[i], 1e-6f);
    } else {
      EXPECT_EQ(out[i], 0.0f);
    }
  }
}

}  // namespace tidepool::test::attention_test
