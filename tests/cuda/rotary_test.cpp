// Tests the device's rotation, with and without norms and documents, against the CPU's.
#include "tests/support/references/rotary.h"

#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/rotary/rotary_launch.h"
#include "tests/cuda/cuda_fixture.h"

namespace tidepool::test::rotary_test {

class CudaRotary : public CudaTest {
 protected:
  void expect_the_cpus(const RotaryCase&, Precision activations, Precision parameters, u64 shift);
};

// Nothing past a weight's end may be used, although lanes past the head run along with their warp.
std::vector<float> with_nans_behind(std::vector<float> weight) {
  weight.resize(weight.size() + 2 * rotary_pairs_max, std::numeric_limits<float>::quiet_NaN());
  return weight;
}

void CudaRotary::expect_the_cpus(const RotaryCase& c, Precision activations, Precision parameters,
                                 u64 shift) {
  const RotaryShape& s = c.shape;
  SCOPED_TRACE(testing::Message() << "D " << s.head_size << " " << name(activations) << " x "
                                  << name(parameters) << " + " << shift);
  RotaryData d(c);
  const DeviceValues qkv(d.qkv, activations, shift), dout(d.dout, activations, shift);
  const DeviceValues q_norm(with_nans_behind(d.q_norm), parameters, shift),
      k_norm(with_nans_behind(d.k_norm), parameters, shift);
  std::vector<i32> host_starts = d.starts;
  host_starts.resize(std::max<u64>(host_starts.size(), 1));
  const DeviceArray starts(host_starts.data(), host_starts.size() * sizeof(i32));
  d.q_norm = rounded_to(d.q_norm, parameters), d.k_norm = rounded_to(d.k_norm, parameters);
  const auto pool = make_pool(2);

  std::vector<float> want(d.qkv.size()), want_d = dout.given(), want_q = d.q_norm, want_k = d.k_norm,
                                         scratch(rotary_partials(s.rows, s.head_size));
  const Rotary host = d.forward(c, qkv.given().data(), want.data());
  rotary_cpu(host, *pool);
  RotaryBackward host_back = d.backward(c, qkv.given().data(), want_d.data());
  host_back.dq_norm = want_q.data(), host_back.dk_norm = want_k.data(), host_back.partials = scratch.data();
  host_back.accumulate = true;
  rotary_backward_cpu(host_back, *pool);

  const DeviceValues out(d.qkv.size(), activations, shift);
  const DeviceValues dq_norm(d.q_norm, Precision::fp32), dk_norm(d.k_norm, Precision::fp32);
  const DeviceValues partials(rotary_partials(s.rows, s.head_size), Precision::fp32);
  const auto on_device = [&](auto op) {
    if (op.starts != nullptr) op.starts = starts.as<i32>();
    if (c.norms) op.q_norm = q_norm.values(), op.k_norm = k_norm.values();
    return op;
  };
  Rotary op = on_device(d.forward(c, qkv.values(), out.values()));
  rotary_cuda(op, stream_);
  RotaryBackward back = on_device(d.backward(c, qkv.values(), dout.values()));
  back.dq_norm = dq_norm.values().fp32(), back.dk_norm = dk_norm.values().fp32();
  back.partials = partials.values().fp32(), back.accumulate = true;
  rotary_backward_cuda(back, stream_);
  synchronize();
  EXPECT_LE(relative_error(out.now(), want), tolerance(activations, 1e-6));
  EXPECT_LE(relative_error(dout.now(), want_d), tolerance(activations, 2e-6));
  EXPECT_LE(relative_error(dq_norm.now(), want_q), 2e-6);
  EXPECT_LE(relative_error(dk_norm.now(), want_k), 2e-6);

  op.qkv = op.out = qkv.values();  // in place
  rotary_cuda(op, stream_);
  synchronize();
  EXPECT_TRUE(same_bits(qkv.now(), out.now()));
}

TEST_F(CudaRotary, AgreesWithTheCpu) {
  for (const RotaryCase& c : rotary_cases) {
    expect_the_cpus(c, Precision::fp32, Precision::fp32, 0);
    expect_the_cpus(c, Precision::bf16, Precision::bf16, 0);
    expect_the_cpus(c, Precision::fp16, Precision::fp32, 0);
    expect_the_cpus(c, Precision::bf16, Precision::fp32, 1);
    expect_the_cpus(c, Precision::fp16, Precision::fp16, 3);
  }
}

TEST_F(CudaRotary, LaunchesFitEveryDevice) {
  for (const u32 rows : {1u, 31u, 33u, 1u << 20, cuda::grid_x_max}) {
    EXPECT_TRUE(cuda::fits_every_device(cuda::rotary_launch(rows)));
    EXPECT_TRUE(cuda::fits_every_device(cuda::rotary_norms_launch(rows)));
  }
  for (u32 size = 2; size <= 2 * rotary_pairs_max; size += 2) {
    EXPECT_GE(8 * cuda::rotary_lanes(size), size / 2);
    EXPECT_EQ(cuda::warp_threads % cuda::rotary_lanes(size), 0u);
    EXPECT_TRUE(cuda::fits_every_device(cuda::rotary_sum_launch(size)));
  }
}

}  // namespace tidepool::test::rotary_test
