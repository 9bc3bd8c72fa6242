// Tests of several GPUs that need the emulation: waits of streams across devices, a missing NCCL, and faults
// in the middle of an exchange.
#include <algorithm>
#include <map>

#include "executor/cuda/cuda_devices.h"
#include "fit/job.h"
#include "session/session.h"
#include "tests/cuda/recorded_run.h"
#include "tests/support/asked_plan.h"
#include "tests/support/segments.h"

namespace tidepool::emulated_several_gpus_test {

using emulated_cuda::Call;
using emulated_cuda::CallKind;
using test::expect_run_error;
using test::Numbers;
using test::train_numbers;
using test::TrainDir;
using ::testing::HasSubstr;

constexpr u32 devices = 3;

class EmulatedSeveralGpus : public ::testing::Test {
 protected:
  EmulatedSeveralGpus() {
    test::change_timing(0, devices);
    register_cuda();
    config_ = test::gpu_config(dir_);
    config_.machine.executor = test::first_gpus(devices);
    config_.train.gradient_accumulation_steps = 1;
  }

  const TrainDir dir_;
  Config config_;
};

// ---- from the plan to streams

// An op on the streams of all devices: the first stream waits for the op's dependencies, the others wait for
// its begin; at the end the first waits for the others.
struct ExchangeCalls {
  std::vector<unsigned> waits;
  u64 received = 0;  // bytes that were sent to a device
  unsigned end = 0;
};

class StreamCalls {
 public:
  // Streams are numbered in order of creation.
  explicit StreamCalls(const std::vector<Call>& calls) {
    unsigned first = ~0u;
    for (const Call& call : calls)
      if (call.stream != 0) first = std::min(first, call.stream);
    for (const Call& call : calls)
      if (call.stream != 0 && call.kind != CallKind::stream_synchronize)
        of_stream_.at(call.stream - first).push_back(call);
  }
  test::OpCalls next(u32 stream) { return test::next_op(of_stream_.at(stream), at_.at(stream)); }
  ExchangeCalls next_exchange(u32 first) {
    ExchangeCalls out;
    out.waits = take(first, CallKind::stream_wait_event);
    const unsigned begin = take(first, CallKind::event_record).at(0);
    std::vector<unsigned> ends;
    for (u32 d = 0; d < devices; ++d) {
      if (d > 0) {
        EXPECT_EQ(take(first + d, CallKind::stream_wait_event), std::vector{begin});
      }
      for (auto& calls = of_stream_.at(first + d); is_work(calls.at(at_[first + d])); ++at_[first + d])
        out.received += received(calls[at_[first + d]]);
      if (d > 0) ends.push_back(take(first + d, CallKind::event_record).at(0));
    }
    EXPECT_EQ(take(first, CallKind::stream_wait_event), ends);
    out.end = take(first, CallKind::event_record).at(0);
    return out;
  }
  bool all_taken() const {
    for (u32 s = 0; s < of_stream_.size(); ++s)
      if (at_[s] != of_stream_[s].size()) return false;
    return true;
  }

 private:
  static bool is_work(const Call& c) {
    return c.kind != CallKind::event_record && c.kind != CallKind::stream_wait_event;
  }
  static u64 received(const Call& c) { return c.kind == CallKind::receive ? c.bytes : 0; }
  // RETURNS: events of the following calls of that kind; for records, one event.
  std::vector<unsigned> take(u32 stream, CallKind kind) {
    std::vector<unsigned> events;
    auto& at = at_.at(stream);
    while (at < of_stream_[stream].size() && of_stream_[stream][at].kind == kind) {
      events.push_back(of_stream_[stream][at++].event);
      if (kind == CallKind::event_record) break;
    }
    return events;
  }

  // three streams per device, then one comm stream per device
  std::array<std::vector<Call>, 4 * devices> of_stream_;
  std::array<u64, 4 * devices> at_{};
};

TEST_F(EmulatedSeveralGpus, StreamsWaitAcrossDevicesForTheEdgesOfThePlan) {
  const Job job = make_job(config_).value();
  test::NoData source;
  const auto session = Session::create(job, make_plan(job.graph, job.options).value(), source).value();
  test::Recorder recorder(session->executor());
  const auto engine = Engine::create(session->plan(), recorder, {});
  test::SegmentList list(test::training_runs(2, true));
  EngineObserver nobody;
  emulated_cuda::clear_calls();
  const emulated_cuda::Live before = emulated_cuda::live();
  ASSERT_TRUE(engine->run(list, nobody));
  EXPECT_EQ(emulated_cuda::live(), before) << "steps take no memory";

  StreamCalls streams(emulated_cuda::calls());
  std::map<u64, std::pair<unsigned, u32>> ends;  // by sequence: the event, and the op's device
  u64 across = 0, exchanges = 0;
  for (const auto& [issue, in_flight] : recorder.submissions) {
    const Op& op = issue.get();
    const bool comm = op.lane.kind == LaneKind::comm;
    if (op.lane.device == host_device && !comm) continue;
    std::vector<unsigned> expected;
    for (const u64 sequence : in_flight) {
      expected.push_back(ends.at(sequence).first);
      across += ends.at(sequence).second != op.lane.device;
    }
    if (comm) {
      const ExchangeCalls calls = streams.next_exchange(3 * devices);
      EXPECT_EQ(calls.waits, expected) << issue.sequence;
      if (op.kind == OpKind::reduce_scatter) {
        EXPECT_EQ(Bytes{calls.received},
                  collective_bytes(session->plan(), issue.segment->operands_of(op), op.kind));
      }
      ends[issue.sequence] = {calls.end, op.lane.device};
      ++exchanges;
    } else {
      const auto calls = streams.next(3 * op.lane.device + static_cast<u32>(op.lane.kind));
      EXPECT_EQ(calls.waits, expected) << issue.sequence;
      ends[issue.sequence] = {calls.end, op.lane.device};
      const auto copies = std::ranges::count(calls.work, CallKind::copy, &Call::kind);
      if (op.kind == OpKind::norm) {
        EXPECT_EQ(copies, 2 * (devices - 1) + 1)
            << "the others' losses and partials, and the result to the host";
      }
    }
  }
  EXPECT_TRUE(streams.all_taken());
  EXPECT_GT(exchanges, 10u);
  EXPECT_GT(across, 20u);
}

TEST_F(EmulatedSeveralGpus, EachDeviceStaysWithinItsBudget) {
  const Job job = make_job(config_).value();
  test::NoData source;
  const auto session = Session::create(job, make_plan(job.graph, job.options).value(), source).value();
  const emulated_cuda::Live live = emulated_cuda::live();
  EXPECT_EQ(live.device_allocations, devices);
  EXPECT_LE(live.device_bytes, devices * config_.memory.budgets.device.value);
  u64 of_gpus = 0;
  for (const ArenaLedger::Entry& e : session->ledger().entries())
    if (e.name.starts_with("cuda:")) of_gpus += e.now.value;
  EXPECT_EQ(of_gpus, live.device_bytes);
}

// ---- faults

TEST_F(EmulatedSeveralGpus, AMissingNcclIsReported) {
  ::setenv("TIDEPOOL_NCCL", "no-such-library.so.2", 1);
  expect_run_error(config_, ErrorKind::usage,
                   {"NCCL", "no-such-library.so.2", "install", "machine.executor=cuda:0"});
}

TEST_F(EmulatedSeveralGpus, LayersOverThemNeedNoNccl) {
  ::setenv("TIDEPOOL_NCCL", "no-such-library.so.2", 1);
  config_.machine.parallel = Parallel::layers;
  const auto report = test::run(config_);
  EXPECT_TRUE(report) << report.error().message;
}

TEST_F(EmulatedSeveralGpus, AFailedStartOfNcclIsReported) {
  emulated_cuda::set_faults({.group = 2});
  expect_run_error(config_, ErrorKind::io, {"the first exchange between 3 GPUs", "unhandled cuda error"});
}

TEST_F(EmulatedSeveralGpus, AGpuThatDoesNotExistIsReported) {
  config_.machine.executor = "cuda:0,3";
  expect_run_error(config_, ErrorKind::usage, {"cuda:3", "3 GPUs", "CUDA_VISIBLE_DEVICES"});
}

TEST_F(EmulatedSeveralGpus, AGpuWithoutRoomIsReported) {
  // after the allocations of the first device and its library
  emulated_cuda::set_faults({.device_allocation = 3});
  expect_run_error(config_, ErrorKind::does_not_fit, {"cuda:1", "cudaErrorMemoryAllocation"});
}

// A fault at some op, or in some exchange, after the second checkpoint: it is named, no device is waited for
// in vain, and a resume from the last checkpoint gives the numbers of an undisturbed run.
TEST_F(EmulatedSeveralGpus, AFaultDuringAnExchangeEndsTheRun) {
  config_.machine.executor = test::first_gpus(2);
  config_.train.max_steps = 16;
  config_.output.save_steps = 1;
  const Numbers undisturbed = train_numbers(config_);
  struct Case {
    emulated_cuda::Faults faults;
    std::vector<const char*> words;
  };
  const Case cases[] = {
      {{.group = 3}, {"step ", " on comm (", "MiB)", "unhandled cuda error"}},
      {{.exchange = 2}, {"step ", " on comm (", "MiB)", "remote"}},
      {{.operation = 1, .operation_error = cudaErrorIllegalAddress}, {"step ", "cudaErrorIllegalAddress"}},
      {{.operation = 23, .operation_error = cudaErrorECCUncorrectable},
       {"step ", "cudaErrorECCUncorrectable"}},
      {{.operation = 60, .operation_error = cudaErrorLaunchFailure}, {"step ", "cudaErrorLaunchFailure"}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(&c - cases);
    config_.output.dir = dir_ / std::to_string(&c - cases);
    test::change_timing(0, devices);
    const auto report = test::run_into_faults(config_, c.faults);
    emulated_cuda::clear_failure();
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().kind, ErrorKind::io) << report.error().message;
    for (const char* word : c.words) EXPECT_THAT(report.error().message, HasSubstr(word));
    test::change_timing(0, devices);
    const auto again = test::run(config_, {.resume = "auto"});
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_GE(again->resumed_from_step, 1u);
    EXPECT_EQ(test::numbers_of(*again), undisturbed);
  }
}

}  // namespace tidepool::emulated_several_gpus_test
