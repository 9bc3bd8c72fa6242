#include "kernels/activation/activation.h"

#include "kernels/cuda/kernels_cuda_parts.h"
#include "tests/cuda/cuda_fixture.h"

namespace tidepool::test::activation_test {

struct Functions {
  decltype(&gelu_cuda) cuda;
  decltype(&gelu_backward_cuda) cuda_backward;
  decltype(&gelu_row) cpu;
  decltype(&gelu_backward_row) cpu_backward;
};

class CudaActivation : public CudaTest {
 protected:
  void expect_the_cpus(const Functions& f, Precision precision, u64 shift) {
    const u64 n = 3001;
    auto from = random_floats(n, 1, 3.0f);
    from[0] = -40.0f, from[1] = 40.0f, from[2] = -0.0f;
    const DeviceValues x(from, precision, shift), dy(random_floats(n, 2), precision, shift);
    const DeviceValues y(n, precision, shift), dx(n, precision, shift), value(n, precision, shift);
    f.cuda(x.values(), y.values(), n, stream_);
    f.cuda_backward(x.values(), dy.values(), dx.values(), value.values(), n, stream_);
    synchronize();
    std::vector<float> want_y(n), want_dx(n);
    f.cpu(x.given().data(), want_y.data(), n);
    f.cpu_backward(x.given().data(), dy.given().data(), want_dx.data(), nullptr, n);
    EXPECT_LE(relative_error(y.now(), want_y), tolerance(precision, 1e-6));
    EXPECT_LE(relative_error(dx.now(), want_dx), tolerance(precision, 1e-6));
    EXPECT_TRUE(same_bits(value.now(), y.now()));
    f.cuda_backward(x.values(), dy.values(), x.values(), nullptr, n, stream_);  // in place
    synchronize();
    EXPECT_TRUE(same_bits(x.now(), dx.now()));
  }
};

TEST_F(CudaActivation, AgreesWithTheCpuExceptLastBitsOfTheExponential) {
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16})
    for (const u64 shift : {0, 3})
      expect_the_cpus({gelu_cuda, gelu_backward_cuda, gelu_row, gelu_backward_row}, precision, shift);
}

TEST_F(CudaActivation, SquaresWhatIsAboveZero) {
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16})
    for (const u64 shift : {0, 3})
      expect_the_cpus(
          {squared_relu_cuda, squared_relu_backward_cuda, squared_relu_row, squared_relu_backward_row},
          precision, shift);
}

}  // namespace tidepool::test::activation_test
