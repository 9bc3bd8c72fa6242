// Adafactor on the device leaves the same bits as on the CPU.
#include <limits>

#include "kernels/second_moment/second_moment.h"
#include "optimizers/optimizers_cuda.h"
#include "tests/cuda/cuda_fixture.h"
#include "tests/support/whole_tensors.h"

namespace tidepool::test::adafactor_test {

class CudaAdafactor : public CudaTest {
 protected:
  void expect_the_cpus_bits(Precision precision, const std::vector<UpdateTensor>& shapes, double norm) {
    SCOPED_TRACE(testing::Message() << tidepool::name(precision) << " " << shapes.size());
    WholeTensors host(Optim::adafactor, precision, shapes);
    if (precision == Precision::fp16) host.arrays[0] = host.grad;  // where the gradient may lie
    const DeviceArray grad(host.grad.data(), host.grad.size(), 0);
    const DeviceArray segments(host.segments.data(), host.segments.size() * sizeof(DecaySegment));
    const DeviceArray scratch(host.scratch.data(), host.scratch.size(), 0);
    std::vector<std::unique_ptr<DeviceArray>> arrays;
    UpdateChunk chunk{.elements = host.elements,
                      .grad = grad.data(),
                      .segments = {segments.as<const DecaySegment>() + 0, host.segments.size()},
                      .tensors = host.tensors,
                      .scratch = {scratch.data(), host.scratch.size()}};
    for (const std::vector<std::byte>& array : host.arrays) {
      arrays.push_back(std::make_unique<DeviceArray>(array.data(), array.size(), 0));
      chunk.arrays[arrays.size() - 1].data = arrays.back()->data();
    }
    const UpdateScalars scalars = update_scalars_of(Optim::adafactor, 3, norm);
    const DeviceArray on_device(&scalars, sizeof(scalars));
    for (u32 step = 0; step < 2; ++step) {
      tidepool::update(host.chunk(), host.slots, Optim::adafactor, scalars, *pool_);
      update_cuda(chunk, precision, UpdatePart::whole, Optim::adafactor, on_device.as<UpdateScalars>(),
                  stream_);
      synchronize();
      for (u64 a = 0; a < arrays.size(); ++a)
        EXPECT_TRUE(arrays[a]->values<std::byte>() == host.arrays[a]) << a;
    }
  }

  std::unique_ptr<CorePool> pool_ = make_pool(1);
};

TEST_F(CudaAdafactor, GivesTheSameBitsAsTheCpu) {
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    expect_the_cpus_bits(precision, {{.columns = 300}}, 2.0);
    expect_the_cpus_bits(precision, {{.rows = 64, .columns = 72}}, 0.25);
    expect_the_cpus_bits(precision,
                         {{.rows = 300, .columns = 530}, {.columns = 7}, {.rows = 17, .columns = 33}}, 2.0);
    expect_the_cpus_bits(precision, {{.rows = 1, .columns = 40}, {.rows = 33, .columns = 1}}, 2.0);
  }
}

// More rows and more tiles than one block of a sum.
TEST_F(CudaAdafactor, SumsOfManyRowsHaveTheSameOrder) {
  expect_the_cpus_bits(Precision::bf16, {{.rows = 1100, .columns = 9}}, 2.0);
}

TEST_F(CudaAdafactor, ASkippedStepLeavesTheState) {
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16})
    expect_the_cpus_bits(precision, {{.rows = 30, .columns = 50}, {.columns = 7}},
                         std::numeric_limits<double>::quiet_NaN());
}

}  // namespace tidepool::test::adafactor_test
