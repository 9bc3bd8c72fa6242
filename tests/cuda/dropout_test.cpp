// Dropout on the device drops the same elements as on the CPU.
#include "kernels/cuda/kernels_cuda_parts.h"
#include "tests/cuda/cuda_fixture.h"

namespace tidepool::test::dropout_test {

using CudaDropoutTest = CudaTest;

TEST_F(CudaDropoutTest, GivesTheSameBitsAsTheCpu) {
  for (const u64 n : {1, 8, 9, 4099, 100'000}) {
    for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
      for (const u64 shift : {0, 3}) {
        const Dropout dropout = {.p = 0.3f, .seed = 7, .step = 9, .micro_batch = 2, .tensor = 5};
        const DeviceValues x(random_floats(n, 1), precision, shift), y(n, precision, shift);
        dropout_cuda(dropout, x.values(), y.values(), n, stream_);
        synchronize();
        std::vector<float> want = x.given();
        dropout_row(dropout, 0, want.data(), want.data(), n);
        EXPECT_TRUE(same_bits(y.now(), rounded_to(want, precision))) << n;
        dropout_cuda(dropout, x.values(), x.values(), n, stream_);  // in place
        synchronize();
        EXPECT_TRUE(same_bits(y.now(), x.now())) << n;
      }
    }
  }
}

TEST_F(CudaDropoutTest, ZeroClearsTheGivenRange) {
  const DeviceValues y(random_floats(100, 1), Precision::fp32);
  zero_cuda(y.values().fp32(), 99, stream_);
  synchronize();
  EXPECT_EQ(y.now()[98], 0);
  EXPECT_EQ(y.now()[99], y.given()[99]);
}

}  // namespace tidepool::test::dropout_test
