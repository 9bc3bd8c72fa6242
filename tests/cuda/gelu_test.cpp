#include "kernels/gelu/gelu.h"

#include "kernels/cuda/kernels_cuda_parts.h"
#include "tests/cuda/cuda_fixture.h"

namespace tidepool::test::gelu_test {

using CudaGelu = CudaTest;

TEST_F(CudaGelu, AgreesWithTheCpuExceptLastBitsOfTheExponential) {
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    for (const u64 shift : {0, 3}) {
      const u64 n = 3001;
      auto from = random_floats(n, 1, 3.0f);
      from[0] = -40.0f, from[1] = 40.0f, from[2] = -0.0f;
      const DeviceValues x(from, precision, shift), dy(random_floats(n, 2), precision, shift);
      const DeviceValues y(n, precision, shift), dx(n, precision, shift), value(n, precision, shift);
      gelu_cuda(x.values(), y.values(), n, stream_);
      gelu_backward_cuda(x.values(), dy.values(), dx.values(), value.values(), n, stream_);
      synchronize();
      std::vector<float> want_y(n), want_dx(n);
      gelu_row(x.given().data(), want_y.data(), n);
      gelu_backward_row(x.given().data(), dy.given().data(), want_dx.data(), nullptr, n);
      EXPECT_LE(relative_error(y.now(), want_y), tolerance(precision, 1e-6));
      EXPECT_LE(relative_error(dx.now(), want_dx), tolerance(precision, 1e-6));
      EXPECT_TRUE(same_bits(value.now(), y.now()));
      gelu_backward_cuda(x.values(), dy.values(), x.values(), nullptr, n, stream_);  // in place
      synchronize();
      EXPECT_TRUE(same_bits(x.now(), dx.now()));
    }
  }
}

}  // namespace tidepool::test::gelu_test
