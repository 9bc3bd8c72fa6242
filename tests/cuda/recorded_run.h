// Records the calls of runs on emulated GPUs, and runs that meet faults.
#pragma once

#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "engine/engine.h"
#include "executor/shared/step_source.h"
#include "tests/support/gpu_config.h"

namespace tidepool::test {

using emulated_cuda::Call;
using emulated_cuda::CallKind;

inline Config gpu_config(const TrainDir& dir) {
  Config c = gpu_config(dir, Precision::fp32);
  c.model.attention.heads = 1;
  c.train.max_steps = 4;
  c.memory.home = HomePolicy::host;
  return c;
}

class NoData final : public StepSource {
 public:
  Result<void> load_batch(const BatchRequest&, const BatchArrays& batch) override {
    const std::span<i32> tokens = batch.tokens, targets = batch.targets, starts = batch.starts;
    std::ranges::fill(tokens, 1);
    std::ranges::fill(targets, 2);
    return {};
  }
  StepSettings settings(u64) const override { return {}; }
};

// Recorder passes everything on and records submissions.
class Recorder final : public Executor {
 public:
  struct Submission {
    Issue issue;
    std::vector<u64> in_flight;
  };
  explicit Recorder(Executor& executor) : executor_(executor) {}

  u32 slots_free(LaneId lane) const override { return executor_.slots_free(lane); }
  void submit(const Issue& issue, std::span<const u64> in_flight) override {
    submissions.push_back({issue, {in_flight.begin(), in_flight.end()}});
    executor_.submit(issue, in_flight);
  }
  std::span<const Completion> wait() override { return executor_.wait(); }
  Nanos now() const override { return executor_.now(); }

  std::vector<Submission> submissions;

 private:
  Executor& executor_;
};

// Calls of one op: waits, the begin, kernels and copies, the end.
struct OpCalls {
  std::vector<unsigned> waits;
  std::vector<Call> work;
  unsigned end = 0;
};
inline OpCalls next_op(const std::vector<Call>& calls, u64& at) {
  OpCalls op;
  for (; calls[at].kind == CallKind::stream_wait_event; ++at) op.waits.push_back(calls[at].event);
  EXPECT_EQ(calls[at].kind, CallKind::event_record);
  for (++at; calls[at].kind != CallKind::event_record; ++at) op.work.push_back(calls[at]);
  op.end = calls[at++].event;
  return op;
}

inline void expect_run_error(const Config& config, ErrorKind kind, std::initializer_list<const char*> words) {
  const auto report = run(config);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().kind, kind) << report.error().message;
  for (const char* word : words) EXPECT_THAT(report.error().message, ::testing::HasSubstr(word));
}

// Faults count from the second checkpoint on, however long measuring took before.
// REQUIRES: save_steps = 1.
inline Result<RunReport> run_into_faults(const Config& config, const emulated_cuda::Faults& faults) {
  std::jthread breaker([&](const std::stop_token& stop) {
    while (!stop.stop_requested() && !std::filesystem::exists(config.output.dir + "/checkpoint-2"))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    emulated_cuda::set_faults(faults);
  });
  Result<RunReport> report = run(config);
  breaker.request_stop();
  breaker.join();
  emulated_cuda::set_faults({});
  return report;
}

}  // namespace tidepool::test
