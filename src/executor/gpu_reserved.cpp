#include "executor/gpu_reserved.h"

#include <algorithm>

#include "executor/repeated_ops.h"
#include "executor/shared/step_arrays.h"
#include "kernels/gradient/gradient.h"
#include "kernels/matmul/matmul_workspace.h"
#include "optimizers/optimizer.h"

namespace tidepool {

// Cutting a window into chunk sets adds at most one run of equal decay per cut, and each border between two
// devices' parts lies in one granule.
GpuReserved gpu_reserved(const ModelGraph& graph, u32 micro_batches, u32 devices) {
  const u64 borders = devices - 1;
  u64 largest = 0;
  StepArraySizes sizes{.micro_batches = micro_batches,
                       .decay_segments = gpu_chunk_sets_max,
                       .vocabulary = graph.config.head_rows(),
                       .experts = experts_of_layers(graph),
                       .outputs = graph.batch.rows() * graph.objective.outputs(),
                       .update_scratch = update_scratch(graph).value,
                       .several_devices = devices > 1};
  for (const Window& window : graph.windows) {
    sizes.decay_segments += window.tensors.size();
    if (!window.trainable) continue;
    largest = std::max(largest, window.elements);
    sizes.cells += borders * (norm_granule_elements / norm_cell_elements);
    sizes.partials += div_up(window.elements, norm_granule_elements);
  }
  StepArrays arrays;
  const auto pages = [](Bytes bytes) { return Bytes{round_up(bytes.value, frame_alignment)}; };
  return {.kernels = pages(cuda_library_workspace + cuda_matmul_scratch),
          .numbers = pages(lay_out(sizes, nullptr, arrays)),
          .staging = pages(std::min(gpu_staging_max, Bytes{borders * largest * sizeof(float)})),
          .graphs = may_have_short_ops(graph) ? gpu_graphs_max : Bytes{0}};
}

}  // namespace tidepool
