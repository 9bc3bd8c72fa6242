// Compares output gates of attention, and their gradients, with plain double code.
#include "tests/support/references/gate.h"

#include "kernels/gate/sigmoid_gate_cost.h"
#include "tests/support/expert_routes.h"

namespace tidepool::test::gate_test {

class SigmoidGateTest : public testing::TestWithParam<GateShape> {
 protected:
  const GateShape s = GetParam();
  const GateData d{s};
  const GateReference want = gate_reference(s, d);
};

TEST_P(SigmoidGateTest, MatchesDoubleOnAnyThreads) {
  std::vector<float> first;
  for (const u32 workers : {1u, 2u, 3u}) {
    CorePool& pool = shared_pool(workers);
    std::vector<float> y(d.x.size(), NAN), dx(d.x.size(), NAN), dgates(d.gates.size(), untouched_gate);
    sigmoid_gate_cpu(d.forward(s, d.x.data(), d.gates.data(), y.data()), pool);
    sigmoid_gate_backward_cpu(
        d.backward(s, {d.x.data(), d.gates.data(), d.dy.data(), dx.data(), dgates.data()}), pool);
    EXPECT_LE(relative_error(y, want.y), 1e-6);
    EXPECT_LE(relative_error(dx, want.dx), 1e-6);
    EXPECT_LE(relative_error(dgates, want.dgates), 1e-6);
    for (u64 i = 0; i < dgates.size(); ++i) {
      ASSERT_TRUE(want.is_gate[i] || dgates[i] == untouched_gate) << i;
    }
    for (const auto* part : {&dx, &dgates}) y.insert(y.end(), part->begin(), part->end());
    if (workers == 1) first = y;
    EXPECT_TRUE(same_bits(y, first)) << workers;
  }
}

TEST_P(SigmoidGateTest, WorksInPlace) {
  CorePool& pool = shared_pool(2);
  std::vector<float> y(d.x.size()), dx(d.x.size()), dgates = d.gates, x = d.x, dy = d.dy, gates = d.gates;
  sigmoid_gate_cpu(d.forward(s, d.x.data(), d.gates.data(), y.data()), pool);
  sigmoid_gate_backward_cpu(
      d.backward(s, {d.x.data(), d.gates.data(), d.dy.data(), dx.data(), dgates.data()}), pool);
  sigmoid_gate_cpu(d.forward(s, x.data(), d.gates.data(), x.data()), pool);
  EXPECT_TRUE(same_bits(x, y));
  sigmoid_gate_backward_cpu(d.backward(s, {d.x.data(), gates.data(), dy.data(), dy.data(), gates.data()}),
                            pool);
  EXPECT_TRUE(same_bits(dy, dx));
  EXPECT_TRUE(same_bits(gates, dgates));
}

INSTANTIATE_TEST_SUITE_P(Shapes, SigmoidGateTest, testing::ValuesIn(gate_shapes));

TEST(SigmoidGate, KeepsItsTailsAndNan) {
  const std::vector<float> x = {3, 3, 3, 0}, gates = {-200, 200, NAN, 1};
  std::vector<float> y(4);
  sigmoid_gate_cpu({.shape = {.rows = 1, .heads = 1, .head_size = 4, .gate_size = 4},
                    .x = x.data(),
                    .gates = gates.data(),
                    .y = y.data()},
                   shared_pool(1));
  EXPECT_NEAR(y[0], 0.0f, 1e-30f);
  EXPECT_EQ(y[1], 3.0f);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(y[3], 0.0f);
}

TEST(SigmoidGate, CostsWhatItReadsAndWrites) {
  const GateShape each = {.rows = 10, .heads = 3, .head_size = 8, .gate_size = 8};
  GateShape whole = each;
  whole.gate_size = 1;
  EXPECT_EQ(sigmoid_gate_cost(each).elements, 3u * 240);
  EXPECT_EQ(sigmoid_gate_cost(whole).elements, 2u * 240 + 30);
  EXPECT_EQ(sigmoid_gate_backward_cost(each).elements, 5u * 240);
  EXPECT_EQ(sigmoid_gate_backward_cost(whole).elements, 3u * 240 + 2 * 30);
}

}  // namespace tidepool::test::gate_test
