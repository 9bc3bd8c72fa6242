// Tests the device's rotation, with and without norms, documents and gates between the heads of q, against
// the CPU's.
#include "tests/support/references/rotary.h"

#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/rotary/rotary_launch.h"
#include "tests/cuda/cuda_fixture.h"

namespace tidepool::test::rotary_test {

// Nothing past a weight's end may be used, although lanes past the head run along with their warp.
std::vector<float> with_nans_behind(std::vector<float> weight) {
  weight.resize(weight.size() + 2 * rotary_pairs_max, std::numeric_limits<float>::quiet_NaN());
  return weight;
}

std::vector<i32> at_least_one(std::vector<i32> starts) {
  starts.resize(std::max<u64>(starts.size(), 1));
  return starts;
}

struct RotaryPrecisions {
  Precision activations = Precision::fp32, parameters = Precision::fp32;
};

// A case's arrays on the device, `shift` elements off the alignment.
struct DeviceRotary {
  DeviceRotary(const RotaryCase& which, RotaryPrecisions p, u64 shift)
      : c(which),
        d(which),
        qkv(d.qkv, p.activations, shift),
        dout(d.dout, p.activations, shift),
        // The CPU's results have zeros for k and v that are given.
        out(std::vector<float>(d.dout.size(), c.shape.values == RotaryValues::given ? 0.0f : NAN),
            p.activations, shift),
        dx(std::vector<float>(d.qkv.size(), untouched), p.activations, shift),
        q_norm(with_nans_behind(d.q_norm), p.parameters, shift),
        k_norm(with_nans_behind(d.k_norm), p.parameters, shift),
        dq_norm(rounded_to(d.q_norm, p.parameters), Precision::fp32),
        dk_norm(rounded_to(d.k_norm, p.parameters), Precision::fp32),
        partials(rotary_partials(c.shape.rows, c.shape.head_size), Precision::fp32),
        host_starts(at_least_one(d.starts)),
        starts(host_starts.data(), host_starts.size() * sizeof(i32)) {
    d.q_norm = dq_norm.given(), d.k_norm = dk_norm.given();
  }

  template <class Op>
  Op on_device(Op op) const {
    if (op.starts != nullptr) op.starts = starts.as<i32>();
    if (c.norms) op.q_norm = q_norm.values();
    if (c.norms && c.shape.key_heads() != 0) op.k_norm = k_norm.values();
    return op;
  }
  Rotary forward(ConstValues from, Values to) const { return on_device(d.forward(c, from, to)); }
  RotaryBackward backward(ConstValues from, Values gradient, Values input_gradient) const {
    RotaryBackward back = on_device(d.backward(c, from, gradient, input_gradient));
    back.dq_norm = dq_norm.values().fp32(), back.dk_norm = dk_norm.values().fp32();
    back.partials = partials.values().fp32(), back.accumulate = true;
    return back;
  }

  const RotaryCase c;
  RotaryData d;
  DeviceValues qkv, dout, out, dx, q_norm, k_norm, dq_norm, dk_norm, partials;
  std::vector<i32> host_starts;
  DeviceArray starts;
};

class CudaRotary : public CudaTest {
 protected:
  void expect_the_cpus(const RotaryCase&, RotaryPrecisions, u64 shift);
  void expect_the_same_in_place(const DeviceRotary&);
  void expect_the_same_over_qkv(const DeviceRotary&);
};

void CudaRotary::expect_the_cpus(const RotaryCase& c, RotaryPrecisions p, u64 shift) {
  const RotaryShape& s = c.shape;
  SCOPED_TRACE(testing::Message() << "D " << s.head_size << " rotated " << s.rotated() << " stride "
                                  << s.q_stride() << " " << name(p.activations) << " x " << name(p.parameters)
                                  << " + " << shift);
  const DeviceRotary device(c, p, shift);
  const RotaryData& d = device.d;
  const auto pool = make_pool(2);
  std::vector<float> want(d.dout.size()), want_dx(d.qkv.size(), untouched);
  std::vector<float> want_q = d.q_norm, want_k = d.k_norm, dout = device.dout.given();
  std::vector<float> scratch(rotary_partials(s.rows, s.head_size));
  rotary_cpu(d.forward(c, device.qkv.given().data(), want.data()), *pool);
  RotaryBackward back = d.backward(c, device.qkv.given().data(), dout.data(), want_dx.data());
  back.dq_norm = want_q.data(), back.dk_norm = want_k.data(), back.partials = scratch.data();
  back.accumulate = true;
  rotary_backward_cpu(back, *pool);

  rotary_cuda(device.forward(device.qkv.values(), device.out.values()), stream_);
  rotary_backward_cuda(device.backward(device.qkv.values(), device.dout.values(), device.dx.values()),
                       stream_);
  synchronize();
  const std::vector<float> dx = device.dx.now();
  EXPECT_LE(relative_error(device.out.now(), want), tolerance(p.activations, 1e-6));
  EXPECT_LE(relative_error(dx, want_dx), tolerance(p.activations, 2e-6));
  EXPECT_LE(relative_error(device.dq_norm.now(), want_q), 2e-6);
  EXPECT_LE(relative_error(device.dk_norm.now(), want_k), 2e-6);
  EXPECT_TRUE(same_bits(device.dout.now(), device.dout.given()));
  for_gates(s, [&](u64 i) { ASSERT_EQ(dx[i], untouched) << i; });
  if (s.in_columns() == s.columns()) expect_the_same_in_place(device);
  expect_the_same_over_qkv(device);
}

// In place, and aligned.
void CudaRotary::expect_the_same_in_place(const DeviceRotary& device) {
  const Precision precision = device.qkv.values().precision;
  const DeviceValues qkv(device.qkv.given(), precision), dqkv(device.dout.given(), precision);
  rotary_backward_cuda(device.backward(qkv.values(), dqkv.values(), {}), stream_);
  rotary_cuda(device.forward(qkv.values(), qkv.values()), stream_);
  synchronize();
  EXPECT_TRUE(same_bits(qkv.now(), device.out.now()));
  EXPECT_TRUE(same_bits(dqkv.now(), device.dx.now()));
}

// dx in place of qkv, whose gates stay.
void CudaRotary::expect_the_same_over_qkv(const DeviceRotary& device) {
  const DeviceValues qkv(device.qkv.given(), device.qkv.values().precision);
  rotary_backward_cuda(device.backward(qkv.values(), device.dout.values(), qkv.values()), stream_);
  synchronize();
  std::vector<float> dx = qkv.now();
  for_gates(device.c.shape, [&](u64 i) {
    ASSERT_EQ(dx[i], qkv.given()[i]) << i;
    dx[i] = untouched;
  });
  EXPECT_TRUE(same_bits(dx, device.dx.now()));
}

TEST_F(CudaRotary, AgreesWithTheCpu) {
  for (const RotaryCase& c : rotary_cases) {
    expect_the_cpus(c, {Precision::fp32, Precision::fp32}, 0);
    expect_the_cpus(c, {Precision::bf16, Precision::bf16}, 0);
    expect_the_cpus(c, {Precision::fp16, Precision::fp32}, 0);
    expect_the_cpus(c, {Precision::bf16, Precision::fp32}, 1);
    expect_the_cpus(c, {Precision::fp16, Precision::fp16}, 3);
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
