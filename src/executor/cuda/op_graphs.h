// OpGraphs runs short ops of the body that launch the same work in every step as CUDA graphs: one call of 3
// to 4 us replaces a dozen or two launches (docs/decisions/0028). If a graph is impossible (the allowance is
// used up, CUDA refuses, a library does something that a capture forbids), the op is launched without a
// graph, silently.
//
// An op's first run never uses a graph: that run loads kernels, lets libraries choose their algorithms, and
// measures how long the op takes. Events, waits for other lanes and profiler ranges stay outside the graph,
// as they are outside launches.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <memory>
#include <type_traits>
#include <vector>

#include "executor/cuda/stream_lane.h"
#include "tidepool/model_graph.h"

namespace tidepool {

// REQUIRES: all references outlive the graphs.
struct OpGraphsParts {
  StreamWork& work;
  const Plan& plan;
  const ModelGraph& graph;
  Bytes allowance{};  // memory per device; 0: no graphs
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
    std::atomic<bool> is_short = false;  // written by the lane's thread; the engine's thread owns the rest
    bool tried = false;
    Owned<cudaGraphExec_t> executable;  // null: no graph
  };

  OpGraph* graph_of(const Issue&);  // null: the op does not repeat
  Owned<cudaGraphExec_t> make(const Issue&, u32 slot, cudaStream_t);
  Owned<cudaGraph_t> capture(const Issue&, u32 slot, cudaStream_t);
  Owned<cudaGraphExec_t> instantiate(cudaGraph_t, u32 device, cudaStream_t);
  bool has_room(u32 device, u64 nodes) const;

  const OpGraphsParts parts_;
  const Bytes node_bytes_;
  std::vector<OpGraph> body_;  // by OpId
  std::vector<Bytes> taken_;   // by device: allowance used so far
};

}  // namespace tidepool
