#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/engine.h"
#include "tests/support/scripted_executor.h"
#include "tests/support/segments.h"
#include "tests/support/tiny_plan.h"

namespace tidepool::loop_test {

using test::ScriptedExecutor;
using test::SegmentList;
using test::TinyPlan;
using ::testing::HasSubstr;
using enum SegmentKind;

// Recorder records the engine's notifications.
struct Recorder final : EngineObserver {
  std::vector<u64> completions;
  std::vector<std::string> events;
  void segment_started(const SegmentRun& run, u64) override {
    events.push_back(std::string("start ") + std::string(name(run.kind)));
  }
  void completed(const Issue& issue, const Completion&) override { completions.push_back(issue.sequence); }
  void segment_finished(const SegmentRun& run) override {
    events.push_back(std::string("finish ") + std::string(name(run.kind)));
  }
  void at_rest() override { events.push_back("rest"); }
};

Result<void> run(const Plan& plan, Executor& executor, std::vector<SegmentRun> runs, Recorder& recorder,
                 Nanos watchdog = Nanos{5'000'000'000}) {
  const auto engine = Engine::create(plan, executor, {.watchdog = watchdog});
  SegmentList list(std::move(runs));
  return engine->run(list, recorder);
}

TEST(Engine, HoldsAnOpUntilOtherDomainsAreDone) {
  TinyPlan tiny;
  const OpId read = tiny.add(body, OpKind::read, LaneKind::disk_read);
  const OpId copy = tiny.add(body, OpKind::copy, LaneKind::h2d, {read});
  tiny.add(body, OpKind::forward, LaneKind::compute, {copy});
  ScriptedExecutor executor;
  Recorder recorder;
  ASSERT_TRUE(run(tiny.plan, executor, {{body, 1}}, recorder));
  EXPECT_EQ(recorder.completions, (std::vector<u64>{0, 1, 2}));
  EXPECT_TRUE(executor.of(1).in_flight.empty());  // issued after the read had completed
  EXPECT_EQ(executor.of(2).in_flight, (std::vector<u64>{1}));
}

TEST(Engine, GivesInFlightOpsOfTheDeviceOncePerLane) {
  TinyPlan tiny;
  const OpId a = tiny.add(body, OpKind::copy, LaneKind::h2d);
  const OpId b = tiny.add(body, OpKind::copy, LaneKind::h2d);
  const OpId c = tiny.add(body, OpKind::copy, LaneKind::d2h);
  const OpId before = tiny.add(body, OpKind::forward, LaneKind::compute);
  tiny.add(body, OpKind::forward, LaneKind::compute, {a, b, c, before});
  ScriptedExecutor executor;
  Recorder recorder;
  ASSERT_TRUE(run(tiny.plan, executor, {{body, 1}}, recorder));
  // b follows a on its lane; `before` follows only ops of its own lane.
  EXPECT_EQ(executor.of(4).in_flight, (std::vector<u64>{1, 2}));
}

TEST(Engine, IssuesInPlanOrderWithinTheSlots) {
  TinyPlan tiny;
  for (u32 i = 0; i < 20; ++i) {
    tiny.add(body, OpKind::forward, LaneKind::compute);
    tiny.add(body, OpKind::read, LaneKind::disk_read);
  }
  ScriptedExecutor executor;
  executor.depth = 2;
  u64 most = 0;
  executor.choose = [&] {
    most = std::max<u64>(most, executor.flying.size());
    return static_cast<int>(executor.flying.size()) - 1;  // last submitted first
  };
  Recorder recorder;
  ASSERT_TRUE(run(tiny.plan, executor, {{body, 1}}, recorder));
  EXPECT_EQ(most, 4u);
  for (const LaneKind kind : {LaneKind::compute, LaneKind::disk_read}) {
    std::vector<u64> order;
    for (const auto& s : executor.log) {
      if (s.issue.get().lane.kind == kind) order.push_back(s.issue.sequence);
    }
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
    EXPECT_EQ(order.size(), 20u);
  }
  std::sort(recorder.completions.begin(), recorder.completions.end());
  EXPECT_EQ(std::unique(recorder.completions.begin(), recorder.completions.end()),
            recorder.completions.end());
  EXPECT_EQ(recorder.completions.size(), 40u);
}

TEST(Engine, LinkedRunsOverlapAlongTheirEdges) {
  TinyPlan tiny;
  const OpId read = tiny.add(body, OpKind::read, LaneKind::disk_read);
  const OpId forward = tiny.add(body, OpKind::forward, LaneKind::compute, {read});
  const OpId update = tiny.add(body, OpKind::update, LaneKind::host, {forward});
  tiny.link(body, body, {{.from = update, .to = forward}});
  ScriptedExecutor executor;
  bool overlapped = false, early = false;
  executor.choose = [&] {
    const auto flying = [&](u64 s) {
      return std::any_of(executor.flying.begin(), executor.flying.end(),
                         [&](const auto& f) { return f.issue.sequence == s; });
    };
    overlapped |= flying(3) && flying(1);  // the second body's read runs beside the first body's forward
    early |= executor.submitted(4) && flying(2);
    return 0;
  };
  Recorder recorder;
  ASSERT_TRUE(run(tiny.plan, executor, {{body, 1}, {body, 2}}, recorder));
  EXPECT_TRUE(overlapped);
  EXPECT_FALSE(early);
  EXPECT_EQ(recorder.events, (std::vector<std::string>{"rest", "start body", "start body", "finish body",
                                                       "finish body", "rest"}));
}

TEST(Engine, UnlinkedRunsMeetAtRest) {
  TinyPlan tiny;
  tiny.add(body, OpKind::read, LaneKind::disk_read);
  tiny.add(body, OpKind::write, LaneKind::disk_write);
  tiny.add(drain, OpKind::read, LaneKind::disk_read, {}, {}, 1);
  ScriptedExecutor executor;
  bool mixed = false;
  executor.choose = [&] {
    for (const auto& f : executor.flying) mixed |= executor.submitted(2) && f.issue.sequence < 2;
    return 0;
  };
  Recorder recorder;
  ASSERT_TRUE(run(tiny.plan, executor, {{body, 4}, {drain, 5}, {evaluation, 5}}, recorder));
  EXPECT_FALSE(mixed);
  EXPECT_EQ(executor.of(0).issue.step, 4u);
  EXPECT_EQ(executor.of(2).issue.step, 4u);  // a drain works for the previous step
  EXPECT_EQ(recorder.events,
            (std::vector<std::string>{"rest", "start body", "start drain", "finish body", "rest",
                                      "finish drain", "start evaluation", "finish evaluation", "rest"}));
}

TEST(Engine, ManyRunsOnOneEngine) {
  TinyPlan tiny;
  const OpId a = tiny.add(body, OpKind::forward, LaneKind::compute);
  const OpId b = tiny.add(body, OpKind::update, LaneKind::host, {a});
  tiny.link(body, body, {{.from = b, .to = a}});
  ScriptedExecutor executor;
  const auto engine = Engine::create(tiny.plan, executor, {});
  Recorder recorder;
  for (int round = 0; round < 3; ++round) {
    SegmentList list({{body, 1}, {body, 2}, {body, 3}});
    ASSERT_TRUE(engine->run(list, recorder));
  }
  EXPECT_EQ(recorder.completions.size(), 18u);
  EXPECT_EQ(recorder.completions.back(), 17u);
}

TEST(Engine, WatchdogSaysWhereEveryLaneStands) {
  TinyPlan tiny;
  const OpId read = tiny.add(body, OpKind::read, LaneKind::disk_read);
  const OpId copy = tiny.add(body, OpKind::copy, LaneKind::h2d, {read});
  tiny.add(body, OpKind::update, LaneKind::host, {copy});
  ScriptedExecutor executor;
  executor.choose = [] { return -1; };
  Recorder recorder;
  const auto result = run(tiny.plan, executor, {{body, 7}}, recorder);
  ASSERT_FALSE(result);
  const std::string& text = result.error().message;
  EXPECT_THAT(text, HasSubstr("disk_read: body of step 7 at 1/1, 1 in flight"));
  EXPECT_THAT(
      text, HasSubstr("device 0 h2d: body of step 7 at 0/1, 0 in flight, next is op 1 (copy), waits for op 0 "
                      "of body (read on disk_read, in flight)"));
  EXPECT_THAT(text, HasSubstr("host: body of step 7 at 0/1, 0 in flight, next is op 2 (update), waits "
                              "for op 1 of body (copy on device 0 h2d, not issued)"));
  EXPECT_GE(executor.now(), Nanos{5'000'000'000});
}

TEST(Engine, AnErrorStopsIssuingAndDrains) {
  TinyPlan tiny;
  const OpId read = tiny.add(body, OpKind::read, LaneKind::disk_read);
  for (u32 i = 0; i < 3; ++i) tiny.add(body, OpKind::forward, LaneKind::compute);
  tiny.add(body, OpKind::copy, LaneKind::h2d, {read});
  ScriptedExecutor executor;
  executor.faults[0] = {ErrorKind::io, "the disk is gone"};
  executor.choose = [&] {
    for (u64 i = 0; i < executor.flying.size(); ++i) {
      if (executor.flying[i].issue.sequence == 0) return static_cast<int>(i);
    }
    return 0;
  };
  Recorder recorder;
  const auto result = run(tiny.plan, executor, {{body, 1}, {body, 2}}, recorder);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::io);
  EXPECT_EQ(result.error().message, "the disk is gone");
  EXPECT_TRUE(executor.flying.empty());
  EXPECT_FALSE(executor.submitted(4));
}

TEST(Engine, StopsOnAPlanThatCannotProceed) {
  TinyPlan tiny;
  tiny.add(body, OpKind::read, LaneKind::disk_read, {OpId{1}});
  tiny.add(body, OpKind::write, LaneKind::disk_write, {OpId{0}});
  ScriptedExecutor executor;
  Recorder recorder;
  const auto result = run(tiny.plan, executor, {{body, 1}}, recorder);
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("cycle"));
}

// Ctrl-Z, `docker pause`, a sleeping laptop: one wait ends hours after it began, and nothing hangs.
TEST(Engine, TimeInWhichTheProcessWasStoppedIsNoHang) {
  TinyPlan tiny;
  for (u32 i = 0; i < 4; ++i) tiny.add(body, OpKind::forward, LaneKind::compute);
  ScriptedExecutor executor;
  u32 waits = 0;
  executor.choose = [&] { return waits++ % 3 == 2 ? 0 : -1; };
  executor.idle = Nanos{3'600'000'000'000};
  Recorder recorder;
  const auto done = run(tiny.plan, executor, {{body, 1}}, recorder, Nanos{300'000'000'000});
  EXPECT_TRUE(done) << done.error().message;
  EXPECT_EQ(recorder.completions.size(), 4u);
}

TEST(Engine, PatientWaitsInARowAreAHang) {
  TinyPlan tiny;
  tiny.add(body, OpKind::forward, LaneKind::compute);
  ScriptedExecutor executor;
  u32 waits = 0;
  executor.choose = [&] { return ++waits, -1; };
  Recorder recorder;
  const auto done = run(tiny.plan, executor, {{body, 1}}, recorder, Nanos{300'000'000'000});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().kind, ErrorKind::internal);
  EXPECT_EQ(waits, 300u);  // one second each
}

// A list of segments that is abandoned after a number of completions.
struct AbandonedList final : NextSegment {
  SegmentList list;
  const Recorder& recorder;
  u64 after = 0;
  AbandonedList(std::vector<SegmentRun> runs, const Recorder& r, u64 n)
      : list(std::move(runs)), recorder(r), after(n) {}
  std::optional<SegmentRun> next() override { return list.next(); }
  bool abandons() override { return recorder.completions.size() >= after; }
};

// Whatever the moment: what was issued completes, nothing else is issued, and the engine can run again.
TEST(Engine, AbandonsSegmentsAtAnyCompletion) {
  TinyPlan tiny;
  const OpId read = tiny.add(body, OpKind::read, LaneKind::disk_read);
  const OpId forward = tiny.add(body, OpKind::forward, LaneKind::compute, {read});
  const OpId update = tiny.add(body, OpKind::update, LaneKind::host, {forward});
  tiny.add(body, OpKind::write, LaneKind::disk_write, {update});
  tiny.link(body, body, {{.from = update, .to = forward}});
  for (u64 after = 1; after <= 8; ++after) {
    SCOPED_TRACE(after);
    ScriptedExecutor executor;
    const auto engine = Engine::create(tiny.plan, executor, {});
    Recorder recorder;
    AbandonedList abandoned({{body, 1}, {body, 2}}, recorder, after);
    ASSERT_TRUE(engine->run(abandoned, recorder));
    EXPECT_TRUE(executor.flying.empty());
    EXPECT_EQ(executor.log.size(), recorder.completions.size());
    if (after < 7) EXPECT_LT(executor.log.size(), 8u);
    EXPECT_EQ(recorder.events.back(), "rest");

    const u64 before = recorder.completions.size();
    SegmentList again({{body, 1}});
    ASSERT_TRUE(engine->run(again, recorder));
    EXPECT_EQ(recorder.completions.size(), before + 4);
  }
}

}  // namespace tidepool::loop_test
