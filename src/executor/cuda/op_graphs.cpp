#include "executor/cuda/op_graphs.h"

#include "executor/repeated_ops.h"

namespace tidepool {
namespace {

// RETURNS: device memory per graph node. Drivers since CUDA 12.4 take about 10 KiB, older drivers three to
// four times as much, and half as much again because they allocate in pieces. Counted by nodes, not by the
// card's free memory: other programs use the card too, and libraries load kernels meanwhile.
Bytes node_bytes() {
  constexpr int small_nodes_since = 12040;
  int driver = 0;
  cudaDriverGetVersion(&driver);
  return driver >= small_nodes_since ? Bytes{16 * kib} : Bytes{64 * kib};
}

}  // namespace

OpGraphs::OpGraphs(const OpGraphsParts& parts)
    : parts_(parts),
      node_bytes_(node_bytes()),
      body_(parts.plan.segment(SegmentKind::body).ops.size()),
      taken_(parts.plan.devices) {}

Result<void> OpGraphs::enqueue(const Issue& issue, u32 slot, cudaStream_t stream) {
  OpGraph* const graph = graph_of(issue);
  if (graph == nullptr) return parts_.work.enqueue(issue, slot, stream);
  if (!graph->tried && graph->is_short.load(std::memory_order_relaxed)) {
    graph->tried = true;
    graph->executable = make(issue, slot, stream);
  }
  if (!graph->executable) return parts_.work.enqueue(issue, slot, stream);
  cudaGraphLaunch(graph->executable.get(), stream);
  return {};
}

Result<void> OpGraphs::ended(const Issue& issue, u32 slot, Nanos took) {
  if (OpGraph* const graph = graph_of(issue);
      graph != nullptr && took.value > 0 && took < short_op_max)  // 0: unknown
    graph->is_short.store(true, std::memory_order_relaxed);
  return parts_.work.ended(issue, slot, took);
}

OpGraphs::OpGraph* OpGraphs::graph_of(const Issue& issue) {
  const Op& op = issue.get();
  if (issue.segment->kind != SegmentKind::body) return nullptr;  // other segments run seldom
  if (op.kind != OpKind::forward && op.kind != OpKind::backward) return nullptr;
  if (!launches_repeat(parts_.graph, parts_.graph.blocks[op.block])) return nullptr;
  return &body_[index(issue.op)];
}

// A refusal here is not an error of the op: it is dropped, and the op runs without a graph. An error of the
// device persists, and the launches without a graph report it too.
OpGraphs::Owned<cudaGraphExec_t> OpGraphs::make(const Issue& issue, u32 slot, cudaStream_t stream) {
  const u32 device = issue.get().lane.device;
  if (!has_room(device, 1)) return {};  // no room: skip the capture
  Owned<cudaGraphExec_t> made;
  if (const Owned<cudaGraph_t> graph = capture(issue, slot, stream))
    made = instantiate(graph.get(), device, stream);
  cudaGetLastError();
  return made;
}

// Thread-local mode: meanwhile lanes' threads query their events, which a global capture would forbid. A
// library that allocates in this thread, outside the allowance, is refused; relaxed mode would allow that.
OpGraphs::Owned<cudaGraph_t> OpGraphs::capture(const Issue& issue, u32 slot, cudaStream_t stream) {
  if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) != cudaSuccess) return {};
  const Result<void> enqueued = parts_.work.enqueue(issue, slot, stream);
  const cudaError_t refused = cudaGetLastError();  // a launch may fail while the capture still ends well
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(stream, &graph);  // null if the capture saw a forbidden call
  Owned<cudaGraph_t> captured(graph);
  if (!enqueued || refused != cudaSuccess) captured.reset();
  return captured;
}

// Uploads now, because drivers take the rest of the graph's memory at upload, or else at the first launch. A
// graph that fails after it was counted stays counted: a driver may keep the memory.
OpGraphs::Owned<cudaGraphExec_t> OpGraphs::instantiate(cudaGraph_t graph, u32 device, cudaStream_t stream) {
  std::size_t nodes = 0;
  if (cudaGraphGetNodes(graph, nullptr, &nodes) != cudaSuccess || !has_room(device, nodes)) return {};
  taken_[device] += node_bytes_ * nodes;
  cudaGraphExec_t executable = nullptr;
  const bool ready = cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess &&
                     cudaGraphUpload(executable, stream) == cudaSuccess;
  Owned<cudaGraphExec_t> owner(executable);
  if (!ready) owner.reset();
  return owner;
}

bool OpGraphs::has_room(u32 device, u64 nodes) const {
  return taken_[device] + node_bytes_ * nodes <= parts_.allowance;
}

}  // namespace tidepool
