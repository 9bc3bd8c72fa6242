// Compares layer norm, dropout, embedding and cross-entropy with plain double code.
#include "tests/support/kernel_fixture.h"

namespace tidepool::test::rows_test {

struct NormCase {
  u32 rows, columns;
};
class LayerNormTest : public testing::TestWithParam<NormCase> {};

TEST_P(LayerNormTest, MatchesDouble) {
  const auto [rows, columns] = GetParam();
  const u64 n = u64{rows} * columns;
  const auto x = random_floats(n, 1, 3.0f), dy = random_floats(n, 2), start = random_floats(n, 3);
  const auto weight = random_floats(columns, 4), bias = random_floats(columns, 5);
  std::vector<float> y(n, NAN), mean(rows), rstd(rows), dx(n, NAN), dweight(columns, NAN),
      dbias(columns, NAN);
  std::vector<float> partials(layer_norm_partials(rows, columns), NAN);
  const auto pool = make_pool(2);
  layer_norm_cpu({.rows = rows,
                  .columns = columns,
                  .x = x.data(),
                  .weight = param_of(weight),
                  .bias = param_of(bias),
                  .epsilon = 1e-5f,
                  .y = y.data(),
                  .mean = mean.data(),
                  .rstd = rstd.data()},
                 *pool);
  LayerNormBackward back = {.rows = rows,
                            .columns = columns,
                            .x = x.data(),
                            .weight = param_of(weight),
                            .mean = mean.data(),
                            .rstd = rstd.data(),
                            .dy = dy.data(),
                            .dx = dx.data(),
                            .dweight = dweight.data(),
                            .dbias = dbias.data(),
                            .accumulate = false,
                            .partials = partials.data()};
  layer_norm_backward_cpu(back, *pool);

  std::vector<double> want_y(n), want_dx(n), want_dweight(columns, 0.0), want_dbias(columns, 0.0);
  for (u64 r = 0; r < rows; ++r) {
    const float* row = &x[r * columns];
    double m = 0, v = 0, g_mean = 0, gx_mean = 0;
    for (u64 c = 0; c < columns; ++c) m += row[c] / double(columns);
    for (u64 c = 0; c < columns; ++c) v += (row[c] - m) * (row[c] - m) / double(columns);
    const double s = 1 / std::sqrt(v + 1e-5);
    for (u64 c = 0; c < columns; ++c) {
      const double xhat = (row[c] - m) * s, d = dy[r * columns + c];
      want_y[r * columns + c] = xhat * weight[c] + bias[c];
      want_dweight[c] += d * xhat;
      want_dbias[c] += d;
      g_mean += d * weight[c] / double(columns);
      gx_mean += d * weight[c] * xhat / double(columns);
    }
    for (u64 c = 0; c < columns; ++c) {
      const double xhat = (row[c] - m) * s;
      want_dx[r * columns + c] = s * (double(dy[r * columns + c]) * weight[c] - g_mean - xhat * gx_mean);
    }
  }
  EXPECT_LE(relative_error(y, want_y), 1e-6);
  EXPECT_LE(relative_error(dx, want_dx), columns == 1 ? 1e-4 : 1e-6);
  EXPECT_LE(relative_error(dweight, want_dweight), columns == 1 ? 1e-4 : 1e-6);
  EXPECT_LE(relative_error(dbias, want_dbias), 1e-6);

  // Adds to existing values.
  std::vector<float> sum = start, sum_weight = weight;
  back.dx = sum.data();
  back.add_to_dx = true;
  back.dweight = sum_weight.data();
  back.accumulate = true;
  layer_norm_backward_cpu(back, *pool);
  for (u64 i = 0; i < n; ++i) ASSERT_EQ(sum[i], start[i] + dx[i]);
  for (u64 c = 0; c < columns; ++c) ASSERT_EQ(sum_weight[c], weight[c] + dweight[c]);
}
INSTANTIATE_TEST_SUITE_P(Shapes, LayerNormTest,
                         testing::Values(NormCase{1, 5}, NormCase{64, 48}, NormCase{130, 257},
                                         NormCase{33, 768}));

TEST(LayerNorm, WidensBf16Parameters) {
  constexpr u32 rows = 70, columns = 100;
  const auto x = random_floats(rows * columns, 1);
  const Bf16Copy weight(random_floats(columns, 2)), bias(random_floats(columns, 3));
  std::vector<float> a(x.size()), b(x.size());
  const auto pool = make_pool(2);
  LayerNorm op = {.rows = rows,
                  .columns = columns,
                  .x = x.data(),
                  .weight = weight.param(),
                  .bias = bias.param(),
                  .y = a.data()};
  layer_norm_cpu(op, *pool);
  op.weight = param_of(weight.values);
  op.bias = param_of(bias.values);
  op.y = b.data();
  layer_norm_cpu(op, *pool);
  EXPECT_TRUE(same_bits(a, b));
}

TEST(Dropout, KeepsItsShareAndItsBits) {
  const Dropout d = {.p = 0.25f, .seed = 3, .step = 4, .micro_batch = 5, .tensor = 6};
  constexpr u64 n = 100'000;
  const std::vector<float> ones(n, 1.0f);
  std::vector<float> whole(n), pieces(n);
  dropout_row(d, 10, ones.data(), whole.data(), n);
  for (u64 begin = 0; begin < n; begin += 777) {
    dropout_row(d, 10 + begin, ones.data() + begin, pieces.data() + begin, std::min<u64>(777, n - begin));
  }
  EXPECT_TRUE(same_bits(whole, pieces));
  u64 kept = 0;
  for (float x : whole) {
    ASSERT_TRUE(x == 0.0f || x == d.scale());
    kept += x != 0.0f;
  }
  EXPECT_NEAR(double(kept) / n, 0.75, 0.005);
  for (u64 i = 0; i < 3000; ++i) ASSERT_EQ(whole[i] != 0.0f, dropout_bits(d, 10 + i) >= 0x4000'0000u) << i;
}

// Known answers of Philox4x32-10, published by Random123.
TEST(Dropout, IsPhilox) {
  const Dropout zero = {.p = 0.5f};
  const std::vector<u32> want = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  for (u64 i = 0; i < 4; ++i) EXPECT_EQ(dropout_bits(zero, i), want[i]);
}

TEST(Dropout, CountsPastThirtyTwoBits) {
  const Dropout d = {.p = 0.5f};
  const std::vector<float> ones(512, 1.0f);
  std::vector<float> out(512);
  const u64 first = (u64{1} << 34) - 130;  // the block number's low word wraps inside
  dropout_row(d, first, ones.data(), out.data(), out.size());
  for (u64 i = 0; i < out.size(); ++i)
    ASSERT_EQ(out[i] != 0.0f, dropout_bits(d, first + i) >= 0x8000'0000u) << i;
}

TEST(Dropout, EveryPartOfTheKeyCounts) {
  const Dropout base = {.p = 0.5f, .seed = 1, .step = 1, .micro_batch = 1, .tensor = 1};
  Dropout seed = base, step = base, micro_batch = base, tensor = base;
  seed.seed = 2, step.step = 2, micro_batch.micro_batch = 2, tensor.tensor = 2;
  for (const Dropout& other : {seed, step, micro_batch, tensor}) {
    EXPECT_NE(dropout_bits(base, 7), dropout_bits(other, 7));
  }
  EXPECT_NE(dropout_bits(base, 7), dropout_bits(base, 7 + (u64{1} << 34)));
}

struct EmbeddingData {
  static constexpr u32 sequences = 3, tokens_per_sequence = 50, columns = 70, vocabulary = 13, positions = 60;
  std::vector<i32> tokens;
  std::vector<float> dout = random_floats(u64{sequences} * tokens_per_sequence * columns, 1);

  EmbeddingData() {
    for (u32 i = 0; i < sequences * tokens_per_sequence; ++i) tokens.push_back(i32(i * i % 11));
  }
};

TEST(Embedding, LooksUpAndScatters) {
  const EmbeddingData d;
  const auto wte = random_floats(u64{d.vocabulary} * d.columns, 2),
             wpe = random_floats(u64{d.positions} * d.columns, 3);
  std::vector<float> out(d.dout.size(), NAN);
  const auto pool = make_pool(2);
  embedding_cpu({.sequences = d.sequences,
                 .tokens_per_sequence = d.tokens_per_sequence,
                 .columns = d.columns,
                 .tokens = d.tokens.data(),
                 .wte = param_of(wte),
                 .wpe = param_of(wpe),
                 .out = out.data()},
                *pool);
  std::vector<double> want_wte(wte.size(), 0.0), want_wpe(wpe.size(), 0.0);
  for (u64 row = 0; row < d.tokens.size(); ++row) {
    for (u64 c = 0; c < d.columns; ++c) {
      const u64 from = u64(d.tokens[row]) * d.columns + c, at = row % d.tokens_per_sequence * d.columns + c;
      ASSERT_EQ(out[row * d.columns + c], wte[from] + wpe[at]);
      want_wte[from] += d.dout[row * d.columns + c];
      want_wpe[at] += d.dout[row * d.columns + c];
    }
  }
  std::vector<u64> order(d.tokens.size());
  std::vector<float> dwte(wte.size(), NAN), dwpe(wpe.size(), NAN);
  EmbeddingBackward back = {.sequences = d.sequences,
                            .tokens_per_sequence = d.tokens_per_sequence,
                            .columns = d.columns,
                            .vocabulary = d.vocabulary,
                            .positions = d.positions,
                            .tokens = d.tokens.data(),
                            .dout = d.dout.data(),
                            .dwte = dwte.data(),
                            .dwpe = dwpe.data(),
                            .accumulate = false,
                            .order = order.data()};
  embedding_backward_cpu(back, *pool);
  EXPECT_LE(relative_error(dwte, want_wte), 1e-6);
  EXPECT_LE(relative_error(dwpe, want_wpe), 1e-6);
  std::vector<float> sum = wte, sum_wpe = wpe;
  back.dwte = sum.data();
  back.dwpe = sum_wpe.data();
  back.accumulate = true;
  embedding_backward_cpu(back, *pool);
  for (u64 i = 0; i < sum.size(); ++i) ASSERT_EQ(sum[i], wte[i] + dwte[i]);
  for (u64 i = 0; i < sum_wpe.size(); ++i) ASSERT_EQ(sum_wpe[i], wpe[i] + dwpe[i]);
}

TEST(Embedding, DoesWithoutPositions) {
  const EmbeddingData d;
  const auto wte = random_floats(u64{d.vocabulary} * d.columns, 2);
  std::vector<float> out(d.dout.size(), NAN);
  const auto pool = make_pool(2);
  embedding_cpu({.sequences = d.sequences,
                 .tokens_per_sequence = d.tokens_per_sequence,
                 .columns = d.columns,
                 .tokens = d.tokens.data(),
                 .wte = param_of(wte),
                 .out = out.data()},
                *pool);
  for (u64 row = 0; row < d.tokens.size(); ++row) {
    for (u64 c = 0; c < d.columns; ++c)
      ASSERT_EQ(out[row * d.columns + c], wte[u64(d.tokens[row]) * d.columns + c]);
  }
  std::vector<u64> order(d.tokens.size());
  std::vector<float> both(wte.size(), NAN), one(wte.size(), NAN), dwpe(u64{d.positions} * d.columns);
  EmbeddingBackward back = {.sequences = d.sequences,
                            .tokens_per_sequence = d.tokens_per_sequence,
                            .columns = d.columns,
                            .vocabulary = d.vocabulary,
                            .positions = d.positions,
                            .tokens = d.tokens.data(),
                            .dout = d.dout.data(),
                            .dwte = both.data(),
                            .dwpe = dwpe.data(),
                            .accumulate = false,
                            .order = order.data()};
  embedding_backward_cpu(back, *pool);
  back.dwte = one.data(), back.dwpe = nullptr;
  embedding_backward_cpu(back, *pool);
  EXPECT_TRUE(same_bits(one, both));
}

// cap: 0: none
void expect_slices_match_double(float cap) {
  constexpr u32 rows = 70, vocabulary = 101;
  auto logits = random_floats(rows * vocabulary, 1, 4.0f);
  std::vector<i32> targets(rows);
  for (u32 r = 0; r < rows; ++r)
    targets[r] = r % 7 == 3 ? ignored_target : r % 7 == 5 ? padding_target : i32(r * 13 % vocabulary);
  const auto pool = make_pool(2);
  std::vector<RowLoss> losses(rows);
  std::vector<LogitSums> sums(rows);
  const auto slice_of = [&](u32 begin, u32 columns, std::vector<float>& copy) {
    copy.clear();
    for (u32 r = 0; r < rows; ++r) {
      copy.insert(copy.end(), &logits[r * vocabulary + begin], &logits[r * vocabulary + begin] + columns);
    }
    return LogitsSlice{.rows = rows,
                       .begin = begin,
                       .columns = columns,
                       .logits = copy.data(),
                       .targets = targets.data(),
                       .losses = losses.data(),
                       .cap = cap,
                       .logit_sums = sums.data()};
  };
  std::vector<float> copy;
  for (auto [begin, columns] : {std::pair{0u, 64u}, {64u, 37u}}) {
    cross_entropy_slice_cpu(slice_of(begin, columns, copy), *pool);
  }
  double loss = 1.0, want = 1.0;  // added to
  cross_entropy_loss(losses.data(), targets.data(), rows, {.loss = &loss});
  std::vector<double> gradient(logits.size(), 0.0), seen(logits.begin(), logits.end()),
      slope(logits.size(), 1.0);
  for (u64 i = 0; cap != 0 && i < seen.size(); ++i) {
    const double tanh = std::tanh(seen[i] / cap);
    seen[i] = cap * tanh, slope[i] = 1 - tanh * tanh;
  }
  for (u32 r = 0; r < rows; ++r) {
    double sum = 0;
    for (u32 c = 0; c < vocabulary; ++c) sum += std::exp(seen[r * vocabulary + c]);
    double total = 0, entropy = 0, squares = 0;
    for (u32 c = 0; c < vocabulary; ++c) {
      const double x = seen[r * vocabulary + c], p = std::exp(x) / sum;
      total += x, entropy -= p * std::log(p), squares += p * p;
    }
    EXPECT_NEAR(sums[r].logits, total, 1e-5 * vocabulary);
    EXPECT_NEAR(entropy_of(losses[r], sums[r]), entropy, 1e-6 * (1 + entropy));
    EXPECT_NEAR(log_squares_of(losses[r], sums[r]), std::log(squares), 1e-6);
    if (!has_loss(targets[r])) continue;
    want += std::log(sum) - seen[r * vocabulary + u32(targets[r])];
    for (u32 c = 0; c < vocabulary; ++c) {
      gradient[r * vocabulary + c] = 0.5 * slope[r * vocabulary + c] *
                                     (std::exp(seen[r * vocabulary + c]) / sum - (i32(c) == targets[r]));
    }
  }
  EXPECT_NEAR(loss, want, 1e-5 * want);
  for (auto [begin, columns] : {std::pair{0u, 64u}, {64u, 37u}}) {
    const LogitsSlice slice = slice_of(begin, columns, copy);
    cross_entropy_gradient_cpu(slice, {.scale = 0.5f}, *pool);
    for (u32 r = 0; r < rows; ++r) {
      for (u32 c = 0; c < columns; ++c) {
        ASSERT_NEAR(copy[r * columns + c], gradient[r * vocabulary + begin + c], 1e-6);
      }
    }
  }
}

TEST(CrossEntropy, SlicesMatchDouble) { expect_slices_match_double(0); }
TEST(CrossEntropy, CappedSlicesMatchDouble) {
  for (const float cap : {0.5f, 3.0f, 30.0f}) expect_slices_match_double(cap);
}

// Logits past the cap count as the cap, and no logit is above it.
TEST(CrossEntropy, CapsBoundTheLoss) {
  std::vector<float> logits = {500.0f, -500.0f, 20.0f};
  const std::vector<i32> targets = {1};
  std::vector<RowLoss> losses(1);
  const auto pool = make_pool(1);
  const LogitsSlice slice = {.rows = 1,
                             .columns = 3,
                             .logits = logits.data(),
                             .targets = targets.data(),
                             .losses = losses.data(),
                             .cap = 2};
  cross_entropy_slice_cpu(slice, *pool);
  double loss = 0, correct = 0;
  cross_entropy_loss(losses.data(), targets.data(), 1, {.loss = &loss, .correct = &correct});
  EXPECT_NEAR(loss, std::log(2 * std::exp(2.0) + std::exp(-2.0)) + 2, 1e-6);
  EXPECT_EQ(correct, 0);
  cross_entropy_gradient_cpu(slice, {}, *pool);
  EXPECT_EQ(logits, std::vector<float>(3, 0.0f));  // the cap is flat there
}

TEST(SoftCap, MatchesDoubleEverywhere) {
  for (const float cap : {1.0f, 30.0f})
    for (float x = -15; x < 15; x += 0.01f) {
      float y = x * cap;
      const double want = cap * std::tanh(double(y) / cap);
      soft_cap_row(&y, cap, 1);
      EXPECT_NEAR(y, want, 4e-7 * std::abs(want)) << x;
    }
  float special[] = {NAN, INFINITY, -INFINITY, 0.0f};
  soft_cap_row(special, 30, 4);
  EXPECT_TRUE(std::isnan(special[0]));
  EXPECT_EQ(special[1], 30.0f);
  EXPECT_EQ(special[2], -30.0f);
  EXPECT_EQ(special[3], 0.0f);
}

TEST(SoftCap, DoesNotDependOnAnElementsPlace) {
  const auto x = random_floats(101, 1, 40.0f);
  std::vector<float> whole = x;
  soft_cap_row(whole.data(), 20, whole.size());
  for (u64 i = 0; i < x.size(); ++i) {
    float alone = x[i];
    soft_cap_row(&alone, 20, 1);
    ASSERT_EQ(alone, whole[i]) << i;
  }
}

}  // namespace tidepool::test::rows_test
