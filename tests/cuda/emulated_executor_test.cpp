// Executor tests that need the emulation: which stream waits for which, and how faults are handled.
#include <gmock/gmock.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <cstdlib>

#include "executor/cuda/cuda_devices.h"
#include "fit/executor_choice.h"
#include "fit/job.h"
#include "probe/step/predict.h"
#include "session/session.h"
#include "tests/cuda/recorded_run.h"
#include "tests/support/asked_plan.h"
#include "tests/support/segments.h"

namespace tidepool::emulated_executor_test {

using emulated_cuda::Call;
using emulated_cuda::CallKind;
using test::gpu_config;
using test::next_op;
using test::NoData;
using test::Numbers;
using test::OpCalls;
using test::Recorder;
using test::train_numbers;
using test::TrainDir;
using ::testing::HasSubstr;

class EmulatedExecutor : public ::testing::Test {
 protected:
  EmulatedExecutor() {
    emulated_cuda::reset();
    register_cuda();
  }
  const TrainDir dir_;
};

// ---- from the plan to streams

TEST_F(EmulatedExecutor, StreamsWaitForTheEdgesOfThePlan) {
  const Config config = gpu_config(dir_);
  const Job job = make_job(config).value();
  NoData source;
  const auto session = Session::create(job, make_plan(job.graph, job.options).value(), source).value();
  Recorder recorder(session->executor());
  const auto engine = Engine::create(session->plan(), recorder, {});
  test::SegmentList list(test::training_runs(2, true));
  EngineObserver nobody;
  emulated_cuda::clear_calls();
  ASSERT_TRUE(engine->run(list, nobody));

  // Each stream's calls in order; the executor made its streams in the order of lanes.
  std::array<std::vector<Call>, 3> of_stream;
  std::array<u64, 3> at{};
  std::vector<unsigned> streams;
  for (const Call& call : emulated_cuda::calls())
    if (call.stream != 0) streams.push_back(call.stream);
  const unsigned first = *std::ranges::min_element(streams);
  for (const Call& call : emulated_cuda::calls())
    if (call.stream != 0) of_stream.at(call.stream - first).push_back(call);

  std::map<u64, unsigned> ends;  // by sequence
  u64 waits = 0;
  for (const auto& [issue, in_flight] : recorder.submissions) {
    const Op& op = issue.get();
    if (op.lane.device == host_device) continue;
    const u32 lane = static_cast<u32>(op.lane.kind);
    const OpCalls calls = next_op(of_stream[lane], at[lane]);
    std::vector<unsigned> expected;
    for (const u64 sequence : in_flight) expected.push_back(ends.at(sequence));
    EXPECT_EQ(calls.waits, expected) << issue.sequence;
    waits += expected.size();
    ends[issue.sequence] = calls.end;
    if (op.kind != OpKind::copy) continue;
    const auto operands = issue.segment->operands_of(op);
    ASSERT_EQ(calls.work.size(), 1u);
    EXPECT_EQ(calls.work[0].kind, CallKind::copy);
    EXPECT_EQ(calls.work[0].bytes, operands[0].frame.bytes.value);
    const Frame& of_host = operands[op.lane.kind == LaneKind::h2d ? 0 : 1].frame;
    EXPECT_EQ(op.lane.kind == LaneKind::h2d ? calls.work[0].from : calls.work[0].to,
              session->host_memory().data() + of_host.offset);
  }
  for (u32 lane = 0; lane < 3; ++lane) EXPECT_EQ(at[lane], of_stream[lane].size()) << lane;
  EXPECT_GT(waits, 20u);
}

TEST_F(EmulatedExecutor, StepsAllocateNothing) {
  const Config config = gpu_config(dir_);
  const Job job = make_job(config).value();
  NoData source;
  const auto session = Session::create(job, make_plan(job.graph, job.options).value(), source).value();
  const auto engine = Engine::create(session->plan(), session->executor(), {});
  const emulated_cuda::Live before = emulated_cuda::live();
  EXPECT_LE(before.device_bytes, config.memory.budgets.device.value);
  test::SegmentList list(test::training_runs(2, true));
  EngineObserver nobody;
  ASSERT_TRUE(engine->run(list, nobody));
  EXPECT_EQ(emulated_cuda::live(), before);
}

// ---- machine.executor=auto

TEST_F(EmulatedExecutor, AutoPicksAGpuIfThereIsOne) {
  Config config = gpu_config(dir_);
  config.machine.executor = "auto";
  EXPECT_THAT(resolve_executor(config).value(), HasSubstr("training on the first GPU"));
  EXPECT_EQ(config.machine.executor, "cuda");
  EXPECT_EQ(resolve_executor(config).value(), "") << "what a person named stays";
  emulated_cuda::reset({.devices = 0});
  config.machine.executor = "auto";
  EXPECT_THAT(resolve_executor(config).value(), HasSubstr("training on the cores; "));
  EXPECT_EQ(config.machine.executor, "cpu");
}

// ---- profilers

TEST_F(EmulatedExecutor, OpsAreNamedForAProfiler) {
  const Config config = gpu_config(dir_);
  const Job job = make_job(config).value();
  NoData source;
  const auto session = Session::create(job, make_plan(job.graph, job.options).value(), source).value();
  const Segment& body = session->plan().segment(SegmentKind::body);
  const auto backward = std::ranges::find(body.ops, OpKind::backward, &Op::kind);
  const OpId op{static_cast<u32>(backward - body.ops.begin())};
  emulated_cuda::nvtx_ranges() = {};
  ASSERT_TRUE(session->timed().run_at_rest(body, op, 1));
  EXPECT_TRUE(emulated_cuda::nvtx_ranges().names.empty());
  ::setenv("NVTX_INJECTION64_PATH", "a profiler", 1);
  const auto run = session->timed().run_at_rest(body, op, 1);
  ::unsetenv("NVTX_INJECTION64_PATH");
  ASSERT_TRUE(run);
  ASSERT_EQ(emulated_cuda::nvtx_ranges().names.size(), 1u);
  EXPECT_THAT(emulated_cuda::nvtx_ranges().names[0], HasSubstr("backward"));
  EXPECT_EQ(emulated_cuda::nvtx_ranges().open, 0);
}

// ---- faults

class EmulatedFault : public EmulatedExecutor {
 protected:
  void expect_error(const Config& config, ErrorKind kind, std::initializer_list<const char*> words) {
    test::expect_run_error(config, kind, words);
  }
};

TEST_F(EmulatedFault, AMissingGpuIsReported) {
  emulated_cuda::reset({.devices = 0});
  expect_error(gpu_config(dir_), ErrorKind::usage, {"no GPU", "machine.executor=cpu"});
}

TEST_F(EmulatedFault, AMissingDriverIsReported) {
  emulated_cuda::reset({.driver_version = 0});
  emulated_cuda::set_faults({.every_call = cudaErrorInsufficientDriver});
  expect_error(gpu_config(dir_), ErrorKind::usage, {"no NVIDIA driver is loaded", "machine.executor=cpu"});
}

TEST_F(EmulatedFault, ADriverThatIsTooOldIsReported) {
  emulated_cuda::reset({.driver_version = 11040});
  emulated_cuda::set_faults({.every_call = cudaErrorInsufficientDriver});
  expect_error(gpu_config(dir_), ErrorKind::usage, {"the driver knows CUDA 11.4", "update the driver"});
}

TEST_F(EmulatedFault, AGpuNumberThatDoesNotExistIsReported) {
  Config config = gpu_config(dir_);
  config.machine.executor = "cuda:3";
  expect_error(config, ErrorKind::usage, {"cuda:3", "1 GPU", "CUDA_VISIBLE_DEVICES"});
}

TEST_F(EmulatedFault, AGpuThatIsTooOldIsReported) {
  emulated_cuda::reset({.major = 6, .minor = 1});
  expect_error(gpu_config(dir_), ErrorKind::usage, {"6.1", "7.0"});
}

TEST_F(EmulatedFault, MemoryHeldByOtherProcessesIsReported) {
  emulated_cuda::reset({.device_memory_bytes = 100 * mib, .taken_by_others_bytes = 50 * mib});
  expect_error(gpu_config(dir_), ErrorKind::does_not_fit,
               {"cuda:0", "0.05 GiB free of 0.10 GiB", "memory.device"});
}

TEST_F(EmulatedFault, ARefusedAllocationIsReported) {
  emulated_cuda::set_faults({.device_allocation = 1});
  expect_error(gpu_config(dir_), ErrorKind::does_not_fit, {"cuda:0", "cudaErrorMemoryAllocation"});
}

TEST_F(EmulatedFault, RefusedPinningIsReported) {
  emulated_cuda::set_faults({.host_allocation = 1});
  expect_error(gpu_config(dir_), ErrorKind::does_not_fit, {"pinning"});
}

TEST_F(EmulatedFault, AFailedStartOfCublasIsReported) {
  emulated_cuda::set_faults({.device_allocation = 2});
  expect_error(gpu_config(dir_), ErrorKind::internal, {"cuBLASLt cannot start", "Free device memory"});
}

// The error occurs while blocks are timed, before the first step.
TEST_F(EmulatedFault, AProductWithoutAnAlgorithmIsReported) {
  emulated_cuda::set_faults({.algorithm = 1});
  expect_error(gpu_config(dir_), ErrorKind::io,
               {"forward", " on device 0 compute", "MiB", "cuBLASLt refuses", "CUBLAS_STATUS_NOT_SUPPORTED"});
}

// Every operation at rest that can fail names its place and its bytes.
class EmulatedFaultAtRest : public EmulatedFault {
 protected:
  void open(HomePolicy home) {
    Config config = gpu_config(dir_);
    config.memory.home = home;
    const Job job = make_job(config).value();
    session_ = Session::create(job, make_plan(job.graph, job.options).value(), source_).value();
  }
  void expect(const Result<void>& result, std::initializer_list<const char*> words) {
    emulated_cuda::clear_failure();
    emulated_cuda::set_faults({});
    cudaGetLastError();
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind, ErrorKind::io);
    for (const char* word : words) EXPECT_THAT(result.error().message, HasSubstr(word));
  }
  // Breaks the next operation of a stream.
  static void break_next(cudaError_t error) {
    emulated_cuda::set_faults({.operation = 1, .operation_error = error});
  }
  OpId first(OpKind kind) const {
    const auto& ops = session_->plan().segment(SegmentKind::body).ops;
    const auto op = std::ranges::find(ops, kind, &Op::kind);
    return OpId{static_cast<u32>(op - ops.begin())};
  }

  NoData source_;
  std::unique_ptr<Session> session_;
};

TEST_F(EmulatedFaultAtRest, AFailedCopyIsReported) {
  open(HomePolicy::host);
  Device& device = session_->devices().at(0);
  const auto host = device.host_memory(), memory = device.memory();
  const auto up = [&] { device.copy_h2d(memory.subspan(0, mib), host.subspan(0, mib)); };
  const auto down = [&] { device.copy_d2h(host.subspan(mib, mib / 2), memory.subspan(mib, mib / 2)); };
  break_next(cudaErrorECCUncorrectable);
  up();
  expect(device.wait(), {"cuda:0 h2d", "1.00 MiB", "cudaErrorECCUncorrectable", "resume"});
  break_next(cudaErrorIllegalAddress);
  down();
  expect(device.wait(), {"cuda:0 d2h", "0.50 MiB", "cudaErrorIllegalAddress"});
  up();
  down();
  EXPECT_TRUE(device.wait());
}

TEST_F(EmulatedFaultAtRest, AFailureOfATimedOpIsReported) {
  open(HomePolicy::host);
  const Segment& body = session_->plan().segment(SegmentKind::body);
  for (const OpKind kind : {OpKind::forward, OpKind::backward, OpKind::gradient}) {
    SCOPED_TRACE(name(kind));
    break_next(cudaErrorLaunchFailure);
    expect(session_->timed().run_at_rest(body, first(kind), 1),
           {name(kind).data(), "on device 0 compute", "MiB", "cudaErrorLaunchFailure"});
  }
  emulated_cuda::set_faults({.product = 1});
  expect(session_->timed().run_at_rest(body, first(OpKind::backward), 1),
         {"backward", "on device 0 compute", "MiB", "CUBLAS_STATUS_INTERNAL_ERROR"});
  EXPECT_TRUE(session_->timed().run_at_rest(body, first(OpKind::backward), 1));
}

// Operands vary, because a GPU that multiplies constants draws less power and runs faster than a GPU that
// trains.
TEST_F(EmulatedFaultAtRest, PredictionTimesProductsOfRandomNumbers) {
  open(HomePolicy::host);
  const u64 before = emulated_cuda::products_of_constants();
  const auto prediction = predict_step(*session_);
  ASSERT_TRUE(prediction) << prediction.error().message;
  EXPECT_EQ(emulated_cuda::products_of_constants(), before);
}

TEST_F(EmulatedFaultAtRest, PredictionLetsAGpuUpdateWithoutTheCores) {
  open(HomePolicy::device);
  const auto prediction = predict_step(*session_);
  ASSERT_TRUE(prediction) << prediction.error().message;
  Machine machine = prediction->machine;
  const auto seconds = [&] {
    return forecast(session_->plan(), session_->graph(), machine, {.seconds = prediction->seconds})
        .value()
        .step_seconds;
  };
  const double before = seconds();
  machine.host.update_bytes_per_s /= 1e6;
  EXPECT_EQ(seconds(), before);
}

TEST_F(EmulatedFaultAtRest, AFailureOfATimedKernelIsReported) {
  open(HomePolicy::host);
  Kernels& kernels = session_->devices().at(0).kernels();
  float* const memory = reinterpret_cast<float*>(session_->devices().at(0).memory().data());
  break_next(cudaErrorECCUncorrectable);
  kernels.zero(memory, 64);
  expect(kernels.finish(), {"kernels", "cudaErrorECCUncorrectable"});
  const Values values{reinterpret_cast<std::byte*>(memory), Precision::bf16};
  kernels.zero(memory, 64 * 64);
  emulated_cuda::set_faults({.product = 1});
  kernels.matmul({.m = 16, .n = 16, .k = 16, .x = values, .weight = values.at(256), .y = values.at(512)});
  expect(kernels.finish(), {"16 x 16 x 16", "CUBLAS_STATUS_INTERNAL_ERROR"});
  EXPECT_TRUE(kernels.finish());
}

TEST_F(EmulatedFaultAtRest, AFailedCopyOfAHomeIsReported) {
  open(HomePolicy::device);
  const auto& homes = session_->plan().homes;
  const auto home = std::ranges::find(homes, Tier::device, [](const Frame& f) { return f.tier; });
  ASSERT_NE(home, homes.end());
  const ChunkId chunk{static_cast<u32>(home - homes.begin())};
  std::vector<std::byte> content(home->bytes.value);
  break_next(cudaErrorIllegalAddress);
  expect(session_->homes().write_home(chunk, content), {"writing", "device 0 h2d", "MiB"});
  break_next(cudaErrorIllegalAddress);
  expect(session_->homes().read_home(chunk, content), {"reading", "device 0 d2h", "MiB"});
  EXPECT_TRUE(session_->homes().write_home(chunk, content));
}

// A device reports its failure late, to any lane: the failed op must be among those named.
TEST_F(EmulatedFault, NamesTheOpThatFailed) {
  Config config = gpu_config(dir_);
  config.train.max_steps = 4;
  config.output.save_steps = 1;
  ::setenv("NVTX_INJECTION64_PATH", "/nonexistent", 1);
  u32 named = 0;
  for (const int operation : {3, 20, 41, 77, 120, 160}) {
    config.output.dir = dir_ / std::to_string(operation);
    emulated_cuda::reset({.seed = static_cast<u64>(operation), .jitter_us_max = 200});
    const auto report =
        test::run_into_faults(config, {.operation = operation, .operation_error = cudaErrorIllegalAddress});
    emulated_cuda::clear_failure();
    ASSERT_FALSE(report);
    const std::string range = emulated_cuda::range_of_failure();  // empty: a wait or a mark between ops
    EXPECT_THAT(report.error().message, HasSubstr(range));
    named += range.empty() ? 0 : 1;
  }
  ::unsetenv("NVTX_INJECTION64_PATH");
  EXPECT_GE(named, 2u);
}

// A fault at some op after the second checkpoint, however long measuring took before: the op is named, and a
// resume from the last checkpoint gives the numbers of an undisturbed run.
TEST_F(EmulatedFault, AFaultDuringTrainingEndsTheRun) {
  Config config = gpu_config(dir_);
  config.train.max_steps = 16;
  config.output.save_steps = 1;
  const Numbers undisturbed = train_numbers(config);
  const std::pair<emulated_cuda::Faults, const char*> cases[] = {
      {{.operation = 1, .operation_error = cudaErrorIllegalAddress}, "cudaErrorIllegalAddress"},
      {{.operation = 7, .operation_error = cudaErrorECCUncorrectable}, "cudaErrorECCUncorrectable"},
      {{.operation = 40, .operation_error = cudaErrorLaunchFailure}, "cudaErrorLaunchFailure"},
      {{.product = 5}, "CUBLAS_STATUS_INTERNAL_ERROR"}};
  for (const auto& [faults, words] : cases) {
    SCOPED_TRACE(words);
    config.output.dir = dir_ / words;
    emulated_cuda::reset();
    const auto report = test::run_into_faults(config, faults);
    emulated_cuda::clear_failure();
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().kind, ErrorKind::io);
    for (const char* word : {words, "step ", " on device 0 "})
      EXPECT_THAT(report.error().message, HasSubstr(word));
    emulated_cuda::reset();
    const auto again = test::run(config, {.resume = "auto"});
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_GE(again->resumed_from_step, 1u);
    EXPECT_EQ(test::numbers_of(*again), undisturbed);
  }
}

}  // namespace tidepool::emulated_executor_test
