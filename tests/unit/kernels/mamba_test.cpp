// Compares the chunks of Mamba-2 with the recurrence token by token in double, and documents that are packed
// with documents that stand alone.
#include "tests/support/expert_routes.h"
#include "tests/support/references/delta_rule.h"

namespace tidepool::test::mamba_test {

// How far results are from their reference, in units of its largest element.
double error_of(const std::vector<float>& got, const Doubles& want) {
  EXPECT_EQ(got.size(), want.size());
  double most = 1e-2, worst = 0;
  for (u64 i = 0; i < want.size(); ++i) {
    most = std::max(most, std::abs(want[i]));
    worst = std::max(worst, std::isnan(got[i]) ? 1e30 : std::abs(got[i] - want[i]));
  }
  return worst / most;
}

class Mamba : public testing::TestWithParam<std::tuple<DeltaShape, bool>>, public DeltaReference {
 protected:
  Mamba()
      : DeltaReference(std::get<0>(GetParam()), std::get<1>(GetParam())),
        in(s),
        partials(delta_partials(s)),
        states(delta_states(s)) {}

  Parameters parameters() const { return {in.qkv, in.projected, in.a_log, in.dt_bias, &in.skip}; }

  DeltaArrays in;
  std::vector<float> partials, states;
};

TEST_P(Mamba, ConvolvesWithABias) {
  for (const u32 workers : {1u, 2u, 3u}) {
    std::vector<float> y(in.qkv.size(), -7);
    delta_convolution_cpu({.shape = s,
                           .projected = in.projected.data(),
                           .weight = in.weight.data(),
                           .starts = starts_or_null(),
                           .y = y.data(),
                           .bias = in.bias.data()},
                          shared_pool(workers));
    EXPECT_LE(error_of(y, convolution(in.projected, in.weight, in.bias)), 1e-6);
  }
}

TEST_P(Mamba, ConvolutionGoesBackToItsBias) {
  Doubles dprojected(in.projected.size()), dweight(in.weight.size()), dbias(in.bias.size());
  convolution_backward(in.projected, in.weight, in.dqkv, dprojected, dweight, in.bias, &dbias);
  for (u32 row = 0; row < s.rows(); ++row)  // other columns keep what they hold
    for (u32 head = 0; head < s.value_heads; ++head) {
      const u64 line = u64{row} * s.columns();
      dprojected[line + s.a(head)] = -7;
      for (u32 j = 0; j < s.value_size; ++j) dprojected[line + s.z(head) + j] = -7;
    }
  for (const bool accumulate : {false, true})
    for (const u32 workers : {1u, 2u, 3u}) {
      std::vector<float> got(in.projected.size(), -7), weights(in.weight.size(), accumulate ? 1.5f : -7.0f),
          biases(in.bias.size(), accumulate ? 1.5f : -7.0f);
      delta_convolution_backward_cpu({.shape = s,
                                      .projected = in.projected.data(),
                                      .weight = in.weight.data(),
                                      .bias = in.bias.data(),
                                      .starts = starts_or_null(),
                                      .dy = in.dqkv.data(),
                                      .dprojected = got.data(),
                                      .dweight = weights.data(),
                                      .dbias = biases.data(),
                                      .accumulate = accumulate,
                                      .partials = partials.data()},
                                     shared_pool(workers));
      EXPECT_LE(error_of(got, dprojected), 1e-6);
      Doubles want = dweight, want_bias = dbias;
      for (double& x : want) x += accumulate ? 1.5 : 0;
      for (double& x : want_bias) x += accumulate ? 1.5 : 0;
      EXPECT_LE(error_of(weights, want), 1e-5);
      EXPECT_LE(error_of(biases, want_bias), 1e-5);
    }
}

TEST_P(Mamba, ChunksGiveTheRecurrence) {
  const Doubles want = rule(parameters());
  for (const u32 workers : {1u, 2u, 3u}) {
    std::vector<float> out(in.dout.size(), -7);
    gated_delta_cpu({.shape = s,
                     .qkv = in.qkv.data(),
                     .projected = in.projected.data(),
                     .a_log = in.a_log.data(),
                     .dt_bias = in.dt_bias.data(),
                     .starts = starts_or_null(),
                     .out = out.data(),
                     .skip = in.skip.data(),
                     .steps = mamba_steps},
                    shared_pool(workers));
    EXPECT_LE(error_of(out, want), 1e-6);
  }
}

TEST_P(Mamba, ChunksGoBack) {
  const Gradients want = rule_backward(parameters(), in.dout);
  for (const bool accumulate : {false, true})
    for (const u32 workers : {1u, 2u, 3u}) {
      std::vector<float> dqkv(in.qkv.size(), -7), dprojected(in.projected.size(), 0),
          da_log(s.value_heads, accumulate ? 0.5f : -7.0f), ddt_bias = da_log, dskip = da_log;
      gated_delta_backward_cpu({.shape = s,
                                .qkv = in.qkv.data(),
                                .projected = in.projected.data(),
                                .a_log = in.a_log.data(),
                                .dt_bias = in.dt_bias.data(),
                                .skip = in.skip.data(),
                                .steps = mamba_steps,
                                .starts = starts_or_null(),
                                .dout = in.dout.data(),
                                .dqkv = dqkv.data(),
                                .dprojected = dprojected.data(),
                                .da_log = da_log.data(),
                                .ddt_bias = ddt_bias.data(),
                                .dskip = dskip.data(),
                                .accumulate = accumulate,
                                .partials = partials.data(),
                                .states = states.data()},
                               shared_pool(workers));
      EXPECT_LE(error_of(dqkv, want.qkv), 1e-5);
      EXPECT_LE(error_of(dprojected, want.projected), 1e-5);
      Doubles a = want.a_log, dt = want.dt_bias, skip = want.skip;
      for (u32 head = 0; head < s.value_heads && accumulate; ++head)
        a[head] += 0.5, dt[head] += 0.5, skip[head] += 0.5;
      EXPECT_LE(error_of(da_log, a), 1e-5);
      EXPECT_LE(error_of(ddt_bias, dt), 1e-5);
      EXPECT_LE(error_of(dskip, skip), 1e-5);
    }
}

TEST_P(Mamba, NormGatesBeforeItNormalisesGroups) {
  constexpr float epsilon = 1e-5f;
  const Doubles want = group_norm(in.x, in.projected, in.group_norm, epsilon);
  Doubles dx(in.x.size()), dprojected(in.projected.size()), dweight(s.value_columns());
  group_norm_backward(in.x, in.projected, in.group_norm, epsilon, in.dout, dx, dprojected, dweight);
  for (const u32 workers : {1u, 2u, 3u}) {
    std::vector<float> y(in.x.size(), -7), back = in.dout, gates(in.projected.size(), 0),
                                           weights(s.value_columns(), -7);
    group_norm_cpu({.shape = s,
                    .x = in.x.data(),
                    .projected = in.projected.data(),
                    .weight = in.group_norm.data(),
                    .epsilon = epsilon,
                    .y = y.data()},
                   shared_pool(workers));
    EXPECT_LE(error_of(y, want), 1e-6);
    group_norm_backward_cpu({.shape = s,
                             .x = in.x.data(),
                             .projected = in.projected.data(),
                             .weight = in.group_norm.data(),
                             .epsilon = epsilon,
                             .dy = back.data(),
                             .dx = back.data(),
                             .dprojected = gates.data(),
                             .dweight = weights.data(),
                             .accumulate = false,
                             .partials = partials.data()},
                            shared_pool(workers));
    EXPECT_LE(error_of(back, dx), 1e-5);
    EXPECT_LE(error_of(gates, dprojected), 1e-5);
    EXPECT_LE(error_of(weights, dweight), 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Mamba, testing::Combine(testing::ValuesIn(mamba_shapes), testing::Bool()));
INSTANTIATE_TEST_SUITE_P(Long, Mamba,
                         testing::Combine(testing::Values(DeltaShape{.sequences = 1,
                                                                     .tokens = 1000,
                                                                     .key_heads = 1,
                                                                     .value_heads = 2,
                                                                     .key_size = 16,
                                                                     .value_size = 16,
                                                                     .taps = 4,
                                                                     .rule = StateRule::mamba}),
                                          testing::Bool()));

// A document's rows, of one sequence with others before and after, and alone.
TEST(MambaOfDocuments, PackedDocumentsHaveTheBitsOfDocumentsAlone) {
  const DeltaShape one = {.sequences = 1,
                          .tokens = 1,
                          .key_heads = 2,
                          .value_heads = 4,
                          .key_size = 24,
                          .value_size = 16,
                          .taps = 4,
                          .rule = StateRule::mamba};
  const std::vector<u32> lengths = {1, 70, 5, 64, 129, 200, 3};
  DeltaShape packed = one;
  packed.tokens = 0;
  std::vector<i32> starts;
  for (const u32 length : lengths) {
    starts.insert(starts.end(), length, static_cast<i32>(packed.tokens));
    packed.tokens += length;
  }
  const auto run = [&](const DeltaShape& s, const DeltaArrays& in, const i32* begins) {
    std::vector<float> qkv(in.qkv.size()), out(in.dout.size()), dqkv(in.qkv.size()),
        dprojected(in.projected.size()), partials(delta_partials(s)), states(delta_states(s));
    CorePool& pool = shared_pool(2);
    delta_convolution_cpu(
        {s, in.projected.data(), in.weight.data(), begins, qkv.data(), Param(in.bias.data())}, pool);
    gated_delta_cpu({.shape = s,
                     .qkv = qkv.data(),
                     .projected = in.projected.data(),
                     .a_log = in.a_log.data(),
                     .dt_bias = in.dt_bias.data(),
                     .starts = begins,
                     .out = out.data(),
                     .skip = in.skip.data()},
                    pool);
    gated_delta_backward_cpu({.shape = s,
                              .qkv = qkv.data(),
                              .projected = in.projected.data(),
                              .a_log = in.a_log.data(),
                              .dt_bias = in.dt_bias.data(),
                              .skip = in.skip.data(),
                              .starts = begins,
                              .dout = in.dout.data(),
                              .dqkv = dqkv.data(),
                              .dprojected = dprojected.data(),
                              .partials = partials.data(),
                              .states = states.data()},
                             pool);
    delta_convolution_backward_cpu({.shape = s,
                                    .projected = in.projected.data(),
                                    .weight = in.weight.data(),
                                    .bias = in.bias.data(),
                                    .starts = begins,
                                    .dy = dqkv.data(),
                                    .dprojected = dprojected.data(),
                                    .partials = partials.data()},
                                   pool);
    return std::array{out, dprojected};
  };
  const DeltaArrays all(packed);
  const auto together = run(packed, all, starts.data());
  u32 begin = 0;
  for (const u32 length : lengths) {
    DeltaShape s = one;
    s.tokens = length;
    DeltaArrays in(s);
    in.weight = all.weight, in.bias = all.bias, in.skip = all.skip;
    in.a_log = all.a_log, in.dt_bias = all.dt_bias;
    const auto cut = [&](const std::vector<float>& from, u32 columns) {
      return std::vector<float>(from.begin() + i64{begin} * columns,
                                from.begin() + i64{begin + length} * columns);
    };
    in.projected = cut(all.projected, s.columns()), in.dout = cut(all.dout, s.value_columns());
    const auto alone = run(s, in, nullptr);
    EXPECT_EQ(alone[0], cut(together[0], s.value_columns())) << length;
    EXPECT_EQ(alone[1], cut(together[1], s.columns())) << length;
    begin += length;
  }
}

}  // namespace tidepool::test::mamba_test
