// Compares the device's Mamba-2 with the recurrence token by token in double, and documents that are packed
// with documents that stand alone.
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/delta_rule/delta_rule_launch.h"
#include "tests/cuda/cuda_fixture.h"
#include "tests/support/cases.h"
#include "tests/support/references/delta_rule.h"

namespace tidepool::test::cuda_mamba_test {

std::vector<float> floats_of(const Doubles& x) { return {x.begin(), x.end()}; }

// A case's arrays on the device, and their values after rounding.
struct MambaOnDevice {
  MambaOnDevice(const DeltaReference& r, const DeltaArrays& in, Precision activations, Precision parameters,
                u64 shift = 0)
      : precision(activations),
        elements_off(shift),
        projected(in.projected, activations, shift),
        qkv(in.qkv, activations, shift),
        dout(in.dout, activations, shift),
        dqkv(in.dqkv, activations, shift),
        x(in.x, activations, shift),
        weight(in.weight, parameters),
        bias(in.bias, parameters),
        a_log(in.a_log, parameters),
        dt_bias(in.dt_bias, parameters),
        skip(in.skip, parameters),
        norm(in.group_norm, parameters),
        starts(r.starts.data(), r.starts.size() * sizeof(i32)),
        partials(delta_partials(r.s) * sizeof(float)),
        states(delta_states(r.s) * sizeof(float)),
        has_documents(!r.starts.empty()) {}

  const i32* starts_or_null() const { return has_documents ? starts.as<i32>() : nullptr; }
  // An array like `from`, of -7.
  DeviceValues empty(const std::vector<float>& from) const {
    return DeviceValues(std::vector<float>(from.size(), -7.0f), precision, elements_off);
  }

  Precision precision;
  u64 elements_off;
  DeviceValues projected, qkv, dout, dqkv, x, weight, bias, a_log, dt_bias, skip, norm;
  DeviceArray starts, partials, states;
  bool has_documents;
};

// Gradients of weights, `count` of them, that begin as 0.5 if they are added to.
struct Sums {
  Sums(u64 count, bool accumulate)
      : before(accumulate ? 0.5f : -7.0f),
        added(accumulate ? 0.5 : 0.0),
        array(std::vector<float>(count, before).data(), count * sizeof(float)) {}
  float* data() const { return array.as<float>(); }
  void expect(Doubles want, double most) const {
    for (double& x : want) x += added;
    EXPECT_LE(relative_error(array.values<float>(), floats_of(want)), most);
  }
  float before;
  double added;
  DeviceArray array;
};

class CudaMamba : public CudaTest {
 protected:
  // Calls fn(reference, arrays, accumulate) for all shapes and precisions, with or without documents; with
  // both if all cases are wanted.
  template <class Fn>
  void for_cases(Fn fn) {
    using enum Precision;
    struct Kind {
      Precision activations, parameters;
      u64 shift = 0;
    };
    bool accumulate = false, taken = false;
    for (const DeltaShape& shape : mamba_shapes)
      for (const bool documents : {false, true}) {
        taken = !taken;
        for (const Kind& kind : {Kind{fp32, fp32}, Kind{bf16, bf16, 3}, Kind{bf16, fp32}, Kind{fp16, fp16}}) {
          taken = !taken;
          if (!taken && !wants_all_cases()) continue;
          SCOPED_TRACE(testing::Message() << "DK " << shape.key_size << " " << name(kind.activations) << " + "
                                          << kind.shift << (documents ? " documents" : ""));
          const DeltaReference reference(shape, documents);
          fn(reference,
             MambaOnDevice(reference, DeltaArrays(shape), kind.activations, kind.parameters, kind.shift),
             accumulate = !accumulate);
        }
      }
  }
  static DeltaReference::Gradients wanted(const DeltaReference& r, const MambaOnDevice& in) {
    const std::vector<float> skip = in.skip.given();
    return r.rule_backward(
        {in.qkv.given(), in.projected.given(), in.a_log.given(), in.dt_bias.given(), &skip}, in.dout.given());
  }
  void go_back(const DeltaReference& r, const MambaOnDevice& in, const DeviceValues& dqkv,
               const DeviceValues& dprojected, float* da_log, float* ddt_bias, float* dskip, bool accumulate,
               StepLimits steps = mamba_steps) {
    gated_delta_backward_cuda({.shape = r.s,
                               .qkv = in.qkv.values(),
                               .projected = in.projected.values(),
                               .a_log = in.a_log.values(),
                               .dt_bias = in.dt_bias.values(),
                               .skip = in.skip.values(),
                               .steps = steps,
                               .starts = in.starts_or_null(),
                               .dout = in.dout.values(),
                               .dqkv = dqkv.values(),
                               .dprojected = dprojected.values(),
                               .da_log = da_log,
                               .ddt_bias = ddt_bias,
                               .dskip = dskip,
                               .accumulate = accumulate,
                               .partials = in.partials.as<float>(),
                               .states = in.states.as<float>()},
                              stream_);
    synchronize();
  }
  void expect_gradients(const DeltaReference& r, const MambaOnDevice& in, bool accumulate) {
    const DeltaReference::Gradients want = wanted(r, in);
    const DeviceValues dqkv = in.empty(in.qkv.given()),
                       dprojected(std::vector<float>(in.projected.given().size()), in.precision,
                                  in.elements_off);
    const Sums da_log(r.s.value_heads, accumulate), ddt_bias(r.s.value_heads, accumulate),
        dskip(r.s.value_heads, accumulate);
    go_back(r, in, dqkv, dprojected, da_log.data(), ddt_bias.data(), dskip.data(), accumulate);
    const double most = tolerance(in.precision, 1e-5);
    // In 16 bits each head's share of a group's gradients of B and C is rounded when it is added.
    const double shares = in.precision == Precision::fp32 ? 1 : std::max(1u, r.s.heads_per_key() / 4);
    EXPECT_LE(relative_error(dqkv.now(), floats_of(want.qkv)), most * shares);
    EXPECT_LE(relative_error(dprojected.now(), floats_of(want.projected)), most);
    da_log.expect(want.a_log, 1e-5);
    ddt_bias.expect(want.dt_bias, 1e-5);
    dskip.expect(want.skip, 1e-5);
  }
};

TEST_F(CudaMamba, ConvolvesWithABias) {
  for_cases([&](const DeltaReference& r, const MambaOnDevice& in, bool) {
    const DeviceValues y = in.empty(in.qkv.given());
    delta_convolution_cuda({.shape = r.s,
                            .projected = in.projected.values(),
                            .weight = in.weight.values(),
                            .starts = in.starts_or_null(),
                            .y = y.values(),
                            .bias = in.bias.values()},
                           stream_);
    synchronize();
    const Doubles want = r.convolution(in.projected.given(), in.weight.given(), in.bias.given());
    EXPECT_LE(relative_error(y.now(), floats_of(want)), tolerance(in.precision, 1e-6));
  });
}

TEST_F(CudaMamba, ConvolutionGoesBackToItsBias) {
  for_cases([&](const DeltaReference& r, const MambaOnDevice& in, bool accumulate) {
    Doubles dprojected(in.projected.given().size()), dweight(in.weight.given().size()),
        dbias(in.bias.given().size());
    r.convolution_backward(in.projected.given(), in.weight.given(), in.dqkv.given(), dprojected, dweight,
                           in.bias.given(), &dbias);
    for (u32 row = 0; row < r.s.rows(); ++row)  // other columns keep what they hold
      for (u32 head = 0; head < r.s.value_heads; ++head) {
        const u64 line = u64{row} * r.s.columns();
        dprojected[line + r.s.a(head)] = -7;
        for (u32 j = 0; j < r.s.value_size; ++j) dprojected[line + r.s.z(head) + j] = -7;
      }
    const DeviceValues got = in.empty(in.projected.given());
    const Sums weights(dweight.size(), accumulate), biases(dbias.size(), accumulate);
    delta_convolution_backward_cuda({.shape = r.s,
                                     .projected = in.projected.values(),
                                     .weight = in.weight.values(),
                                     .bias = in.bias.values(),
                                     .starts = in.starts_or_null(),
                                     .dy = in.dqkv.values(),
                                     .dprojected = got.values(),
                                     .dweight = weights.data(),
                                     .dbias = biases.data(),
                                     .accumulate = accumulate,
                                     .partials = in.partials.as<float>()},
                                    stream_);
    synchronize();
    EXPECT_LE(relative_error(got.now(), floats_of(dprojected)), tolerance(in.precision, 1e-6));
    weights.expect(dweight, 1e-5);
    biases.expect(dbias, 1e-5);
  });
}

TEST_F(CudaMamba, ChunksGiveTheRecurrence) {
  for_cases([&](const DeltaReference& r, const MambaOnDevice& in, bool) {
    const DeviceValues out = in.empty(in.dout.given());
    gated_delta_cuda({.shape = r.s,
                      .qkv = in.qkv.values(),
                      .projected = in.projected.values(),
                      .a_log = in.a_log.values(),
                      .dt_bias = in.dt_bias.values(),
                      .starts = in.starts_or_null(),
                      .out = out.values(),
                      .skip = in.skip.values(),
                      .steps = mamba_steps},
                     stream_);
    synchronize();
    const std::vector<float> skip = in.skip.given();
    const Doubles want =
        r.rule({in.qkv.given(), in.projected.given(), in.a_log.given(), in.dt_bias.given(), &skip});
    EXPECT_LE(relative_error(out.now(), floats_of(want)), tolerance(in.precision, 2e-6));
  });
}

TEST_F(CudaMamba, ChunksGoBack) {
  for_cases([&](const DeltaReference& r, const MambaOnDevice& in, bool accumulate) {
    expect_gradients(r, in, accumulate);
  });
}

// States of 256 rows; and sequences of two segments, with documents that lie across their boundary.
TEST_F(CudaMamba, LongStatesAndSegmentsGoBack) {
  const DeltaShape wide = {.sequences = 1,
                           .tokens = 70,
                           .key_heads = 1,
                           .value_heads = 2,
                           .key_size = 256,
                           .value_size = 8,
                           .taps = 1,
                           .rule = StateRule::mamba};
  const DeltaReference one(wide);
  expect_gradients(one, {one, DeltaArrays(wide), Precision::fp32, Precision::fp32}, false);
  const DeltaShape shape = {.sequences = 2,
                            .tokens = 1300,
                            .key_heads = 1,
                            .value_heads = 2,
                            .key_size = 3,
                            .value_size = 4,
                            .taps = 1,
                            .rule = StateRule::mamba};
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

TEST_F(CudaMamba, NormGatesBeforeItNormalisesGroups) {
  constexpr float epsilon = 1e-5f;
  for_cases([&](const DeltaReference& r, const MambaOnDevice& in, bool accumulate) {
    const DeviceValues y = in.empty(in.x.given());
    group_norm_cuda({.shape = r.s,
                     .x = in.x.values(),
                     .projected = in.projected.values(),
                     .weight = in.norm.values(),
                     .epsilon = epsilon,
                     .y = y.values()},
                    stream_);
    Doubles dx(in.x.given().size()), dprojected(in.projected.given().size(), -7.0),
        dweight(r.s.value_columns());
    r.group_norm_backward(in.x.given(), in.projected.given(), in.norm.given(), epsilon, in.dout.given(), dx,
                          dprojected, dweight);
    const DeviceValues gates = in.empty(in.projected.given());
    const Sums weights(dweight.size(), accumulate);
    group_norm_backward_cuda({.shape = r.s,
                              .x = in.x.values(),
                              .projected = in.projected.values(),
                              .weight = in.norm.values(),
                              .epsilon = epsilon,
                              .dy = in.dout.values(),
                              .dx = in.dout.values(),
                              .dprojected = gates.values(),
                              .dweight = weights.data(),
                              .accumulate = accumulate,
                              .partials = in.partials.as<float>()},
                             stream_);
    synchronize();
    const Doubles want = r.group_norm(in.x.given(), in.projected.given(), in.norm.given(), epsilon);
    EXPECT_LE(relative_error(y.now(), floats_of(want)), tolerance(in.precision, 1e-6));
    // a group of one element has the gradient of its sign: only epsilon's share is left, of cancelled digits
    if (r.s.group_columns() > 1) {
      EXPECT_LE(relative_error(in.dout.now(), floats_of(dx)), tolerance(in.precision, 1e-5));
      EXPECT_LE(relative_error(gates.now(), floats_of(dprojected)), tolerance(in.precision, 1e-5));
    }
    weights.expect(dweight, 1e-5);
  });
}

// A document's rows, of one sequence with others before and after, and alone.
TEST_F(CudaMamba, PackedDocumentsHaveTheBitsOfDocumentsAlone) {
  DeltaShape one = {.sequences = 1,
                    .tokens = 1,
                    .key_heads = 2,
                    .value_heads = 4,
                    .key_size = 24,
                    .value_size = 16,
                    .taps = 4,
                    .rule = StateRule::mamba};
  const std::vector<u32> lengths = {1, 70, 5, 64, 129, 200, 3};
  DeltaReference packed(one);
  packed.s.tokens = 0;
  for (const u32 length : lengths) {
    packed.starts.insert(packed.starts.end(), length, static_cast<i32>(packed.s.tokens));
    packed.s.tokens += length;
  }
  const auto run = [&](const DeltaReference& r, const DeltaArrays& arrays) {
    const MambaOnDevice in(r, arrays, Precision::fp32, Precision::fp32);
    const DeviceValues out = in.empty(arrays.dout), dqkv = in.empty(arrays.qkv),
                       dprojected = in.empty(arrays.projected);
    delta_convolution_cuda({.shape = r.s,
                            .projected = in.projected.values(),
                            .weight = in.weight.values(),
                            .starts = in.starts_or_null(),
                            .y = in.qkv.values(),
                            .bias = in.bias.values()},
                           stream_);
    gated_delta_cuda({.shape = r.s,
                      .qkv = in.qkv.values(),
                      .projected = in.projected.values(),
                      .a_log = in.a_log.values(),
                      .dt_bias = in.dt_bias.values(),
                      .starts = in.starts_or_null(),
                      .out = out.values(),
                      .skip = in.skip.values()},
                     stream_);
    go_back(r, in, dqkv, dprojected, nullptr, nullptr, nullptr, false, {});
    delta_convolution_backward_cuda({.shape = r.s,
                                     .projected = in.projected.values(),
                                     .weight = in.weight.values(),
                                     .bias = in.bias.values(),
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
    in.weight = all.weight, in.bias = all.bias, in.skip = all.skip;
    in.a_log = all.a_log, in.dt_bias = all.dt_bias;
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

TEST_F(CudaMamba, LaunchesFitEveryDevice) {
  for (const u32 tokens : {1u, 65u, 4096u, 1u << 20})
    for (const u32 size : {1u, 64u, 128u, 256u})
      for (const u32 groups : {1u, 8u})
        for (const u32 heads : {1u, 16u, 48u}) {
          const DeltaShape s = {.sequences = 2,
                                .tokens = tokens,
                                .key_heads = groups,
                                .value_heads = groups * heads,
                                .key_size = size,
                                .value_size = 64,
                                .taps = 4,
                                .rule = StateRule::mamba};
          for (const cuda::LaunchShape& launch :
               {cuda::delta_convolution_launch(s), cuda::group_norm_launch(s),
                cuda::group_norm_backward_launch(s), cuda::delta_slices_launch(s, s.value_heads),
                cuda::delta_slices_launch(s, groups * delta_heads_at_once(s)),
                cuda::delta_gradients_launch(s, cuda::delta_segments(s) - 1)})
            EXPECT_TRUE(cuda::fits_every_device(launch)) << tokens << " " << size << " " << heads;
        }
}

}  // namespace tidepool::test::cuda_mamba_test
