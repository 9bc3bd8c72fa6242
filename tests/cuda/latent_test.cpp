// Tests the device's rows of latent attention, and their gradient, against their definition in double.
#include "tests/support/references/latent.h"

#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/latent/latent_launch.h"
#include "tests/cuda/cuda_fixture.h"

namespace tidepool::test::cuda_latent_test {

class CudaLatent : public CudaTest {
 protected:
  // Calls fn(reference, precision, shift) for all shapes, with and without documents.
  template <class Fn>
  void for_cases(Fn fn) {
    for (const LatentShape& shape : latent_shapes)
      for (const bool documents : {false, true})
        for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16})
          for (const u64 shift : {u64{0}, u64{3}}) {
            SCOPED_TRACE(testing::Message() << "U " << shape.qk_rope_head_dim << " " << name(precision)
                                            << " + " << shift << (documents ? " documents" : ""));
            fn(LatentReference(shape, documents), precision, shift);
          }
  }
};

std::vector<float> floats_of(const std::vector<double>& x) { return {x.begin(), x.end()}; }

TEST_F(CudaLatent, JoinsAndRotatesRows) {
  for_cases([&](const LatentReference& r, Precision precision, u64 shift) {
    std::vector<float> given[3];
    std::vector<std::unique_ptr<DeviceValues>> in;
    for (u32 i = 0; i < 3; ++i) {
      in.push_back(std::make_unique<DeviceValues>(random_floats(u64{r.s.rows} * r.columns[i], i + 1),
                                                  precision, shift));
      given[i] = in[i]->given();
    }
    const DeviceArray starts(r.starts.data(), r.starts.size() * sizeof(i32));
    const DeviceValues out(u64{r.s.rows} * r.s.columns(), precision, shift);
    latent_rows_cuda({.shape = r.s,
                      .q = in[0]->values(),
                      .kv = in[1]->values(),
                      .low = in[2]->values(),
                      .out = out.values(),
                      .starts = r.starts_or_null() != nullptr ? starts.as<i32>() : nullptr,
                      .inverse_frequencies = r.frequencies},
                     stream_);
    synchronize();
    EXPECT_LE(relative_error(out.now(), floats_of(r.rows(given))), tolerance(precision, 1e-6));
  });
}

TEST_F(CudaLatent, GradientIsTheTransposedMapAndLeavesTheLatent) {
  for_cases([&](const LatentReference& r, Precision precision, u64 shift) {
    const DeviceValues dout(random_floats(u64{r.s.rows} * r.s.columns(), 4), precision, shift);
    std::vector<double> want[3];
    std::vector<std::unique_ptr<DeviceValues>> d;
    for (u32 i = 0; i < 3; ++i) {
      want[i].resize(u64{r.s.rows} * r.columns[i]);
      d.push_back(
          std::make_unique<DeviceValues>(std::vector<float>(want[i].size(), -7.0f), precision, shift));
    }
    r.add_gradients(dout.given(), want);
    for (u32 row = 0; row < r.s.rows; ++row)
      for (u32 c = 0; c < r.s.kv_lora_rank; ++c) want[2][u64{row} * r.columns[2] + c] = -7;
    const DeviceArray starts(r.starts.data(), r.starts.size() * sizeof(i32));
    latent_rows_backward_cuda({.shape = r.s,
                               .dout = dout.values(),
                               .dq = d[0]->values(),
                               .dkv = d[1]->values(),
                               .dlow = d[2]->values(),
                               .starts = r.starts_or_null() != nullptr ? starts.as<i32>() : nullptr,
                               .inverse_frequencies = r.frequencies},
                              stream_);
    synchronize();
    for (u32 i = 0; i < 3; ++i)
      EXPECT_LE(relative_error(d[i]->now(), floats_of(want[i])), tolerance(precision, 1e-6)) << i;
    const std::vector<float> low = d[2]->now();
    for (u32 row = 0; row < r.s.rows; ++row) ASSERT_EQ(low[u64{row} * r.columns[2]], -7) << row;
  });
}

TEST_F(CudaLatent, CopiesFirstColumnsOfAnyPrecisionAndLeavesTheRest) {
  struct Case {
    u32 rows, columns, x_stride, y_stride;
    u64 shift = 0;
  };
  using enum Precision;
  for (const Case& c :
       {Case{35, 5, 9, 7}, Case{1, 250, 250, 250, 1}, Case{33, 24, 40, 24}, Case{6, 16, 16, 32, 2}})
    for (const auto& [from, to] : {std::pair(fp32, fp32), std::pair(bf16, fp32), std::pair(fp16, fp32),
                                   std::pair(bf16, bf16), std::pair(fp32, fp16)}) {
      SCOPED_TRACE(testing::Message() << c.columns << " " << name(from) << " to " << name(to));
      const DeviceValues x(random_floats(u64{c.rows} * c.x_stride, 1), from, c.shift);
      const DeviceValues y(std::vector<float>(u64{c.rows} * c.y_stride, -7.0f), to, c.shift);
      copy_columns_cuda({.rows = c.rows,
                         .columns = c.columns,
                         .x = x.values(),
                         .x_stride = c.x_stride,
                         .y = y.values(),
                         .y_stride = c.y_stride},
                        stream_);
      synchronize();
      const std::vector<float> copied = rounded_to(x.given(), to), got = y.now();
      for (u32 i = 0; i < got.size(); ++i) {
        const u32 row = i / c.y_stride, column = i % c.y_stride;
        ASSERT_EQ(got[i], column < c.columns ? copied[row * c.x_stride + column] : -7) << i;
      }
      if (from != to) continue;
      copy_columns_cuda({.rows = c.rows,
                         .columns = c.columns,
                         .x = x.values(),
                         .x_stride = c.x_stride,
                         .y = y.values(),
                         .y_stride = c.y_stride,
                         .add = true},
                        stream_);
      synchronize();
      const std::vector<float> sums = y.now();  // twice x is exact
      for (u32 i = 0; i < sums.size(); ++i)
        ASSERT_EQ(sums[i], i % c.y_stride < c.columns ? 2 * got[i] : -7) << i;
    }
}

TEST_F(CudaLatent, LaunchesFitEveryDevice) {
  for (const u32 rows : {1u, 33u, 1u << 20, cuda::grid_x_max}) {
    EXPECT_TRUE(cuda::fits_every_device(cuda::latent_rows_launch(rows)));
    for (const u32 columns : {1u, 512u, 1u << 20})
      EXPECT_TRUE(cuda::fits_every_device(cuda::copy_columns_launch(rows, columns)));
  }
}

}  // namespace tidepool::test::cuda_latent_test
