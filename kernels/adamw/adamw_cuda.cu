// AdamW on the device, with the CPU's bits: it follows the list in adamw_tile.h, one rounding per line. (For
// NaN, the payload may differ; halves are rounded from one canonical NaN on both sides.)
//
// The sum: bf16 reads 14 and writes 12 bytes per parameter, so a card of 4 TB/s takes 6.5 ps per parameter,
// in which its 100 multiprocessors issue about 100 instructions. So memory is the bottleneck.
#include "kernels/cuda/dispatch.h"
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/require.h"

namespace tidepool {
namespace cuda {
namespace {

struct Halves {
  Bf16* high;
  u16* low;  // signed remainders
};
struct Words {
  float* values;
};
struct Rounded {
  Fp16* half;  // the rounded master
  float* master;
};

template <bool whole>
__device__ void load_masters(Words p, u64 at, u64 n, float (&v)[8]) {
  load8<whole>(p.values, at, n, v);
}
template <bool whole>
__device__ void store_masters(Words p, u64 at, u64 n, const float (&v)[8]) {
  store8<whole>(p.values, at, n, v);
}

template <bool whole>
__device__ void load_masters(Rounded p, u64 at, u64 n, float (&v)[8]) {
  load8<whole>(p.master, at, n, v);
}
template <bool whole>
__device__ void store_masters(Rounded p, u64 at, u64 n, const float (&v)[8]) {
  store8<whole>(p.master, at, n, v);
  store8<whole>(p.half, at, n, v);
}

// (high << 16) + remainder.
__device__ float joined(u32 high_in_place, u32 low) {
  return __uint_as_float(high_in_place + static_cast<u32>(static_cast<i32>(static_cast<std::int16_t>(low))));
}
template <bool whole>
__device__ void load_masters(Halves p, u64 at, u64 n, float (&v)[8]) {
  load8<whole>(p.high, at, n, v);
  if constexpr (whole) {
    const uint4 low = *reinterpret_cast<const uint4*>(p.low + at);
    const u32 pairs[4] = {low.x, low.y, low.z, low.w};
    for (u32 i = 0; i < 8; ++i) v[i] = joined(__float_as_uint(v[i]), pairs[i / 2] >> (i % 2 * 16) & 0xffff);
  } else {
    for (u32 i = 0; i < 8; ++i) {
      if (at + i < n) v[i] = joined(__float_as_uint(v[i]), p.low[at + i]);
    }
  }
}

// RETURNS: bits below the upper half; 0 for NaN, which is canonical.
__device__ u32 low_of(float x) { return x != x ? 0u : __float_as_uint(x) & 0xffff; }
template <bool whole>
__device__ void store_masters(Halves p, u64 at, u64 n, const float (&v)[8]) {
  store8<whole>(p.high, at, n, v);
  if constexpr (whole) {
    u32 pairs[4];
    for (u32 i = 0; i < 4; ++i) pairs[i] = low_of(v[2 * i]) | low_of(v[2 * i + 1]) << 16;
    *reinterpret_cast<uint4*>(p.low + at) = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
  } else {
    for (u32 i = 0; i < 8; ++i) {
      if (at + i < n) p.low[at + i] = static_cast<u16>(low_of(v[i]));
    }
  }
}

// DecayFactors gives the decay factors of ascending elements.
class DecayFactors {
 public:
  __device__ DecayFactors(const DecaySegment* segments, float decay)
      : next_(segments), decay_(decay), end_(0), factor_(1) {}

  __device__ float at(u64 element) {
    while (element >= end_) {
      end_ = next_->end;
      factor_ = next_->decay ? decay_ : 1.0f;
      ++next_;
    }
    return factor_;
  }

 private:
  const DecaySegment* next_;
  float decay_;
  u64 end_;
  float factor_;
};

template <class Grad, class Masters>
struct Chunk {
  u64 elements;
  const Grad* grad;
  Masters masters;
  float *momentum, *variance;
  const DecaySegment* segments;
};

__device__ void update(const AdamWScalars& s, float grad, float decay, float& p, float& m, float& v) {
  const float root = __fmul_rn(s.grad_to_root, grad);
  m = __fmaf_rn(s.beta1, m, __fmul_rn(s.grad_to_momentum, grad));
  v = __fmaf_rn(root, root, __fmul_rn(s.beta2, v));
  const float divisor = __fmaf_rn(__fsqrt_rn(v), s.root_factor, s.root_offset);
  p = __fmaf_rn(decay, p, -__fdiv_rn(m, divisor));
}

// Skipped steps also write the kinds that every update makes anew: their bytes may have held a gradient.
template <bool whole, class Masters>
__device__ void leave_as_it_was(Masters, u64) {}
template <bool whole>
__device__ void leave_as_it_was(Rounded p, u64 elements) {
  for (u64 at = vector_elements * grid_thread(); at < elements; at += vector_elements * grid_threads()) {
    float master[8];
    load8<whole>(p.master, at, elements, master);
    store8<whole>(p.half, at, elements, master);
  }
}

template <bool whole, class Grad, class Masters>
__global__ void __launch_bounds__(256) adamw_kernel(Chunk<Grad, Masters> c, const AdamWScalars* scalars) {
  const AdamWScalars s = *scalars;
  if (s.skip) return leave_as_it_was<whole>(c.masters, c.elements);
  DecayFactors decay(c.segments, s.decay);
  for (u64 at = vector_elements * grid_thread(); at < c.elements; at += vector_elements * grid_threads()) {
    float grad[8], param[8], momentum[8], variance[8];
    load8<whole>(c.grad, at, c.elements, grad);
    load_masters<whole>(c.masters, at, c.elements, param);
    load8<whole>(c.momentum, at, c.elements, momentum);
    load8<whole>(c.variance, at, c.elements, variance);
    for (u32 i = 0; i < 8; ++i) {
      const float factor = whole || at + i < c.elements ? decay.at(at + i) : 1.0f;
      update(s, grad[i], factor, param[i], momentum[i], variance[i]);
    }
    store_masters<whole>(c.masters, at, c.elements, param);
    store8<whole>(c.momentum, at, c.elements, momentum);
    store8<whole>(c.variance, at, c.elements, variance);
  }
}

__global__ void scalars_kernel(AdamWStep step, const StepResult* result, AdamWScalars* scalars) {
  *scalars = adamw_scalars(step, result == nullptr ? StepResult{} : *result);
}

__global__ void put_scalars_kernel(AdamWScalars scalars, AdamWScalars* to) { *to = scalars; }

void check_chunk(const AdamWChunk& c, Precision precision) {
  require((precision != Precision::fp32) == (c.master != nullptr),
          "16 bits, and only they, have a master beside");
  require(!c.segments.empty() || c.elements == 0, "segments cover the chunk");
  // Checksums are for chunks with homes on disk, and the host updates those.
  require(c.param_hashes.empty() && c.master_hashes.empty() && c.momentum_hashes.empty() &&
              c.variance_hashes.empty(),
          "no checksums are wanted of an update on the device");
}

template <class Grad, class Masters>
void start(const AdamWChunk& c, bool whole, Masters masters, const AdamWScalars* scalars,
           cudaStream_t stream) {
  const Chunk<Grad, Masters> chunk = {.elements = c.elements,
                                      .grad = reinterpret_cast<const Grad*>(c.grad),
                                      .masters = masters,
                                      .momentum = c.momentum,
                                      .variance = c.variance,
                                      .segments = c.segments.data()};
  for_bool(whole, [&](auto w) {
    launch<adamw_kernel<w.value, Grad, Masters>>(elementwise_launch(c.elements, vector_elements), stream,
                                                 chunk, scalars);
  });
}

}  // namespace
}  // namespace cuda

void adamw_cuda(const AdamWChunk& c, Precision precision, const AdamWScalars* scalars, cudaStream_t stream) {
  using namespace cuda;
  check_chunk(c, precision);
  if (c.elements == 0) return;
  const auto values = [&](std::byte* p) { return Values(p, precision); };
  const bool whole = rows_of_vectors(c.elements, ConstValues(c.grad, precision), values(c.param),
                                     values(c.master), c.momentum, c.variance);
  switch (precision) {
    case Precision::fp32:
      return start<float>(c, whole, Words{reinterpret_cast<float*>(c.param)}, scalars, stream);
    case Precision::bf16:
      return start<Bf16>(c, whole, Halves{reinterpret_cast<Bf16*>(c.param), reinterpret_cast<u16*>(c.master)},
                         scalars, stream);
    case Precision::fp16:
      return start<Fp16>(c, whole,
                         Rounded{reinterpret_cast<Fp16*>(c.param), reinterpret_cast<float*>(c.master)},
                         scalars, stream);
  }
}

void adamw_scalars_cuda(const AdamWStep& step, const StepResult* result, AdamWScalars* scalars,
                        cudaStream_t stream) {
  cuda::launch<cuda::scalars_kernel>({}, stream, step, result, scalars);
}

void put_adamw_scalars_cuda(const AdamWScalars& scalars, AdamWScalars* to, cudaStream_t stream) {
  cuda::launch<cuda::put_scalars_kernel>({}, stream, scalars, to);
}

}  // namespace tidepool
