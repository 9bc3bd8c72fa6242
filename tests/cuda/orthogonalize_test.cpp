// Passes between the products of orthogonalize(): the CPU's bits where both compute in fp32.
#include <random>

#include "kernels/cuda/kernels_cuda_parts.h"
#include "tests/cuda/cuda_fixture.h"

namespace tidepool::test::orthogonalize_test {

class CudaOrthogonalize : public CudaTest {
 protected:
  std::vector<float> values(u64 n, u32 seed) const {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> out(n);
    for (float& x : out) x = 0.02f * normal(random);
    return out;
  }
  std::unique_ptr<CorePool> pool_ = make_pool(2);
};

constexpr MatrixPlace places[] = {
    {0, 30, 17, 17, 1}, {5, 8, 40, 90, 2}, {3, 200, 64, 64, 1}, {0, 1, 1, 1, 1}};

// Squares are added in another order; the norm is rounded to bf16, so that does not show here.
TEST_F(CudaOrthogonalize, NormalizesAndScalesAsTheCpu) {
  for (const MatrixPlace& place : places) {
    const std::vector<float> from = values(14000, 1);
    std::vector<float> packed(place.elements());
    std::vector<double> partials(matrix_partials_max + 1);
    normalize_matrix_cpu(
        {.matrix = place, .from = from.data(), .to = packed.data(), .partials = partials.data()}, *pool_);
    const DeviceArray on_device(from.data(), from.size() * 4), to(packed.size() * 4),
        scratch(partials.size() * 8);
    normalize_matrix_cuda({.matrix = place,
                           .from = {on_device.data(), Precision::fp32},
                           .to = {to.data(), Precision::fp32},
                           .partials = scratch.as<double>()},
                          stream_);
    synchronize();
    EXPECT_EQ(to.values<float>(), packed);
    std::vector<float> back = from;
    scale_matrix_cpu({.matrix = place, .from = packed.data(), .to = back.data(), .scale = 1.5f}, *pool_);
    scale_matrix_cuda({.matrix = place,
                       .from = {to.data(), Precision::fp32},
                       .to = {on_device.data(), Precision::fp32},
                       .scale = 1.5f},
                      stream_);
    synchronize();
    EXPECT_EQ(on_device.values<float>(), back);
  }
}

TEST_F(CudaOrthogonalize, AddsProductsAsTheCpu) {
  for (const u64 n : {1, 8, 1000, 4096})
    for (const bool has_x : {false, true}) {
      const std::vector<float> x = values(n, 2), product = values(n, 3);
      std::vector<float> y(n);
      AddProduct op = {.of_x = 3.4445f,
                       .of_product = -0.5f,
                       .x = has_x ? ConstValues(x.data()) : ConstValues(),
                       .product = product.data(),
                       .y = y.data(),
                       .elements = n};
      add_product_cpu(op, *pool_);
      const DeviceArray of_x(x.data(), n * 4), of_product(product.data(), n * 4), to(n * 4);
      op.x = has_x ? ConstValues(of_x.data(), Precision::fp32) : ConstValues();
      op.product = of_product.as<float>(), op.y = {to.data(), Precision::fp32};
      add_product_cuda(op, stream_);
      synchronize();
      EXPECT_EQ(to.values<float>(), y);
    }
}

// In 16 bits the numbers are those of fp32, rounded to 16 bits.
TEST_F(CudaOrthogonalize, HalvesAreRoundedOnce) {
  const MatrixPlace place = {0, 40, 24, 24, 1};
  const std::vector<float> from = values(960, 4);
  std::vector<float> packed(960);
  std::vector<double> partials(matrix_partials_max + 1);
  normalize_matrix_cpu(
      {.matrix = place, .from = from.data(), .to = packed.data(), .partials = partials.data()}, *pool_);
  const DeviceArray on_device(from.data(), 960 * 4), to(960 * 2), scratch(partials.size() * 8);
  normalize_matrix_cuda({.matrix = place,
                         .from = {on_device.data(), Precision::fp32},
                         .to = {to.data(), Precision::bf16},
                         .partials = scratch.as<double>()},
                        stream_);
  synchronize();
  const std::vector<u16> halves = to.values<u16>();
  for (u32 i = 0; i < 960; ++i) EXPECT_EQ(std::bit_cast<float>(u32{halves[i]} << 16), packed[i]);
}

}  // namespace tidepool::test::orthogonalize_test
