// Short ops of the body that hand over the same work in every step, as CUDA graphs: one call of 3 to 4 us
// starts what took a dozen or two (docs/decisions/0028). Whatever stands in the way (the allowance is used
// up, CUDA refuses, a library does what a capture does not allow), the op is handed over plainly, as all
// others are, and nobody is told.
//
// An op's first run is always plain: by it kernels are loaded, libraries choose their algorithms, and the
// device tells how long it took. Events, waits for other lanes and a profiler's ranges are around the graph,
// as they are around launches.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <memory>
#include <type_traits>
#include <vector>

#include "executor/cuda/stream_lane.h"
#include "tidepool/model_graph.h"

namespace tidepool {

// All must outlive the graphs.
struct OpGraphsParts {
  StreamWork& work;
  const Plan& plan;
  const ModelGraph& graph;
  Bytes allowance{};  // of each device's memory; 0: none are made
};

class OpGraphs final : public StreamWork {
 public:
  explicit OpGraphs(const OpGraphsParts&);

  Result<void> enqueue(const Issue&, u32 slot, cudaStream_t) override;
  Result<void> ended(const Issue&, u32 slot, Nanos took) override;
  std::string describe(const Issue& issue) const override { return parts_.work.describe(issue); }

 private:
  struct Destroy {
    void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
    void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
  };
  template <class Handle>
  using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy>;

  struct OpGraph {
    std::atomic<bool> is_short = false;  // said by the lane's thread; all else is the engine's
    bool tried = false;
    Owned<cudaGraphExec_t> executable;  // null: the op is handed over plainly
  };

  OpGraph* graph_of(const Issue&);  // null: no op that repeats
  Owned<cudaGraphExec_t> make(const Issue&, u32 slot, cudaStream_t);
  Owned<cudaGraph_t> capture(const Issue&, u32 slot, cudaStream_t);
  Owned<cudaGraphExec_t> instantiate(cudaGraph_t, u32 device, cudaStream_t);
  bool has_room(u32 device, u64 nodes) const;

  const OpGraphsParts parts_;
  const Bytes node_bytes_;
  std::vector<OpGraph> body_;  // by OpId
  std::vector<Bytes> taken_;   // by device, so far
};

}  // namespace tidepool
