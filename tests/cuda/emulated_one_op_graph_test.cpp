// One op as a graph, with work that a test scripts; some of this work is forbidden in a capture.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "control.h"
#include "executor/cuda/op_graphs.h"
#include "executor/gpu_reserved.h"
#include "executor/repeated_ops.h"
#include "kernels/cuda/launch.h"

namespace tidepool::emulated_one_op_graph_test {

using emulated_cuda::Call;
using emulated_cuda::CallKind;

__global__ void add_kernel(u32* x, u32 amount) { *x += amount; }

// ScriptedWork runs a test's script as one layer's forward.
class ScriptedWork final : public StreamWork {
 public:
  using Script = std::function<Result<void>(cudaStream_t, u64 run)>;
  explicit ScriptedWork(Script script) : script_(std::move(script)) {}
  Result<void> enqueue(const Issue&, u32, cudaStream_t stream) override { return script_(stream, ++runs_); }
  Result<void> ended(const Issue&, u32, Nanos) override { return {}; }
  std::string describe(const Issue&) const override { return "scripted"; }

 private:
  const Script script_;
  u64 runs_ = 0;
};

class EmulatedOpGraph : public ::testing::Test {
 protected:
  EmulatedOpGraph() {
    emulated_cuda::reset();
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    EXPECT_EQ(cudaMalloc(&x_, sizeof *x_), cudaSuccess);
    *x_ = 0;
    graph_.blocks = {{.kind = BlockKind::layer}};
    Segment& body = plan_.segments[static_cast<u32>(SegmentKind::body)];
    body.kind = SegmentKind::body;
    body.ops = {{.kind = OpKind::forward, .lane = {0, LaneKind::compute}, .block = 0}};
  }
  ~EmulatedOpGraph() override {
    EXPECT_EQ(cudaFree(x_), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
  }
  void add(cudaStream_t stream) { cuda::launch(add_kernel, {}, stream, x_, 1u); }
  // RETURNS: x after `runs` runs, each of which took `took`.
  u32 after_runs(u64 runs, const ScriptedWork::Script& script, Nanos took = Nanos{1000}) {
    ScriptedWork work(script);
    OpGraphs graphs({.work = work, .plan = plan_, .graph = graph_, .allowance = gpu_graphs_max});
    emulated_cuda::clear_calls();
    for (u64 run = 1; run <= runs; ++run) {
      const Issue issue{.segment = &plan_.segment(SegmentKind::body), .sequence = run, .step = run};
      const Result<void> enqueued = enqueue_named(graphs, issue, 0, stream_);
      EXPECT_TRUE(enqueued) << enqueued.error().message;
      EXPECT_TRUE(graphs.ended(issue, 0, took));
    }
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    launched_ = std::ranges::count(emulated_cuda::calls(), CallKind::graph_launch, &Call::kind);
    return *x_;
  }

  Plan plan_;
  ModelGraph graph_;
  cudaStream_t stream_ = nullptr;
  u32* x_ = nullptr;
  i64 launched_ = 0;
};

TEST_F(EmulatedOpGraph, RunsOncePerLaunch) {
  const auto adds = [&](cudaStream_t stream, u64) { return add(stream), Result<void>(); };
  EXPECT_EQ(after_runs(6, adds), 6u);
  EXPECT_EQ(launched_, 5);
  EXPECT_EQ(after_runs(6, adds, short_op_max), 12u);
  EXPECT_EQ(launched_, 0) << "no longer than 0.2 ms is not short";
}

// In the capture's thread, so that no library takes memory beside the allowance.
TEST_F(EmulatedOpGraph, AnOpThatAllocatesUnderCaptureRunsPlainly) {
  EXPECT_EQ(after_runs(4,
                       [&](cudaStream_t stream, u64) {
                         void* scratch = nullptr;
                         cudaMalloc(&scratch, 16);
                         add(stream);
                         cudaFree(scratch);
                         return Result<void>();
                       }),
            4u);
  EXPECT_EQ(launched_, 0);
}

// Lanes' threads query their events all the time.
TEST_F(EmulatedOpGraph, OtherThreadsMayQueryEventsDuringACapture) {
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventBlockingSync), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, stream_), cudaSuccess);
  cudaError_t waited = cudaErrorUnknown;
  EXPECT_EQ(after_runs(4,
                       [&](cudaStream_t stream, u64) {
                         add(stream);
                         std::jthread([&] { waited = cudaEventSynchronize(event); }).join();
                         EXPECT_EQ(waited, cudaSuccess);
                         return Result<void>();
                       }),
            4u);
  EXPECT_EQ(launched_, 3);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
}

// The capture ends well without the refused launch, so its graph would do less work.
TEST_F(EmulatedOpGraph, ALaunchRefusedUnderCaptureRunsPlainly) {
  EXPECT_EQ(after_runs(4,
                       [&](cudaStream_t stream, u64 run) {
                         if (run == 2)
                           emulated_cuda::set_faults({.launch = 2, .launch_error = cudaErrorUnknown});
                         add(stream), add(stream);
                         return Result<void>();
                       }),
            8u);
  EXPECT_EQ(launched_, 0);
}

TEST_F(EmulatedOpGraph, ACallRefusedUnderCaptureIsRepeatedPlainly) {
  EXPECT_EQ(after_runs(4,
                       [&](cudaStream_t stream, u64 run) -> Result<void> {
                         add(stream);
                         if (run == 2) return Error{ErrorKind::io, "not under capture"};
                         return {};
                       }),
            4u);
  EXPECT_EQ(launched_, 0);
}

}  // namespace tidepool::emulated_one_op_graph_test
