// Recurrent layers tile by tile, against the recurrence over whole sequences in double.
#include "tests/support/references/delta_tiles.h"

#include "tests/support/references/delta_rule.h"

namespace tidepool::test::delta_tiles_test {

double error_of(const std::vector<float>& got, const Doubles& want) {
  EXPECT_EQ(got.size(), want.size());
  double most = 1e-2, worst = 0;
  for (u64 i = 0; i < want.size(); ++i) {
    most = std::max(most, std::abs(want[i]));
    worst = std::max(worst, std::isnan(got[i]) ? 1e30 : std::abs(got[i] - want[i]));
  }
  return worst / most;
}

class DeltaTiles : public testing::TestWithParam<std::tuple<DeltaShape, bool>> {};

// Tiles end between chunks, in the middle of them, and where a document ends.
TEST_P(DeltaTiles, GiveTheRecurrence) {
  const DeltaReference r(std::get<0>(GetParam()), std::get<1>(GetParam()));
  const DeltaShape& s = r.s;
  const bool skips = !s.corrects();
  const DeltaArrays in(s);
  const DeltaReference::Parameters parameters = {in.qkv, in.projected, in.a_log, in.dt_bias, &in.skip};
  const Doubles out = r.rule(parameters);
  const DeltaReference::Gradients want = r.rule_backward(parameters, in.dout);
  for (const u32 tile : {1u, 7u, 64u, 71u, 100u}) {
    SCOPED_TRACE(tile);
    std::vector<float> y(in.dout.size(), -7), dqkv(in.qkv.size(), -7), dprojected(in.projected.size(), 0),
        partials(delta_partials(s)), states(delta_states(s)), da_log(s.value_heads, -7),
        ddt_bias = da_log, dskip = da_log,
        borders(div_up(s.tokens, u64{tile}) * delta_border_elements(s), NAN),
        gradients(2 * delta_border_elements(s), NAN);
    run_delta_tiles(
        s, tile, skips ? mamba_steps : StepLimits{},
        {.qkv = in.qkv.data(),
         .projected = in.projected.data(),
         .dout = in.dout.data(),
         .a_log = in.a_log.data(),
         .dt_bias = in.dt_bias.data(),
         .skip = skips ? Param(in.skip.data()) : Param(),
         .starts = r.starts_or_null(),
         .out = y.data(),
         .dqkv = dqkv.data(),
         .dprojected = dprojected.data(),
         .da_log = da_log.data(),
         .ddt_bias = ddt_bias.data(),
         .dskip = skips ? dskip.data() : nullptr,
         .partials = partials.data(),
         .states = states.data(),
         .borders = borders.data(),
         .gradients = gradients.data()},
        [](const GatedDelta& op) { gated_delta_cpu(op, shared_pool(2)); },
        [](const GatedDeltaBackward& op) { gated_delta_backward_cpu(op, shared_pool(2)); });
    EXPECT_LE(error_of(y, out), 2e-6);
    EXPECT_LE(error_of(dqkv, want.qkv), 1e-5);
    EXPECT_LE(error_of(dprojected, want.projected), 1e-5);
    EXPECT_LE(error_of(da_log, want.a_log), 1e-5);
    EXPECT_LE(error_of(ddt_bias, want.dt_bias), 1e-5);
    if (skips) EXPECT_LE(error_of(dskip, want.skip), 1e-5);
  }
}

std::string name_of(const testing::TestParamInfo<std::tuple<DeltaShape, bool>>& info) {
  return std::to_string(std::get<0>(info.param).tokens) + "_tokens" +
         (std::get<1>(info.param) ? "_documents" : "");
}
INSTANTIATE_TEST_SUITE_P(Delta, DeltaTiles,
                         testing::Combine(testing::ValuesIn(delta_shapes), testing::Bool()), name_of);
INSTANTIATE_TEST_SUITE_P(Mamba, DeltaTiles,
                         testing::Combine(testing::ValuesIn(mamba_shapes), testing::Bool()), name_of);

}  // namespace tidepool::test::delta_tiles_test
