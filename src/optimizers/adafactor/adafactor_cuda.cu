#include "kernels/second_moment/second_moment_cuda.h"
#include "kernels/update/update_kernel_cuda.h"
#include "optimizers/adafactor/adafactor.h"
#include "optimizers/optimizers_cuda.h"

namespace tidepool {
namespace {

using namespace cuda::rules;
using cuda::moments::Shape;

template <class Grad, class Masters>
using TensorChunk = cuda::rules::Chunk<Grad, Masters, 1>;

// The tensor, and the padding behind it up to element `end` of the chunk.
template <bool whole, class Grad, class Masters>
__global__ void __launch_bounds__(256) step_kernel(TensorChunk<Grad, Masters> c, Shape shape, u64 end,
                                                   MomentScratch scratch, const UpdateScalars* scalars) {
  using namespace cuda;
  const UpdateScalars s = *scalars;
  const float scale = AdafactorScalars(s).scale, rate = *scratch.rate;
  DecayFactors decay(c.segments, s);
  for (u64 at = shape.begin + vector_elements * grid_thread(); at < end;
       at += vector_elements * grid_threads()) {
    float grad[8] = {}, param[8] = {};
    load_masters<whole>(c.masters, at, end, param);
    if (!s.skip) {
      load8<whole>(c.grad, at, end, grad);
      u64 row = (at - shape.begin) / shape.columns;
      u32 column = static_cast<u32>(at - shape.begin - row * shape.columns);
      for (u32 i = 0; i < 8 && at + i < end; ++i) {
        float step = 0;
        if (row < shape.rows) {
          const float factor = __fmul_rn(scratch.row_factors[row], scratch.column_factors[column]);
          step = __fmul_rn(rate, __fmul_rn(factor, __fmul_rn(scale, grad[i])));
        }
        param[i] = __fmaf_rn(decay.at(at + i), param[i], -step);
        if (++column == shape.columns) column = 0, ++row;
      }
    }
    store_masters<whole>(c.masters, at, end, param);
  }
}

template <class Grad, class Masters>
void update_tensors(const UpdateChunk& c, Precision precision, Masters masters, u32 first_slot,
                    const UpdateScalars* scalars, cudaStream_t stream) {
  const TensorChunk<Grad, Masters> chunk = {.elements = c.elements,
                                            .grad = reinterpret_cast<const Grad*>(c.grad),
                                            .masters = masters,
                                            .state = {},
                                            .segments = c.segments.data(),
                                            .rounding = {}};
  SecondMoments moments = {reinterpret_cast<float*>(c.arrays[first_slot].data),
                           reinterpret_cast<float*>(c.arrays[first_slot + 1].data)};
  cuda::require(moment_scratch_bytes(c.tensors) <= c.scratch.size(), "the scratch suffices for the tensors");
  u64 taken = 0;
  for (u64 i = 0; i < c.tensors.size(); ++i) {
    const UpdateTensor& tensor = c.tensors[i];
    const u64 end = i + 1 < c.tensors.size() ? c.tensors[i + 1].begin : c.elements;
    const MomentScratch scratch = take_moment_scratch(tensor, c.scratch.data(), taken);
    cuda::moments::update_moments<AdafactorScalars>(tensor, {c.grad + tensor.begin * sizeof(Grad), precision},
                                                    moments, scratch, adafactor_epsilon, scalars, stream);
    cuda::for_bool(tensor.begin % cuda::vector_elements == 0 && end % cuda::vector_elements == 0,
                   [&](auto w) {
                     cuda::launch<step_kernel<w.value, Grad, Masters>>(
                         cuda::elementwise_launch(end - tensor.begin, cuda::vector_elements), stream, chunk,
                         cuda::moments::shape_of(tensor), end, scratch, scalars);
                   });
    moments.rows += tensor.rows, moments.columns += tensor.columns;
  }
}

}  // namespace

void adafactor_cuda(const UpdateChunk& c, Precision precision, const UpdateScalars* scalars,
                    cudaStream_t stream) {
  std::byte *const param = c.arrays[0].data, *const master = c.arrays[1].data;
  switch (precision) {
    case Precision::fp32:
      return update_tensors<float>(c, precision, Words{reinterpret_cast<float*>(param)}, 1, scalars, stream);
    case Precision::bf16:
      return update_tensors<cuda::Bf16>(
          c, precision, Halves{reinterpret_cast<cuda::Bf16*>(param), reinterpret_cast<u16*>(master)}, 2,
          scalars, stream);
    case Precision::fp16:
      return update_tensors<cuda::Fp16>(
          c, precision, Rounded{reinterpret_cast<cuda::Fp16*>(param), reinterpret_cast<float*>(master)}, 2,
          scalars, stream);
  }
}

}  // namespace tidepool
