// Graphs: a stream's work is captured instead of run, and can then be run any number of times. Calls that
// CUDA forbids during a capture are refused and invalidate the capture, as in CUDA.
#include <algorithm>
#include <functional>

#include "failure.h"
#include "runtime.h"

namespace emulated_cuda {

cudaError_t spoil(CUstream_st& stream) {
  stream.capture->spoilt = true;
  return cudaErrorStreamCaptureUnsupported;
}

cudaError_t entry_error(const Lock& lock, cudaStream_t stream) {
  if (const cudaError_t error = entry_error(lock); error != cudaSuccess) return error;
  if (stream == nullptr || !stream->capture) return cudaSuccess;
  if (fires(runtime().faults.capture)) return spoil(*stream);
  return stream->capture->spoilt ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
}

cudaError_t unsafe_entry_error(const Lock& lock) {
  cudaError_t error = entry_error(lock);
  for (CUstream_st* stream : runtime().streams) {
    const Capture* const capture = stream->capture.get();
    if (capture == nullptr || capture->mode == cudaStreamCaptureModeRelaxed) continue;
    const bool mine = capture->thread == std::this_thread::get_id();
    if (mine || capture->mode == cudaStreamCaptureModeGlobal) error = spoil(*stream);
  }
  return error;
}

namespace {

bool knows(cudaGraphExec_t graph, cudaStream_t stream) {
  require_stream(stream);
  if (stream->capture) fail("a graph that is handed to a stream under capture: not emulated");
  return graph != nullptr && graph->device == stream->device;
}

// Takes device memory at the first upload or launch, whichever comes first.
cudaError_t bring(Runtime& r, CUgraphExec_st& graph) {
  if (graph.bytes > 0) return cudaSuccess;
  const std::size_t bytes = graph.nodes->size() * r.options.graph_node_bytes;
  if (bytes > free_bytes_of(r, graph.device)) return cudaErrorMemoryAllocation;
  take_device_bytes(r, graph.device, bytes);
  r.graph_bytes += bytes;
  graph.bytes = bytes;
  return cudaSuccess;
}

}  // namespace
}  // namespace emulated_cuda

using namespace emulated_cuda;

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  Lock lock(runtime().mutex);
  if (const cudaError_t error = entry_error(lock); error != cudaSuccess) return returned(error);
  require_stream(stream);
  if (stream->capture) return returned(cudaErrorIllegalState);
  stream->capture = std::make_unique<Capture>(Capture{.mode = mode, .thread = std::this_thread::get_id()});
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  Runtime& r = runtime();
  Lock lock(r.mutex);
  *graph = nullptr;
  require_stream(stream);
  if (!stream->capture) return returned(cudaErrorIllegalState);
  if (stream->capture->mode != cudaStreamCaptureModeRelaxed &&
      stream->capture->thread != std::this_thread::get_id())
    return returned(cudaErrorStreamCaptureWrongThread);
  const std::unique_ptr<Capture> capture = std::move(stream->capture);
  if (const cudaError_t error = entry_error(lock); error != cudaSuccess) return returned(error);
  if (capture->spoilt) return returned(cudaErrorStreamCaptureInvalidated);
  *graph = new CUgraph_st{.device = stream->device, .nodes = std::move(capture->nodes)};
  ++r.graphs;
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  if (nodes != nullptr) fail("cudaGraphGetNodes: only the number of nodes is emulated");
  *count = graph->nodes.size();
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags) {
  Runtime& r = runtime();
  Lock lock(r.mutex);
  *executable = nullptr;
  if (const cudaError_t error = unsafe_entry_error(lock); error != cudaSuccess) return returned(error);
  if (flags != 0) fail("cudaGraphInstantiate: flags are not emulated");
  if (fires(r.faults.instantiation)) return returned(cudaErrorMemoryAllocation);
  *executable =
      new CUgraphExec_st{.device = graph->device,
                         .nodes = std::make_shared<const std::vector<std::function<void()>>>(graph->nodes)};
  ++r.graphs;
  r.calls.push_back(
      {.kind = CallKind::graph_instantiate, .device = graph->device, .nodes = graph->nodes.size()});
  return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t graph, cudaStream_t stream) {
  Runtime& r = runtime();
  Lock lock(r.mutex);
  if (const cudaError_t error = entry_error(lock); error != cudaSuccess) return returned(error);
  return returned(knows(graph, stream) ? bring(r, *graph) : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  Runtime& r = runtime();
  Lock lock(r.mutex);
  if (const cudaError_t error = entry_error(lock); error != cudaSuccess) return returned(error);
  if (!knows(graph, stream)) return returned(cudaErrorInvalidResourceHandle);
  if (const cudaError_t error = bring(r, *graph); error != cudaSuccess) return returned(error);
  const auto nodes = graph->nodes;
  r.calls.push_back({.kind = CallKind::graph_launch,
                     .device = stream->device,
                     .stream = stream->number,
                     .nodes = nodes->size()});
  enqueue(
      lock, stream, [nodes] { std::ranges::for_each(*nodes, [](const auto& node) { node(); }); },
      static_cast<unsigned>(nodes->size()));
  return cudaSuccess;
}

// A running launch keeps the resources it needs.
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  Runtime& r = runtime();
  Lock lock(r.mutex);
  if (graph == nullptr) return returned(cudaErrorInvalidValue);
  r.device_bytes[graph->device] -= graph->bytes;
  r.graph_bytes -= graph->bytes;
  --r.graphs;
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  Lock lock(runtime().mutex);
  if (graph == nullptr) return returned(cudaErrorInvalidValue);
  --runtime().graphs;
  delete graph;
  return cudaSuccess;
}
