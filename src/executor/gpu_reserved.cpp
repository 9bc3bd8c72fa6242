#include "executor/gpu_reserved.h"

#include "executor/step_arrays.h"
#include "kernels/gradient.h"
#include "kernels/matmul/matmul_workspace.h"

namespace tidepool {

// Cutting a window into chunk sets adds a run of equal decay per cut at most.
GpuReserved gpu_reserved(const ModelGraph& graph, u32 micro_batches) {
  StepArraySizes sizes{.micro_batches = micro_batches,
                       .decay_segments = gpu_chunk_sets_max,
                       .vocabulary = graph.config.vocab_size};
  for (const Window& window : graph.windows) {
    sizes.partials += div_up(window.elements, norm_granule_elements);
    sizes.decay_segments += window.tensors.size();
  }
  StepArrays arrays;
  const auto pages = [](Bytes bytes) { return Bytes{round_up(bytes.value, frame_alignment)}; };
  return {.kernels = pages(cuda_library_workspace + cuda_matmul_scratch),
          .numbers = pages(lay_out(sizes, nullptr, arrays))};
}

}  // namespace tidepool
