// Graphs of the emulated runtime: what a capture records, and what it forbids.
#include <algorithm>
#include <thread>
#include <utility>

#include "kernels/cuda/launch.h"
#include "tests/cuda/cuda_fixture.h"

namespace tidepool::test::emulated_graphs_test {

using namespace cuda;
using emulated_cuda::CallKind;

__global__ void add_kernel(u32* x, u32 amount) { *x += amount; }
__global__ void never_launched_before_kernel(u32* x) { *x = 0; }

class EmulatedGraphs : public CudaTest {
 protected:
  EmulatedGraphs() {
    x_.set(0u);
    add(0);  // loads the kernel
    synchronize();
  }
  ~EmulatedGraphs() override {
    cudaGetLastError();
    if (executable_ != nullptr) {
      EXPECT_EQ(cudaGraphExecDestroy(executable_), cudaSuccess);
    }
    if (graph_ != nullptr) {
      EXPECT_EQ(cudaGraphDestroy(graph_), cudaSuccess);
    }
  }
  void add(u32 amount) { launch(add_kernel, {}, stream_, x_.as<u32>(), amount); }
  void begin(cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal) {
    ASSERT_EQ(cudaStreamBeginCapture(stream_, mode), cudaSuccess);
  }
  cudaError_t end() { return cudaStreamEndCapture(stream_, &graph_); }
  u32 value() {
    synchronize();
    return x_.value<u32>();
  }
  // Expects that a call which a capture forbids was refused and invalidated the capture.
  void expect_spoilt(cudaError_t refused) {
    EXPECT_EQ(refused, cudaErrorStreamCaptureUnsupported);
    EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(graph_, nullptr);
    cudaGetLastError();
    add(1);
    EXPECT_EQ(value(), 1u) << "the stream goes on";
    x_.set(0u);
  }

  const DeviceArray x_{4};
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

TEST_F(EmulatedGraphs, WorkIsCapturedWithItsArgumentsAndRunWhenLaunched) {
  emulated_cuda::clear_calls();
  begin();
  u32 amount = 3;
  add(amount);
  amount = 100;
  ASSERT_EQ(cudaMemsetAsync(x_.data() + 3, 1, 1, stream_), cudaSuccess);
  ASSERT_EQ(end(), cudaSuccess);
  EXPECT_EQ(value(), 0u) << "nothing has run yet";
  std::size_t nodes = 0;
  ASSERT_EQ(cudaGraphGetNodes(graph_, nullptr, &nodes), cudaSuccess);
  EXPECT_EQ(nodes, 2u);
  ASSERT_EQ(cudaGraphInstantiate(&executable_, graph_, 0), cudaSuccess);
  for (u32 i = 1; i < 4; ++i) {
    ASSERT_EQ(cudaGraphLaunch(executable_, stream_), cudaSuccess);
    EXPECT_EQ(value(), 3 * i + (1u << 24));
  }
  const auto calls = emulated_cuda::calls();
  ASSERT_GE(calls.size(), 5u);
  EXPECT_TRUE(calls[0].kind == CallKind::launch && calls[0].captured);
  EXPECT_TRUE(calls[1].kind == CallKind::set && calls[1].captured);
  EXPECT_EQ(std::ranges::count(calls, CallKind::graph_launch, &emulated_cuda::Call::kind), 3);
}

TEST_F(EmulatedGraphs, InstantiatedGraphsTakeDeviceMemory) {
  const emulated_cuda::Live before = emulated_cuda::live();
  begin();
  add(1), add(1);
  ASSERT_EQ(end(), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&executable_, graph_, 0), cudaSuccess);
  EXPECT_EQ(emulated_cuda::live().graphs, 2u);
  EXPECT_EQ(emulated_cuda::live().device_bytes, before.device_bytes);
  ASSERT_EQ(cudaGraphUpload(executable_, stream_), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(executable_, stream_), cudaSuccess);
  EXPECT_EQ(emulated_cuda::live().device_bytes, before.device_bytes + 20 * kib);
  EXPECT_EQ(value(), 2u);
  ASSERT_EQ(cudaGraphExecDestroy(std::exchange(executable_, nullptr)), cudaSuccess);
  ASSERT_EQ(cudaGraphDestroy(std::exchange(graph_, nullptr)), cudaSuccess);
  EXPECT_EQ(emulated_cuda::live().device_bytes, before.device_bytes);
  EXPECT_EQ(emulated_cuda::live().graphs, 0u);
}

TEST_F(EmulatedGraphs, NothingWaitsForAStreamThatCaptures) {
  const auto refuses = [&](auto call) {
    begin();
    add(1);
    expect_spoilt(call());
  };
  refuses([&] { return cudaStreamSynchronize(stream_); });
  refuses([&] { return cudaStreamQuery(stream_); });
  refuses([&] { return cudaDeviceSynchronize(); });
  refuses(
      [&] { return launch(never_launched_before_kernel, {}, stream_, x_.as<u32>()), cudaGetLastError(); });
}

TEST_F(EmulatedGraphs, EventsOfACaptureCannotBeAsked) {
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDefault), cudaSuccess);
  begin();
  add(1);
  EXPECT_EQ(cudaEventRecord(event, stream_), cudaSuccess);
  ASSERT_EQ(end(), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorCapturedEvent);
  EXPECT_EQ(cudaEventSynchronize(event), cudaErrorCapturedEvent);
  ASSERT_EQ(cudaEventRecord(event, stream_), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  cudaGraph_t second = nullptr;
  begin();
  EXPECT_EQ(cudaStreamWaitEvent(stream_, event), cudaErrorStreamCaptureIsolation);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &second), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
}

// Calls that a capture cannot record are forbidden in the capture's thread if it is thread-local, in all
// threads if it is global, and nowhere if it is relaxed.
TEST_F(EmulatedGraphs, CaptureModesDecideWhichThreadsMayAllocate) {
  const auto take = [] {
    void* p = nullptr;
    const cudaError_t error = cudaMalloc(&p, 16);
    if (error == cudaSuccess) cudaFree(p);
    return error;
  };
  const auto elsewhere = [&] {
    cudaError_t error = cudaSuccess;
    std::jthread([&] { error = take(); }).join();
    return error;
  };
  begin(cudaStreamCaptureModeThreadLocal);
  EXPECT_EQ(elsewhere(), cudaSuccess);
  expect_spoilt(take());
  begin(cudaStreamCaptureModeGlobal);
  expect_spoilt(elsewhere());
  begin(cudaStreamCaptureModeRelaxed);
  EXPECT_EQ(take(), cudaSuccess);
  EXPECT_EQ(end(), cudaSuccess);
}

TEST_F(EmulatedGraphs, CapturesEndWhereTheyBegan) {
  EXPECT_EQ(end(), cudaErrorIllegalState);
  begin();
  EXPECT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), cudaErrorIllegalState);
  cudaError_t elsewhere = cudaSuccess;
  std::jthread([&] { elsewhere = end(); }).join();
  EXPECT_EQ(elsewhere, cudaErrorStreamCaptureWrongThread);
  EXPECT_EQ(end(), cudaSuccess);
}

TEST_F(EmulatedGraphs, CapturesAndInstantiationsFailOnDemand) {
  emulated_cuda::set_faults({.capture = 2, .instantiation = 1});
  begin();
  add(1), add(1), add(1);
  EXPECT_EQ(cudaGetLastError(), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated);
  begin();
  add(1);
  ASSERT_EQ(end(), cudaSuccess);
  EXPECT_EQ(cudaGraphInstantiate(&executable_, graph_, 0), cudaErrorMemoryAllocation);
  EXPECT_EQ(executable_, nullptr);
}

// On the clock that a test sets, a graph takes as long as its nodes, and waits take no time.
using EmulatedClock = CudaTest;
TEST_F(EmulatedClock, EventsReadAClockThatCountsWork) {
  ASSERT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
  emulated_cuda::reset({.operation_us = 10});
  make_stream();
  cudaEvent_t first = nullptr, last = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&first, cudaEventDefault), cudaSuccess);
  ASSERT_EQ(cudaEventCreateWithFlags(&last, cudaEventDefault), cudaSuccess);
  const DeviceArray x(4);
  const auto milliseconds = [&](auto work) {
    cudaEventRecord(first, stream_);
    work();
    cudaStreamWaitEvent(stream_, first);
    cudaEventRecord(last, stream_);
    synchronize();
    float ms = -1;
    EXPECT_EQ(cudaEventElapsedTime(&ms, first, last), cudaSuccess);
    return ms;
  };
  const auto launch_twice = [&] {
    for (u32 i = 0; i < 2; ++i) launch(add_kernel, {}, stream_, x.as<u32>(), 1u);
  };
  EXPECT_NEAR(milliseconds(launch_twice), 0.02, 1e-6);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  launch_twice();
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  EXPECT_NEAR(milliseconds([&] { cudaGraphLaunch(executable, stream_); }), 0.02, 1e-6);
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(first), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(last), cudaSuccess);
}

}  // namespace tidepool::test::emulated_graphs_test
