// Tests the device's output gates against the CPU's, in every precision, and on heads that are not whole
// vectors.
#include "tests/support/references/gate.h"

#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/gate/sigmoid_gate_launch.h"
#include "tests/cuda/cuda_fixture.h"

namespace tidepool::test::cuda_gate_test {

struct DeviceGate {
  DeviceGate(const GateShape& shape, Precision precision, u64 shift)
      : s(shape),
        d(shape),
        x(d.x, precision, shift),
        dy(d.dy, precision, shift),
        gates(d.gates, precision, shift),
        y(d.x.size(), precision, shift),
        dx(d.x.size(), precision, shift),
        dgates(std::vector<float>(d.gates.size(), untouched_gate), precision, shift) {}

  const GateShape s;
  const GateData d;
  DeviceValues x, dy, gates, y, dx, dgates;
};

class CudaSigmoidGate : public CudaTest {
 protected:
  void expect_the_cpus(const GateShape&, Precision, u64 shift);
  void expect_the_same_in_place(const DeviceGate&);

  std::unique_ptr<CorePool> pool_ = make_pool(2);
};

void CudaSigmoidGate::expect_the_cpus(const GateShape& s, Precision precision, u64 shift) {
  SCOPED_TRACE(testing::Message() << s.heads << " x " << s.head_size << " gates " << s.gate_size << " "
                                  << name(precision) << " + " << shift);
  const DeviceGate g(s, precision, shift);
  const std::vector<float>&x = g.x.given(), &gates = g.gates.given(), &dy = g.dy.given();
  std::vector<float> want_y(x.size()), want_dx(x.size()), want_dgates(gates.size(), untouched_gate);
  sigmoid_gate_cpu(g.d.forward(s, x.data(), gates.data(), want_y.data()), *pool_);
  sigmoid_gate_backward_cpu(
      g.d.backward(s, {x.data(), gates.data(), dy.data(), want_dx.data(), want_dgates.data()}), *pool_);

  sigmoid_gate_cuda(g.d.forward(s, g.x.values(), g.gates.values(), g.y.values()), stream_);
  sigmoid_gate_backward_cuda(
      g.d.backward(s, {g.x.values(), g.gates.values(), g.dy.values(), g.dx.values(), g.dgates.values()}),
      stream_);
  synchronize();
  const std::vector<float> dgates = g.dgates.now();
  EXPECT_LE(relative_error(g.y.now(), want_y), tolerance(precision, 1e-6));
  EXPECT_LE(relative_error(g.dx.now(), want_dx), tolerance(precision, 1e-6));
  EXPECT_LE(relative_error(dgates, want_dgates), tolerance(precision, 1e-6));
  const GateReference reference = gate_reference(s, g.d);
  for (u64 i = 0; i < dgates.size(); ++i)
    ASSERT_TRUE(reference.is_gate[i] || dgates[i] == untouched_gate) << i;
  expect_the_same_in_place(g);
}

// y in place of x, dx of dy, and the gradients of the gates in place of the gates.
void CudaSigmoidGate::expect_the_same_in_place(const DeviceGate& g) {
  const Precision precision = g.x.values().precision;
  const DeviceValues x(g.x.given(), precision), dy(g.dy.given(), precision),
      gates(g.gates.given(), precision);
  sigmoid_gate_backward_cuda(
      g.d.backward(g.s, {x.values(), gates.values(), dy.values(), dy.values(), gates.values()}), stream_);
  sigmoid_gate_cuda(g.d.forward(g.s, x.values(), g.gates.values(), x.values()), stream_);
  synchronize();
  EXPECT_TRUE(same_bits(x.now(), g.y.now()));
  EXPECT_TRUE(same_bits(dy.now(), g.dx.now()));
  EXPECT_TRUE(same_bits(gates.now(), g.dgates.now()));
}

TEST_F(CudaSigmoidGate, AgreesWithTheCpu) {
  for (const GateShape& shape : gate_shapes) {
    for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
      for (const u64 shift : {u64{0}, u64{3}}) expect_the_cpus(shape, precision, shift);
    }
  }
}

TEST_F(CudaSigmoidGate, LaunchesFitEveryDevice) {
  for (const u32 rows : {1u, 33u, 1u << 20, cuda::grid_x_max}) {
    for (const u32 heads : {1u, 64u}) {
      for (const u32 size : {1u, 256u, 1u << 15}) {
        const GateShape shape = {.rows = rows, .heads = heads, .head_size = size, .gate_size = 1};
        EXPECT_TRUE(cuda::fits_every_device(cuda::sigmoid_gate_launch(shape)));
        EXPECT_TRUE(cuda::fits_every_device(cuda::whole_head_gate_launch(shape)));
      }
    }
  }
}

}  // namespace tidepool::test::cuda_gate_test
