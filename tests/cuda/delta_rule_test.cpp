// Compares the device's gated delta rule with the recurrence token by token in double, and documents that are
// packed with documents that stand alone.
#include "tests/support/references/delta_rule.h"

#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/delta_rule/delta_rule_launch.h"
#include "tests/cuda/cuda_fixture.h"

namespace tidepool::test::cuda_delta_rule_test {

std::vector<float> floats_of(const Doubles& x) { return {x.begin(), x.end()}; }

// A case's arrays on the device, and their values after rounding.
struct DeltaOnDevice {
  DeltaOnDevice(const DeltaReference& r, const DeltaArrays& in, Precision activations, Precision parameters,
                u64 shift = 0)
      : precision(activations),
        elements_off(shift),
        projected(in.projected, activations, shift),
        qkv(in.qkv, activations, shift),
        dout(in.dout, activations, shift),
        dqkv(in.dqkv, activations, shift),
        x(in.x, activations, shift),
        weight(in.weight, parameters),
        a_log(in.a_log, parameters),
        dt_bias(in.dt_bias, parameters),
        norm(in.norm, parameters),
        starts(r.starts.data(), r.starts.size() * sizeof(i32)),
        partials(delta_partials(r.s) * sizeof(float)),
        states(delta_states(r.s) * sizeof(float)),
        has_documents(!r.starts.empty()) {}

  const i32* starts_or_null() const { return has_documents ? starts.as<i32>() : nullptr; }
  DeltaReference::Parameters parameters() const {
    return {qkv.given(), projected.given(), a_log.given(), dt_bias.given()};
  }
  // An array like `from`, of -7.
  DeviceValues empty(const std::vector<float>& from) const {
    return DeviceValues(std::vector<float>(from.size(), -7.0f), precision, elements_off);
  }

  Precision precision;
  u64 elements_off;
  DeviceValues projected, qkv, dout, dqkv, x, weight, a_log, dt_bias, norm;
  DeviceArray starts, partials, states;
  bool has_documents;
};

class CudaDeltaRule : public CudaTest {
 protected:
  // Calls fn(reference, arrays) for all shapes, with and without documents.
  template <class Fn>
  void for_cases(Fn fn) {
    using enum Precision;
    struct Kind {
      Precision activations, parameters;
      u64 shift = 0;
    };
    for (const DeltaShape& shape : delta_shapes)
      for (const bool documents : {false, true})
        for (const Kind& kind : {Kind{fp32, fp32}, Kind{bf16, bf16, 3}, Kind{bf16, fp32}, Kind{fp16, fp16}}) {
          SCOPED_TRACE(testing::Message() << "DK " << shape.key_size << " " << name(kind.activations) << " + "
                                          << kind.shift << (documents ? " documents" : ""));
          const DeltaReference reference(shape, documents);
          fn(reference,
             DeltaOnDevice(reference, DeltaArrays(shape), kind.activations, kind.parameters, kind.shift));
        }
  }

  void go_back(const DeltaReference& r, const DeltaOnDevice& in, const DeviceValues& dqkv,
               const DeviceValues& dprojected, float* da_log, float* ddt_bias, bool accumulate) {
    gated_delta_backward_cuda({.shape = r.s,
                               .qkv = in.qkv.values(),
                               .projected = in.projected.values(),
                               .a_log = in.a_log.values(),
                               .dt_bias = in.dt_bias.values(),
                               .starts = in.starts_or_null(),
                               .dout = in.dout.values(),
                               .dqkv = dqkv.values(),
                               .dprojected = dprojected.values(),
                               .da_log = da_log,
                               .ddt_bias = ddt_bias,
                               .accumulate = accumulate,
                               .partials = in.partials.as<float>(),
                               .states = in.states.as<float>()},
                              stream_);
    synchronize();
  }
  void expect_gradients(const DeltaReference& r, const DeltaOnDevice& in, bool accumulate) {
    DeltaReference::Gradients want = r.rule_backward(in.parameters(), in.dout.given());
    const DeviceValues dqkv = in.empty(in.qkv.given()),
                       dprojected(std::vector<float>(in.projected.given().size()), in.precision,
                                  in.elements_off);
    const std::vector<float> before(r.s.value_heads, accumulate ? 0.5f : -7.0f);
    const DeviceArray da_log(before.data(), before.size() * sizeof(float)),
        ddt_bias(before.data(), before.size() * sizeof(float));
    go_back(r, in, dqkv, dprojected, da_log.as<float>(), ddt_bias.as<float>(), accumulate);
    for (u32 head = 0; head < r.s.value_heads; ++head)
      want.a_log[head] += accumulate ? 0.5 : 0, want.dt_bias[head] += accumulate ? 0.5 : 0;
    const double most = tolerance(in.precision, 1e-5);
    EXPECT_LE(relative_error(dqkv.now(), floats_of(want.qkv)), most);
    EXPECT_LE(relative_error(dprojected.now(), floats_of(want.projected)), most);
    EXPECT_LE(relative_error(da_log.values<float>(), floats_of(want.a_log)), 1e-5);
    EXPECT_LE(relative_error(ddt_bias.values<float>(), floats_of(want.dt_bias)), 1e-5);
  }
};

TEST_F(CudaDeltaRule, ConvolvesWithinDocuments) {
  for_cases([&](const DeltaReference& r, const DeltaOnDevice& in) {
    const DeviceValues y = in.empty(in.qkv.given());
    delta_convolution_cuda({.shape = r.s,
                            .projected = in.projected.values(),
                            .weight = in.weight.values(),
                            .starts = in.starts_or_null(),
                            .y = y.values()},
                           stream_);
    synchronize();
    const Doubles want = r.convolution(in.projected.given(), in.weight.given());
    EXPECT_LE(relative_error(y.now(), floats_of(want)), tolerance(in.precision, 1e-6));
  });
}

TEST_F(CudaDeltaRule, ConvolutionGoesBackAndLeavesOtherColumns) {
  bool accumulate = false;
  for_cases([&](const DeltaReference& r, const DeltaOnDevice& in) {
    accumulate = !accumulate;
    Doubles dprojected(in.projected.given().size()),
        dweight(in.weight.given().size(), accumulate ? 1.5 : 0.0);
    r.convolution_backward(in.projected.given(), in.weight.given(), in.dqkv.given(), dprojected, dweight);
    for (u32 row = 0; row < r.s.rows(); ++row)
      for (u32 head = 0; head < r.s.value_heads; ++head) {
        const u64 line = u64{row} * r.s.columns();
        dprojected[line + r.s.a(head)] = dprojected[line + r.s.b(head)] = -7;
        for (u32 j = 0; j < r.s.value_size; ++j) dprojected[line + r.s.z(head) + j] = -7;
      }
    const DeviceValues got = in.empty(in.projected.given());
    const std::vector<float> before(dweight.size(), accumulate ? 1.5f : -7.0f);
    const DeviceArray weights(before.data(), before.size() * sizeof(float));
    delta_convolution_backward_cuda({.shape = r.s,
                                     .projected = in.projected.values(),
                                     .weight = in.weight.values(),
                                     .starts = in.starts_or_null(),
                                     .dy = in.dqkv.values(),
                                     .dprojected = got.values(),
                                     .dweight = weights.as<float>(),
                                     .accumulate = accumulate,
                                     .partials = in.partials.as<float>()},
                                    stream_);
    synchronize();
    EXPECT_LE(relative_error(got.now(), floats_of(dprojected)), tolerance(in.precision, 1e-6));
    // the approximate exponential of 16-bit values is 16 ulps off
    EXPECT_LE(relative_error(weights.values<float>(), floats_of(dweight)),
              in.precision == Precision::fp32 ? 1e-6 : 1e-5);
  });
}

TEST_F(CudaDeltaRule, ChunksGiveTheRecurrence) {
  for_cases([&](const DeltaReference& r, const DeltaOnDevice& in) {
    const DeviceValues out = in.empty(in.dout.given());
    gated_delta_cuda({.shape = r.s,
                      .qkv = in.qkv.values(),
                      .projected = in.projected.values(),
                      .a_log = in.a_log.values(),
                      .dt_bias = in.dt_bias.values(),
                      .starts = in.starts_or_null(),
                      .out = out.values()},
                     stream_);
    synchronize();
    EXPECT_LE(relative_error(out.now(), floats_of(r.rule(in.parameters()))), tolerance(in.precision, 2e-6));
  });
}

TEST_F(CudaDeltaRule, ChunksGoBack) {
  bool accumulate = false;
  for_cases([&](const DeltaReference& r, const DeltaOnDevice& in) {
    expect_gradients(r, in, accumulate = !accumulate);
  });
}

// Keys of 256 elements; and sequences of two segments, with documents that lie across their boundary.
TEST_F(CudaDeltaRule, LongKeysAndSegmentsGoBack) {
  const DeltaShape wide = {.sequences = 1,
                           .tokens = 70,
                           .key_heads = 1,
                           .value_heads = 1,
                           .key_size = 256,
                           .value_size = 8,
                           .taps = 1};
  const DeltaReference one(wide);
  expect_gradients(one, {one, DeltaArrays(wide), Precision::fp32, Precision::fp32}, false);
  const DeltaShape shape = {.sequences = 2,
                            .tokens = 1300,
                            .key_heads = 1,
                            .value_heads = 2,
                            .key_size = 3,
                            .value_size = 4,
                            .taps = 1};
  for (const std::vector<u32>& begins :
       {std::vector<u32>{}, std::vector<u32>{1000, 1023, 1030}, std::vector<u32>{5, 1050}}) {
    DeltaReference r(shape);
    if (!begins.empty()) r.starts.resize(shape.rows());
    for (u32 row = 0; row < r.starts.size(); ++row)
      for (const u32 begin : begins)
        if (row % shape.tokens >= begin) r.starts[row] = static_cast<i32>(begin);
    expect_gradients(r, {r, DeltaArrays(shape), Precision::fp32, Precision::fp32}, true);
  }
}

TEST_F(CudaDeltaRule, NormHasAGate) {
  constexpr float epsilon = 1e-6f;
  bool accumulate = false;
  for_cases([&](const DeltaReference& r, const DeltaOnDevice& in) {
    accumulate = !accumulate;
    const DeviceValues y = in.empty(in.x.given());
    gated_norm_cuda({.shape = r.s,
                     .x = in.x.values(),
                     .projected = in.projected.values(),
                     .weight = in.norm.values(),
                     .epsilon = epsilon,
                     .y = y.values()},
                    stream_);
    Doubles dx(in.x.given().size()), dprojected(in.projected.given().size(), -7.0),
        dweight(r.s.value_size, accumulate ? 1.5 : 0.0);
    r.norm_backward(in.x.given(), in.projected.given(), in.norm.given(), epsilon, in.dout.given(), dx,
                    dprojected, dweight);
    const DeviceValues gates = in.empty(in.projected.given());
    const std::vector<float> before(dweight.size(), accumulate ? 1.5f : -7.0f);
    const DeviceArray weights(before.data(), before.size() * sizeof(float));
    gated_norm_backward_cuda({.shape = r.s,
                              .x = in.x.values(),
                              .projected = in.projected.values(),
                              .weight = in.norm.values(),
                              .epsilon = epsilon,
                              .dy = in.dout.values(),
                              .dx = in.dout.values(),
                              .dprojected = gates.values(),
                              .dweight = weights.as<float>(),
                              .accumulate = accumulate,
                              .partials = in.partials.as<float>()},
                             stream_);
    synchronize();
    const Doubles want = r.norm(in.x.given(), in.projected.given(), in.norm.given(), epsilon);
    EXPECT_LE(relative_error(y.now(), floats_of(want)), tolerance(in.precision, 1e-6));
    // a head of one element has the gradient of its sign: only epsilon's share is left, of cancelled digits
    if (r.s.value_size > 1) {
      EXPECT_LE(relative_error(in.dout.now(), floats_of(dx)), tolerance(in.precision, 1e-5));
    }
    EXPECT_LE(relative_error(gates.now(), floats_of(dprojected)), tolerance(in.precision, 1e-6));
    EXPECT_LE(relative_error(weights.values<float>(), floats_of(dweight)), 1e-5);
  });
}

TEST_F(CudaDeltaRule, FrozenWeightsTakeNoSums) {
  const DeltaReference r(delta_shapes[3], true);
  const DeltaOnDevice in(r, DeltaArrays(r.s), Precision::fp32, Precision::fp32);
  const DeviceValues dqkv = in.empty(in.qkv.given()), dprojected = in.empty(in.projected.given());
  go_back(r, in, dqkv, dprojected, nullptr, nullptr, true);
  delta_convolution_backward_cuda({.shape = r.s,
                                   .projected = in.projected.values(),
                                   .weight = in.weight.values(),
                                   .starts = in.starts_or_null(),
                                   .dy = in.dqkv.values(),
                                   .dprojected = dprojected.values()},
                                  stream_);
  gated_norm_backward_cuda({.shape = r.s,
                            .x = in.x.values(),
                            .projected = in.projected.values(),
                            .weight = in.norm.values(),
                            .dy = in.dout.values(),
                            .dx = in.dout.values(),
                            .dprojected = dprojected.values()},
                           stream_);
  synchronize();
  for (const float x : dprojected.now()) ASSERT_NE(x, -7);
}

// A document's rows, of one sequence with others before and after, and alone.
TEST_F(CudaDeltaRule, PackedDocumentsHaveTheBitsOfDocumentsAlone) {
  DeltaShape one = {.sequences = 1,
                    .tokens = 1,
                    .key_heads = 2,
                    .value_heads = 4,
                    .key_size = 24,
                    .value_size = 16,
                    .taps = 4};
  const std::vector<u32> lengths = {1, 70, 5, 64, 129, 200, 3};
  DeltaReference packed(one);
  packed.s.tokens = 0;
  for (const u32 length : lengths) {
    packed.starts.insert(packed.starts.end(), length, static_cast<i32>(packed.s.tokens));
    packed.s.tokens += length;
  }
  const auto run = [&](const DeltaReference& r, const DeltaArrays& arrays) {
    const DeltaOnDevice in(r, arrays, Precision::fp32, Precision::fp32);
    const DeviceValues out = in.empty(arrays.dout), dqkv = in.empty(arrays.qkv),
                       dprojected = in.empty(arrays.projected);
    delta_convolution_cuda({.shape = r.s,
                            .projected = in.projected.values(),
                            .weight = in.weight.values(),
                            .starts = in.starts_or_null(),
                            .y = in.qkv.values()},
                           stream_);
    gated_delta_cuda({.shape = r.s,
                      .qkv = in.qkv.values(),
                      .projected = in.projected.values(),
                      .a_log = in.a_log.values(),
                      .dt_bias = in.dt_bias.values(),
                      .starts = in.starts_or_null(),
                      .out = out.values()},
                     stream_);
    go_back(r, in, dqkv, dprojected, nullptr, nullptr, false);
    delta_convolution_backward_cuda({.shape = r.s,
                                     .projected = in.projected.values(),
                                     .weight = in.weight.values(),
                                     .starts = in.starts_or_null(),
                                     .dy = dqkv.values(),
                                     .dprojected = dprojected.values()},
                                    stream_);
    synchronize();
    return std::array{out.now(), dprojected.now()};
  };
  const DeltaArrays all(packed.s);
  const auto together = run(packed, all);
  u32 begin = 0;
  for (const u32 length : lengths) {
    one.tokens = length;
    DeltaArrays in(one);
    in.weight = all.weight, in.a_log = all.a_log, in.dt_bias = all.dt_bias;
    const auto cut = [&](const std::vector<float>& from, u32 columns) {
      return std::vector<float>(from.begin() + i64{begin} * columns,
                                from.begin() + i64{begin + length} * columns);
    };
    in.projected = cut(all.projected, one.columns()), in.dout = cut(all.dout, one.value_columns());
    const auto alone = run(DeltaReference(one), in);
    EXPECT_EQ(alone[0], cut(together[0], one.value_columns())) << length;
    EXPECT_EQ(alone[1], cut(together[1], one.columns())) << length;
    begin += length;
  }
}

TEST_F(CudaDeltaRule, LaunchesFitEveryDevice) {
  for (const u32 tokens : {1u, 65u, 4096u, 1u << 20})
    for (const u32 size : {1u, 64u, 128u, 256u})
      for (const u32 heads : {1u, 16u, 64u})
        for (const bool by_key_head : {false, true}) {
          const DeltaShape s = {.sequences = 2,
                                .tokens = tokens,
                                .key_heads = heads,
                                .value_heads = 2 * heads,
                                .key_size = size,
                                .value_size = size,
                                .taps = 4,
                                .by_key_head = by_key_head};
          for (const cuda::LaunchShape& launch :
               {cuda::delta_convolution_launch(s), cuda::gated_norm_launch(s),
                cuda::gated_norm_backward_launch(s), cuda::delta_sums_launch(s.taps, s.channels()),
                cuda::delta_slices_launch(s, s.value_heads), cuda::delta_gradients_launch(s, 0),
                cuda::delta_gradients_launch(s, cuda::delta_segments(s) - 1)})
            EXPECT_TRUE(cuda::fits_every_device(launch)) << tokens << " " << size << " " << heads;
        }
}

}  // namespace tidepool::test::cuda_delta_rule_test
