// Tests the device's gated linear units against the CPU's, in every precision and on rows that are not whole
// vectors.
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/glu/glu_launch.h"
#include "tests/cuda/cuda_fixture.h"

namespace tidepool::test {
namespace {

class CudaGlu : public CudaTest {
 protected:
  void expect_the_cpus(u32 rows, u32 columns, Precision precision, u64 shift, GluGate gate = GluGate::silu);
};

void CudaGlu::expect_the_cpus(u32 rows, u32 columns, Precision precision, u64 shift, GluGate gate) {
  SCOPED_TRACE(testing::Message() << rows << " x " << columns << " " << name(precision) << " + " << shift);
  const u64 n = u64{rows} * columns;
  const DeviceValues gate_up(random_floats(2 * n, 1, 4.0f), precision, shift);
  const DeviceValues dy(random_floats(n, 2), precision, shift);
  const DeviceValues y(n, precision, shift), d(2 * n, precision, shift), value(n, precision, shift);
  std::vector<float> want_y(n), want(2 * n);
  const auto pool = make_pool(1);
  Glu op = {
      .rows = rows, .columns = columns, .gate = gate, .gate_up = gate_up.given().data(), .y = want_y.data()};
  glu_cpu(op, *pool);
  GluBackward back = {.rows = rows,
                      .columns = columns,
                      .gate = gate,
                      .gate_up = gate_up.given().data(),
                      .dy = dy.given().data(),
                      .dgate_up = want.data()};
  glu_backward_cpu(back, *pool);

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
  }
}

TEST_F(CudaGlu, LaunchesFitEveryDevice) {
  for (const u32 rows : {1u, 1u << 20}) {
    for (const u32 columns : {1u, 8u, 257u, 1u << 18}) {
      EXPECT_TRUE(cuda::fits_every_device(cuda::glu_launch(rows, columns)));
    }
  }
}

}  // namespace
}  // namespace tidepool::test
