// Tests that the device unpacks matrices to the CPU's bits, in every precision, and on ranges that are not
// whole vectors.
#include <filesystem>

#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/unpack/unpack_launch.h"
#include "tests/cuda/cuda_fixture.h"
#include "tests/support/packed_matrix.h"

namespace tidepool::test::unpack_test {

class CudaUnpack : public CudaTest {
 protected:
  // `op` without arrays.
  void expect_the_cpus(Unpack op, Precision precision, u64 shift);
};

void CudaUnpack::expect_the_cpus(Unpack op, Precision precision, u64 shift) {
  SCOPED_TRACE(testing::Message() << name(op.matrix.packing) << " " << op.matrix.rows << " x "
                                  << op.matrix.columns << ", " << op.begin << " + " << op.elements << " of "
                                  << op.count << ", " << name(precision) << " + " << shift);
  std::vector<std::byte> packed;
  for (u32 m = 0; m < op.count; ++m) {
    std::vector<std::byte> one = random_packed(op.matrix, 20 + m);
    if (op.count > 1) one.resize(op.packed_stride);
    packed.insert(packed.end(), one.begin(), one.end());
  }
  const u64 values = (op.count - 1) * op.out_stride + op.elements, bytes = values_bytes(values, precision);
  std::vector<std::byte> want(bytes);
  const auto pool = make_pool(1);
  op.packed = packed.data(), op.out = Values(want.data(), precision);
  unpack_cpu(op, *pool);

  const DeviceArray given(packed.data(), packed.size()), out(bytes, shift * value_bytes(precision));
  out.write(std::vector<std::byte>(bytes).data(), bytes);  // gaps between matrices
  op.packed = given.data(), op.out = Values(out.data(), precision);
  unpack_cuda(op, stream_);
  synchronize();
  EXPECT_TRUE(same_bits(out.values<std::byte>(), want));
}

TEST_F(CudaUnpack, HasTheCpusBits) {
  for (const PackedMatrix& m : odd_matrices())
    for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16})
      for (const u64 shift : {0, 1})
        expect_the_cpus({.matrix = m, .elements = m.elements()}, precision, shift);
}

TEST_F(CudaUnpack, RangesHaveTheCpusBits) {
  for (const PackedMatrix& m : odd_matrices()) {
    if (m.elements() < 100) continue;
    expect_the_cpus({.matrix = m, .begin = 1, .elements = 40}, Precision::bf16, 0);
    expect_the_cpus({.matrix = m, .begin = 32, .elements = 64}, Precision::bf16, 0);
    expect_the_cpus({.matrix = m, .begin = m.elements() - 13, .elements = 13}, Precision::fp32, 0);
  }
}

TEST_F(CudaUnpack, TransposedMatricesHaveTheCpusBits) {
  for (const auto& [rows, columns] : std::vector<std::pair<u32, u32>>{{1, 32}, {7, 64}, {70, 160}})
    for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
      const PackedMatrix m = {.packing = Packing::mxfp4, .rows = rows, .columns = columns};
      expect_the_cpus({.matrix = m, .elements = m.elements(), .transposed = true}, precision, 0);
      expect_the_cpus({.matrix = m,
                       .elements = m.elements(),
                       .count = 2,
                       .packed_stride = packed_bytes(m),
                       .out_stride = m.elements() + 8,
                       .transposed = true},
                      precision, 1);
    }
}

TEST_F(CudaUnpack, CopiesWhatIsNotPacked) {
  std::vector<u16> from(3001);
  for (u64 i = 0; i < from.size(); ++i) from[i] = static_cast<u16>(i * 7);
  const DeviceArray given(from.data(), 2 * from.size()), out(2 * from.size());
  unpack_cuda({.matrix = {.rows = 1, .columns = 3001},
               .packed = given.data(),
               .elements = 3001,
               .out = Values(out.data(), Precision::bf16)},
              stream_);
  synchronize();
  EXPECT_EQ(out.values<u16>(), from);
}

TEST_F(CudaUnpack, ManyMatricesAreOneCall) {
  for (const PackedMatrix& m : odd_matrices()) {
    if (m.rows != 5 && m.rows != 33) continue;
    const Unpack op = {.matrix = m,
                       .elements = m.elements(),
                       .count = 3,
                       .packed_stride = packed_bytes(m) + 64,
                       .out_stride = m.elements() + 8};
    expect_the_cpus(op, Precision::bf16, 0);
    expect_the_cpus(op, Precision::fp32, 0);
  }
}

TEST_F(CudaUnpack, EqualsTheReferenceImplementationsToTheBit) {
#ifndef CUDA_EMULATED
  if (!std::filesystem::exists(golden_packed_file("fp8"))) GTEST_SKIP() << "the golden files are elsewhere";
#endif
  for (const GoldenMatrix& golden : golden_matrices()) {
    SCOPED_TRACE(golden.name);
    const u64 n = golden.matrix.elements();
    for (u32 e = 0; e < golden.runs.size(); ++e) {
      const DeviceArray given(golden.runs[e].data(), golden.runs[e].size()), out(2 * n);
      unpack_cuda(unpack_whole(golden.matrix, given.data(), Values(out.data(), Precision::bf16)), stream_);
      synchronize();
      EXPECT_TRUE(same_bits(out.values<u16>(),
                            {golden.values.begin() + i64(e * n), golden.values.begin() + i64((e + 1) * n)}));
    }
  }
}

TEST_F(CudaUnpack, LaunchesFitEveryDevice) {
  for (const u64 elements : {u64{1}, u64{1} << 20, u64{1} << 40})
    for (const u32 count : {1u, 512u, 1u << 20})
      EXPECT_TRUE(cuda::fits_every_device(cuda::unpack_launch(7, elements, count)));
}

}  // namespace tidepool::test::unpack_test
