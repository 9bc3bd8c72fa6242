// Compares unpacked matrices with the reference implementations' golden values to the bit, and with plain
// double code over odd shapes, ranges and threads.
#include <gmock/gmock.h>

#include "kernels/unpack/unpack_cost.h"
#include "tests/support/kernel_fixture.h"
#include "tests/support/packed_matrix.h"
#include "tests/unit/kernels/simd_targets.h"

namespace tidepool::test::unpack_test {

std::vector<u16> unpacked(const PackedMatrix& m, const std::vector<std::byte>& packed, u32 threads = 1) {
  std::vector<u16> out(m.elements(), 0xeeee);
  const auto pool = make_pool(threads);
  create_cpu_kernels(*pool)->unpack(
      unpack_whole(m, packed.data(), Values(reinterpret_cast<std::byte*>(out.data()), Precision::bf16)));
  return out;
}

// A product of two floats of few bits is exact in double, so it is rounded to fp32 once here too.
u16 nearest_bf16(float x) {
  const u32 bits = std::bit_cast<u32>(x);
  return static_cast<u16>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

std::vector<float> widened(const std::vector<u16>& halves) {
  std::vector<float> out;
  for (const u16 half : halves) out.push_back(value_of_half(half, Precision::bf16));
  return out;
}

TEST(Unpack, EqualsTheReferenceImplementationsToTheBit) {
  const std::vector<GoldenMatrix> all = golden_matrices();
  ASSERT_EQ(all.size(), 14u);
  for_each_simd_target([&](const char* target) {
    for (const GoldenMatrix& golden : all) {
      SCOPED_TRACE(testing::Message() << golden.name << " on " << target);
      ASSERT_FALSE(golden.values.empty());
      for (u32 e = 0; e < golden.runs.size(); ++e) {
        const u64 n = golden.matrix.elements();
        const std::vector<u16> want(golden.values.begin() + i64(e * n),
                                    golden.values.begin() + i64((e + 1) * n));
        EXPECT_TRUE(same_bits(unpacked(golden.matrix, golden.runs[e]), want));
      }
    }
  });
}

TEST(Unpack, EqualsPlainDoubleCode) {
  for_each_simd_target([&](const char* target) {
    for (const PackedMatrix& m : odd_matrices()) {
      SCOPED_TRACE(testing::Message()
                   << name(m.packing) << " " << m.rows << " x " << m.columns << " on " << target);
      const std::vector<std::byte> packed = random_packed(m, 5);
      const std::vector<double> want = plain_values(m, packed);
      const std::vector<u16> got = unpacked(m, packed);
      for (u64 i = 0; i < want.size(); ++i) {
        const double value = value_of_half(got[i], Precision::bf16);
        if (std::isnan(want[i])) {
          ASSERT_EQ(got[i], 0x7fc0) << i;
        } else if (std::isinf(want[i])) {
          ASSERT_EQ(value, want[i]) << i;
        } else {
          // Half a place of bf16, and the fp32 roundings before; denormals count in units of 2^-133.
          ASSERT_NEAR(value, want[i], std::abs(want[i]) * 0x1.01p-8 + 0x1p-134) << i;
        }
      }
    }
  });
}

TEST(Unpack, EveryE4m3CodeIsRightAtExtremeScales) {
  const PackedMatrix m = {
      .packing = Packing::fp8_block, .rows = 1, .columns = 256, .block_rows = 128, .block_columns = 256};
  for_each_simd_target([&](const char* target) {
    for (const float scale :
         {1.0f, -0.7f, 0x1.9p-119f, 0x1.fp-120f, 1e-38f, 1e-45f, 0x1p118f, 0x1.1p118f, 0x1.23p120f, 0.0f}) {
      SCOPED_TRACE(testing::Message() << scale << " on " << target);
      std::vector<std::byte> packed(packed_bytes(m));
      for (u32 code = 0; code < 256; ++code) packed[code] = std::byte(code);
      copy_part(m, PackedPart::scales, &scale, packed);
      const std::vector<double> want = plain_values(m, packed);
      const std::vector<u16> got = unpacked(m, packed);
      for (u32 code = 0; code < 256; ++code) {
        const u16 exact = std::isnan(want[code]) ? 0x7fc0 : nearest_bf16(static_cast<float>(want[code]));
        ASSERT_EQ(got[code], exact) << code;
      }
    }
  });
}

TEST(Unpack, EveryRangeHasTheBitsOfTheWhole) {
  for (const PackedMatrix& m : odd_matrices()) {
    SCOPED_TRACE(testing::Message() << name(m.packing) << " " << m.rows << " x " << m.columns);
    const std::vector<std::byte> packed = random_packed(m, 6);
    const std::vector<u16> whole = unpacked(m, packed);
    const auto pool = make_pool(2);
    for (const u64 begin : {u64{0}, u64{1}, u64{33}, m.elements() / 2, m.elements() - 1}) {
      for (const u64 want : {u64{1}, u64{31}, u64{32}, u64{100}, m.elements()}) {
        if (begin >= m.elements()) continue;
        const u64 n = std::min(want, m.elements() - begin);
        std::vector<u16> part(n + 1, 0xeeee);
        unpack_cpu({.matrix = m,
                    .packed = packed.data(),
                    .begin = begin,
                    .elements = n,
                    .out = Values(reinterpret_cast<std::byte*>(part.data()), Precision::bf16)},
                   *pool);
        EXPECT_EQ(part.back(), 0xeeee) << "writes past the range";
        part.pop_back();
        EXPECT_TRUE(same_bits(part, {whole.begin() + i64(begin), whole.begin() + i64(begin + n)}))
            << begin << " + " << n;
      }
    }
  }
}

TEST(Unpack, RowsAreARange) {
  const PackedMatrix m = {.packing = Packing::int8_row, .rows = 7, .columns = 11};
  const std::vector<std::byte> packed = random_packed(m, 7);
  const std::vector<u16> whole = unpacked(m, packed);
  std::vector<u16> rows(3 * 11);
  const auto pool = make_pool(1);
  unpack_cpu(
      unpack_rows(m, packed.data(), 2, 3, Values(reinterpret_cast<std::byte*>(rows.data()), Precision::bf16)),
      *pool);
  EXPECT_TRUE(same_bits(rows, {whole.begin() + 22, whole.begin() + 55}));
}

TEST(Unpack, ManyMatricesAreOneCallWhateverTheThreads) {
  for (const Packing packing : {Packing::fp8_block, Packing::mxfp4, Packing::nf4_double}) {
    PackedMatrix m = {.packing = packing, .rows = 301, .columns = 320, .nested_block = 256};
    if (packing == Packing::fp8_block) m.block_rows = m.block_columns = 128;
    if (packing == Packing::nf4_double) m.block = 64;
    constexpr u32 experts = 3;
    const u64 stride = packed_bytes(m) + 128, out_stride = m.elements() + 5;
    std::vector<std::byte> packed(experts * stride);
    std::vector<u16> want(experts * out_stride, 0xeeee);
    for (u32 e = 0; e < experts; ++e) {
      const std::vector<std::byte> one = random_packed(m, 10 + e);
      std::copy(one.begin(), one.end(), packed.begin() + i64(e * stride));
      std::ranges::copy(unpacked(m, one), want.begin() + i64(e * out_stride));
    }
    for (const u32 threads : {1u, 2u, 3u}) {
      std::vector<u16> got(experts * out_stride, 0xeeee);
      const auto pool = make_pool(threads);
      unpack_cpu({.matrix = m,
                  .packed = packed.data(),
                  .elements = m.elements(),
                  .count = experts,
                  .packed_stride = stride,
                  .out_stride = out_stride,
                  .out = Values(reinterpret_cast<std::byte*>(got.data()), Precision::bf16)},
                 *pool);
      EXPECT_TRUE(same_bits(got, want)) << name(packing) << " " << threads;
    }
  }
}

TEST(Unpack, ATransposedMatrixHasTheSameValues) {
  for (const auto& [rows, columns] :
       std::vector<std::pair<u32, u32>>{{1, 32}, {7, 64}, {70, 160}, {130, 288}})
    for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16})
      for (const u32 threads : {1u, 2u, 3u}) {
        SCOPED_TRACE(testing::Message()
                     << rows << " x " << columns << ", " << name(precision) << ", " << threads);
        const PackedMatrix m = {.packing = Packing::mxfp4, .rows = rows, .columns = columns};
        const std::vector<std::byte> packed = random_packed(m, 3);
        const u64 size = values_bytes(1, precision);
        std::vector<std::byte> plain(m.elements() * size), turned(plain.size());
        const auto pool = make_pool(threads);
        Unpack op = unpack_whole(m, packed.data(), Values(plain.data(), precision));
        unpack_cpu(op, *pool);
        op.transposed = true, op.out = Values(turned.data(), precision);
        unpack_cpu(op, *pool);
        for (u64 r = 0; r < rows; ++r)
          for (u64 c = 0; c < columns; ++c)
            ASSERT_EQ(std::memcmp(&plain[(r * columns + c) * size], &turned[(c * rows + r) * size], size), 0)
                << r << ", " << c;
      }
}

TEST(Unpack, CopiesWhatIsNotPacked) {
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    std::vector<std::byte> from(200'001 * values_bytes(1, precision)), to(from.size());
    for (u64 i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 31 % 251);
    const auto pool = make_pool(3);
    create_cpu_kernels(*pool)->unpack({.matrix = {.rows = 1, .columns = 200'001},
                                       .packed = from.data(),
                                       .elements = 200'001,
                                       .out = Values(to.data(), precision)});
    EXPECT_EQ(from, to);
  }
}

TEST(Unpack, WiderFormsHoldTheValuesOfBf16) {
  for_each_simd_target([&](const char* target) {
    for (const PackedMatrix& m : odd_matrices()) {
      SCOPED_TRACE(testing::Message()
                   << name(m.packing) << " " << m.rows << " x " << m.columns << " on " << target);
      const std::vector<std::byte> packed = random_packed(m, 8);
      const std::vector<float> want = widened(unpacked(m, packed));
      const auto pool = make_pool(1);
      std::vector<float> wide(want.size());
      unpack_cpu(unpack_whole(m, packed.data(), wide.data()), *pool);
      EXPECT_TRUE(same_bits(wide, want));
      std::vector<u16> half(want.size()), want_half;
      for (const float x : want) want_half.push_back(fp16_from_float(x));
      unpack_cpu(
          unpack_whole(m, packed.data(), Values(reinterpret_cast<std::byte*>(half.data()), Precision::fp16)),
          *pool);
      EXPECT_TRUE(same_bits(half, want_half));
    }
  });
}

TEST(PackedMatrix, PartsFollowEachOtherAligned) {
  const PackedMatrix fp8 = {
      .packing = Packing::fp8_block, .rows = 130, .columns = 200, .block_rows = 128, .block_columns = 128};
  EXPECT_EQ(part_bytes(fp8, PackedPart::codes), 26'000u);
  EXPECT_EQ(part_begin(fp8, PackedPart::scales), 26'048u);
  EXPECT_EQ(part_bytes(fp8, PackedPart::scales), 16u);
  EXPECT_EQ(packed_bytes(fp8), 26'112u);
  // 4.127 bits per parameter.
  const PackedMatrix nf4 = {
      .packing = Packing::nf4_double, .rows = 4096, .columns = 4096, .block = 64, .nested_block = 256};
  EXPECT_EQ(part_bytes(nf4, PackedPart::codes), 8u * mib);
  EXPECT_EQ(part_bytes(nf4, PackedPart::scales), 256u * kib);
  EXPECT_EQ(part_bytes(nf4, PackedPart::nested_scales), 4u * kib);
  EXPECT_EQ(part_bytes(nf4, PackedPart::table), 1028u);
  EXPECT_EQ(packed_bytes(nf4), 8 * mib + 260 * kib + 1088);
  EXPECT_EQ(packed_bytes({}), 0u);
}

TEST(UnpackCost, CountsThePackedShareAndTheValues) {
  const PackedMatrix m = {.packing = Packing::mxfp4, .rows = 64, .columns = 64};
  Unpack op = unpack_whole(m, nullptr, Values(nullptr, Precision::bf16));
  EXPECT_EQ(packed_bytes(m), 2176u);
  EXPECT_EQ(unpack_cost(op).bytes, 2176 + 2 * 64 * 64u);
  op.count = 5, op.elements /= 2;
  EXPECT_EQ(unpack_cost(op).bytes, 5 * (1088 + 64 * 64u));
}

}  // namespace tidepool::test::unpack_test
