// The device's recurrent layers tile by tile, against the recurrence over whole sequences in double.
#include "tests/support/references/delta_tiles.h"

#include "kernels/cuda/kernels_cuda_parts.h"
#include "tests/cuda/cuda_fixture.h"
#include "tests/support/references/delta_rule.h"

namespace tidepool::test::cuda_delta_tiles_test {

std::vector<float> floats_of(const Doubles& x) { return {x.begin(), x.end()}; }

class CudaDeltaTiles : public CudaTest {
 protected:
  void expect_recurrence(const DeltaReference& r, Precision precision, u32 tile) {
    SCOPED_TRACE(testing::Message() << r.s.tokens << " tokens, DK " << r.s.key_size << " " << name(precision)
                                    << " tiles of " << tile << (r.starts.empty() ? "" : " documents"));
    const DeltaShape& s = r.s;
    const bool skips = !s.corrects();
    const DeltaArrays in(s);
    const DeviceValues projected(in.projected, precision), qkv(in.qkv, precision), dout(in.dout, precision),
        a_log(in.a_log, precision), dt_bias(in.dt_bias, precision), skip(in.skip, precision),
        y(in.dout, precision), dqkv(in.qkv, precision),
        dprojected(std::vector<float>(in.projected.size()), precision);
    const DeviceArray starts(r.starts.data(), r.starts.size() * sizeof(i32)),
        partials(delta_partials(s) * sizeof(float)), states(delta_states(s) * sizeof(float)),
        da_log(s.value_heads * sizeof(float)), ddt_bias(s.value_heads * sizeof(float)),
        dskip(s.value_heads * sizeof(float)),
        borders(div_up(s.tokens, u64{tile}) * delta_border_elements(s) * sizeof(float)),
        gradients(2 * delta_border_elements(s) * sizeof(float));
    run_delta_tiles(
        s, tile, skips ? mamba_steps : StepLimits{},
        {.qkv = qkv.values(),
         .projected = projected.values(),
         .dout = dout.values(),
         .a_log = a_log.values(),
         .dt_bias = dt_bias.values(),
         .skip = skips ? Param(skip.values()) : Param(),
         .starts = r.starts.empty() ? nullptr : starts.as<i32>(),
         .out = y.values(),
         .dqkv = dqkv.values(),
         .dprojected = dprojected.values(),
         .da_log = da_log.as<float>(),
         .ddt_bias = ddt_bias.as<float>(),
         .dskip = skips ? dskip.as<float>() : nullptr,
         .partials = partials.as<float>(),
         .states = states.as<float>(),
         .borders = borders.as<float>(),
         .gradients = gradients.as<float>()},
        [&](const GatedDelta& op) { gated_delta_cuda(op, stream_); },
        [&](const GatedDeltaBackward& op) { gated_delta_backward_cuda(op, stream_); });
    synchronize();
    const std::vector<float>& skips_given = skip.given();
    const DeltaReference::Parameters parameters = {qkv.given(), projected.given(), a_log.given(),
                                                   dt_bias.given(), &skips_given};
    const DeltaReference::Gradients want = r.rule_backward(parameters, dout.given());
    EXPECT_LE(relative_error(y.now(), floats_of(r.rule(parameters))), tolerance(precision, 1e-5));
    // Heads of a key head add to one gradient, which is rounded each time.
    EXPECT_LE(relative_error(dqkv.now(), floats_of(want.qkv)), 2 * tolerance(precision, 1e-5));
    EXPECT_LE(relative_error(dprojected.now(), floats_of(want.projected)), tolerance(precision, 1e-5));
    EXPECT_LE(relative_error(da_log.values<float>(), floats_of(want.a_log)), 2e-5);
    EXPECT_LE(relative_error(ddt_bias.values<float>(), floats_of(want.dt_bias)), 2e-5);
    if (skips) EXPECT_LE(relative_error(dskip.values<float>(), floats_of(want.skip)), 2e-5);
  }

  template <class Shapes>
  void expect_recurrences(const Shapes& shapes) {
    for (const DeltaShape& shape : shapes)
      for (const bool documents : {false, true}) {
        const DeltaReference r(shape, documents);
        expect_recurrence(r, Precision::fp32, 71);
        expect_recurrence(r, Precision::bf16, 64);
        if (shape.tokens < 100) expect_recurrence(r, Precision::fp16, 5);
      }
  }
};

TEST_F(CudaDeltaTiles, OfTheDeltaRuleGiveTheRecurrence) { expect_recurrences(delta_shapes); }
TEST_F(CudaDeltaTiles, OfMambaGiveTheRecurrence) { expect_recurrences(mamba_shapes); }

}  // namespace tidepool::test::cuda_delta_tiles_test
