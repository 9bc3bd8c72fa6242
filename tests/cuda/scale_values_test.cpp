// Tests values times a parameter: the device's bits are the CPU's, in every precision, aligned or not.
#include "kernels/cuda/kernels_cuda_parts.h"
#include "tests/cuda/cuda_fixture.h"

namespace tidepool::test::scale_values_test {

using CudaScaleValues = CudaTest;

TEST_F(CudaScaleValues, MultipliesEachValue) {
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16})
    for (const Precision of_factor : {Precision::fp32, precision})
      for (const u64 shift : {0, 1})
        for (const u64 elements : {1, 8, 3001}) {
          const DeviceValues x(random_floats(elements, 1, 3.0f), precision, shift);
          const DeviceValues factor(std::vector<float>{0.375f}, of_factor);
          scale_values_cuda({.elements = elements, .factor = factor.values(), .x = x.values()}, stream_);
          synchronize();
          std::vector<float> want = x.given();
          for (float& value : want) value *= 0.375f;
          EXPECT_TRUE(same_bits(x.now(), rounded_to(want, precision)))
              << name(precision) << elements << shift;
        }
}

}  // namespace tidepool::test::scale_values_test
