#include "executor/shared/step_arrays.h"

#include <algorithm>

#include "executor/lanes/lane_thread.h"
#include "kernels/gradient/gradient.h"
#include "model/mlps/experts/expert_layouts.h"

namespace tidepool {
namespace {

// ArrayCutter cuts aligned arrays off a range. Without a range it only counts bytes.
class ArrayCutter {
 public:
  explicit ArrayCutter(std::byte* begin) : begin_(begin) {}

  template <class T>
  T* take(u64 count) {
    const u64 offset = taken_;
    taken_ += round_up(count * sizeof(T), alignment);
    return begin_ == nullptr ? nullptr : reinterpret_cast<T*>(begin_ + offset);
  }
  Bytes taken() const { return Bytes{taken_}; }

 private:
  static constexpr u64 alignment = 256;
  std::byte* begin_;
  u64 taken_ = 0;
};

// `arrays`: StepArrays or HostStepArrays.
template <class Arrays>
void take_routing(const StepArraySizes& sizes, ArrayCutter& cutter, Arrays& arrays) {
  if (sizes.experts == 0) return;
  arrays.router_losses = cutter.take<RouterLosses>(steps_kept * sizes.micro_batches);
  arrays.expert_tokens = cutter.take<i64>(steps_kept * sizes.experts);
}

}  // namespace

u64 experts_of_layers(const ModelGraph& graph) {
  return u64{expert_layer_index(graph.config, graph.config.layers)} * graph.config.experts.count;
}

Bytes lay_out(const StepArraySizes& sizes, std::byte* begin, StepArrays& arrays) {
  ArrayCutter cutter(begin);
  arrays.sums = cutter.take<Sums>(steps_kept * sizes.micro_batches);
  arrays.evaluations = cutter.take<Sums>(lane_depth);
  const u64 squares = sizes.partials + sizes.cells;
  arrays.partials = cutter.take<double>(squares);
  arrays.cells = arrays.partials + sizes.partials;
  arrays.received =
      cutter.take<double>(sizes.several_devices ? std::max(squares, sum_count * sizes.micro_batches) : 0);
  arrays.shared = cutter.take<u32>(sizes.cells / (norm_granule_elements / norm_cell_elements));
  arrays.results = cutter.take<StepResult>(steps_kept);
  arrays.loss_scale = cutter.take<LossScale>(1);
  arrays.scalars = cutter.take<UpdateScalars>(1);
  arrays.logits = cutter.take<float>(sizes.vocabulary);
  arrays.outputs = cutter.take<float>(lane_depth * sizes.outputs);
  arrays.segments = cutter.take<DecaySegment>(sizes.decay_segments);
  arrays.update_scratch = cutter.take<std::byte>(sizes.update_scratch);
  take_routing(sizes, cutter, arrays);
  return cutter.taken();
}

Bytes lay_out(const StepArraySizes& sizes, std::byte* begin, HostStepArrays& arrays) {
  ArrayCutter cutter(begin);
  arrays.results = cutter.take<StepResult>(steps_kept);
  if (sizes.several_nodes) arrays.sums = cutter.take<Sums>(steps_kept * sizes.micro_batches);
  arrays.evaluations = cutter.take<Sums>(lane_depth);
  arrays.logits = cutter.take<float>(sizes.vocabulary);
  arrays.outputs = cutter.take<float>(lane_depth * sizes.outputs);
  take_routing(sizes, cutter, arrays);
  return cutter.taken();
}

}  // namespace tidepool
