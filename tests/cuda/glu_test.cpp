// Tests the device's gated linear units against the CPU's, in every precision and on rows that are not whole
// vectors.
#include <algorithm>
#include <cmath>

#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/glu/glu_launch.h"
#include "tests/cuda/cuda_fixture.h"

namespace tidepool::test::glu_test {

struct ExpertGlu;

class CudaGlu : public CudaTest {
 protected:
  void expect_experts(const ExpertGlu&, Precision, u64 shift, bool weighted);

  std::unique_ptr<CorePool> pool_ = make_pool(1);

  void expect_the_cpus(u32 rows, u32 columns, Precision precision, u64 shift, GluGate gate = GluGate::silu);
};

void CudaGlu::expect_the_cpus(u32 rows, u32 columns, Precision precision, u64 shift, GluGate gate) {
  SCOPED_TRACE(testing::Message() << rows << " x " << columns << " " << name(precision) << " + " << shift);
  const u64 n = u64{rows} * columns, inputs = glu_inputs(gate) * n;
  const DeviceValues gate_up(random_floats(inputs, 1, 4.0f), precision, shift);
  const DeviceValues dy(random_floats(n, 2), precision, shift);
  const DeviceValues y(n, precision, shift), d(inputs, precision, shift), value(n, precision, shift);
  std::vector<float> want_y(n), want(inputs);
  Glu op = {
      .rows = rows, .columns = columns, .gate = gate, .gate_up = gate_up.given().data(), .y = want_y.data()};
  glu_cpu(op, *pool_);
  GluBackward back = {.rows = rows,
                      .columns = columns,
                      .gate = gate,
                      .gate_up = gate_up.given().data(),
                      .dy = dy.given().data(),
                      .dgate_up = want.data()};
  glu_backward_cpu(back, *pool_);

  op.gate_up = gate_up.values(), op.y = y.values();
  glu_cuda(op, stream_);
  back.gate_up = gate_up.values(), back.dy = dy.values(), back.dgate_up = d.values(),
  back.value = value.values();
  glu_backward_cuda(back, stream_);
  synchronize();
  EXPECT_LE(relative_error(y.now(), want_y), tolerance(precision, 1e-6));
  EXPECT_LE(relative_error(d.now(), want), tolerance(precision, 1e-6));
  EXPECT_TRUE(same_bits(value.now(), y.now()));
  const auto elsewhere = d.now();

  back.dgate_up = gate_up.values();  // in place
  back.value = dy.values();
  glu_backward_cuda(back, stream_);
  synchronize();
  EXPECT_TRUE(same_bits(gate_up.now(), elsewhere));
  EXPECT_TRUE(same_bits(dy.now(), y.now()));
}

TEST_F(CudaGlu, AgreesWithTheCpu) {
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    expect_the_cpus(1, 1, precision, 0);
    expect_the_cpus(3, 7, precision, 0);
    expect_the_cpus(5, 40, precision, 0);
    expect_the_cpus(5, 40, precision, 1);
    expect_the_cpus(70, 264, precision, 0);
    expect_the_cpus(3, 7, precision, 1, GluGate::gelu);
    expect_the_cpus(70, 264, precision, 0, GluGate::gelu);
    expect_the_cpus(3, 7, precision, 1, GluGate::squared_relu);
    expect_the_cpus(70, 264, precision, 0, GluGate::squared_relu);
  }
}

struct ExpertGlu {
  u32 rows, true_rows, columns;
  GluGate gate;
  bool interleaved;
};

// Rows of experts: the device alone knows their number, and their weights have gradients.
void CudaGlu::expect_experts(const ExpertGlu& c, Precision precision, u64 shift, bool weighted) {
  SCOPED_TRACE(testing::Message() << c.rows << " x " << c.columns << " " << name(precision) << " + " << shift
                                  << (c.interleaved ? " interleaved" : "") << weighted);
  const u64 n = u64{c.rows} * c.columns, inputs = glu_inputs(c.gate);
  const DeviceValues gate_up(random_floats(inputs * n, 1, 4.0f), precision, shift);
  const DeviceValues dy(random_floats(n, 2), precision, shift);
  const std::vector<float> untouched(n, -3), untouched2(inputs * n, -3);
  const DeviceValues y(untouched, precision, shift), d(untouched2, precision, shift),
      value(untouched, precision, shift);
  std::vector<i32> slots(c.rows);
  for (u32 r = 0; r < c.rows; ++r) slots[r] = static_cast<i32>((r * 7 + 2) % (c.rows + 3));
  const auto weights = random_floats(c.rows + 3, 3);
  const i32 count = static_cast<i32>(c.true_rows);
  const DeviceArray slots_there(slots.data(), slots.size() * 4), count_there(&count, 4);
  const DeviceValues weights_there(weights, Precision::fp32), dweights(weights, Precision::fp32);
  std::vector<float> want_y = untouched, want = untouched2, want_value = untouched, want_dweights = weights;
  const GluClamp clamp = {.bound = 3.0f, .slope = 1.5f};
  Glu op = {.rows = c.rows,
            .columns = c.columns,
            .gate = c.gate,
            .clamp = clamp,
            .interleaved = c.interleaved,
            .row_count = &count,
            .gate_up = gate_up.given().data(),
            .y = want_y.data()};
  glu_cpu(op, *pool_);
  GluBackward back = {.rows = c.rows,
                      .columns = c.columns,
                      .gate = c.gate,
                      .clamp = clamp,
                      .interleaved = c.interleaved,
                      .row_count = &count,
                      .gate_up = gate_up.given().data(),
                      .dy = dy.given().data(),
                      .dgate_up = want.data(),
                      .value = want_value.data(),
                      .slots = weighted ? slots.data() : nullptr,
                      .weights = weighted ? weights.data() : nullptr,
                      .dweights = weighted ? want_dweights.data() : nullptr};
  glu_backward_cpu(back, *pool_);

  op.row_count = count_there.as<i32>(), op.gate_up = gate_up.values(), op.y = y.values();
  glu_cuda(op, stream_);
  back.row_count = op.row_count, back.gate_up = gate_up.values(), back.dy = dy.values();
  back.dgate_up = d.values(), back.value = value.values();
  if (weighted) {
    back.slots = slots_there.as<i32>(), back.weights = weights_there.values().fp32();
    back.dweights = dweights.values().fp32();
  }
  glu_backward_cuda(back, stream_);
  synchronize();
  EXPECT_LE(relative_error(y.now(), want_y), tolerance(precision, 1e-6));
  EXPECT_LE(relative_error(d.now(), want), tolerance(precision, 1e-6));
  EXPECT_LE(relative_error(value.now(), want_value), tolerance(precision, 1e-6));
  EXPECT_LE(relative_error(dweights.now(), want_dweights), precision == Precision::fp32 ? 1e-6 : 3e-6);
  const auto got = y.now(), elsewhere = d.now(), value_elsewhere = value.now();
  for (u64 at = u64{c.true_rows} * c.columns; at < n; ++at) {
    ASSERT_EQ(got[at], -3);
    ASSERT_EQ(elsewhere[inputs * at + inputs - 1], -3);
  }
  const DeviceValues gradient_in_place(gate_up.given(), precision, shift);
  back.gate_up = back.dgate_up = gradient_in_place.values(), back.value = dy.values();
  back.dweights = nullptr;
  glu_backward_cuda(back, stream_);
  synchronize();
  const u64 end = u64{c.true_rows} * c.columns;
  const auto in_place = gradient_in_place.now(), value_in_place = dy.now();
  EXPECT_TRUE(
      std::equal(in_place.begin(), in_place.begin() + static_cast<i64>(inputs * end), elsewhere.begin()));
  EXPECT_TRUE(std::equal(value_in_place.begin(), value_in_place.begin() + end, value_elsewhere.begin()));
}

TEST_F(CudaGlu, OfExpertsAgreesWithTheCpu) {
  const ExpertGlu cases[] = {
      {1, 1, 1, GluGate::clamped, true},        {9, 5, 7, GluGate::clamped, true},
      {9, 9, 40, GluGate::silu, false},         {70, 33, 264, GluGate::clamped, true},
      {70, 0, 40, GluGate::gelu, true},         {70, 69, 40, GluGate::clamped, false},
      {5, 3, 2100, GluGate::silu, false},       {33, 32, 13, GluGate::silu, true},
      {9, 6, 40, GluGate::squared_relu, false}, {70, 33, 264, GluGate::squared_relu, false}};
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    for (const ExpertGlu& c : cases) {
      expect_experts(c, precision, c.rows == 9 ? 1 : 0, true);
      expect_experts(c, precision, 0, false);
    }
  }
}

// Comparisons with bounds are false for NaN.
TEST_F(CudaGlu, KeepsNanBetweenBounds) {
  const DeviceValues gate_up({NAN, 1, 1, NAN, 8, -9}, Precision::fp32), y(3, Precision::fp32);
  glu_cuda({.rows = 1,
            .columns = 3,
            .gate = GluGate::clamped,
            .interleaved = true,
            .gate_up = gate_up.values(),
            .y = y.values()},
           stream_);
  synchronize();
  EXPECT_TRUE(std::isnan(y.now()[0]) && std::isnan(y.now()[1]));
  EXPECT_NEAR(y.now()[2], -6 * 7 / (1 + std::exp(-1.702 * 7)), 1e-5);
}

TEST_F(CudaGlu, LaunchesFitEveryDevice) {
  for (const u32 rows : {1u, 1u << 20, ~0u}) {
    for (const u32 columns : {1u, 8u, 257u, 1u << 18}) {
      EXPECT_TRUE(cuda::fits_every_device(cuda::glu_launch(rows, columns)));
      EXPECT_TRUE(cuda::fits_every_device(cuda::weighted_glu_launch(rows, columns)));
    }
  }
}

}  // namespace tidepool::test::glu_test
