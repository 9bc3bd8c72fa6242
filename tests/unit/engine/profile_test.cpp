#include "engine/profile.h"

#include <gtest/gtest.h>

#include "engine/trace.h"
#include "tests/support/tiny_plan.h"

namespace tidepool::profile_test {

using test::TinyPlan;
using enum SegmentKind;

// Story notifies a profile as an engine would.
struct Story {
  explicit Story(const Plan& plan) : plan(plan) {}
  void begin(EngineObserver& o, SegmentRun run) {
    what = run;
    o.segment_started(run, first = next);
    next += plan.segment(run.kind).ops.size();
  }
  void done(EngineObserver& o, OpId op, u64 from, u64 to) const {
    const Issue issue{
        .segment = &plan.segment(what.kind), .op = op, .sequence = first + index(op), .step = what.step};
    o.completed(issue, {.sequence = issue.sequence, .started = Nanos{from}, .finished = Nanos{to}});
  }
  const Plan& plan;
  SegmentRun what;
  u64 first = 0, next = 0;
};

u64 exposed(const PhaseProfile& p, Cause cause) { return p.exposed[static_cast<u32>(cause)].value; }

TEST(TimeProfile, FollowsAGapToItsCause) {
  TinyPlan tiny;
  const OpId first = tiny.add(body, OpKind::forward, LaneKind::compute);
  const OpId read = tiny.add(body, OpKind::read, LaneKind::disk_read);
  const OpId copy = tiny.add(body, OpKind::copy, LaneKind::h2d, {read});
  const OpId second = tiny.add(body, OpKind::forward, LaneKind::compute, {copy, first});
  TimeProfile profile(tiny.plan);
  Story story(tiny.plan);
  profile.at_rest();
  story.begin(profile, {body, 1});
  story.done(profile, first, 0, 100);
  story.done(profile, read, 0, 160);
  story.done(profile, copy, 165, 195);
  story.done(profile, second, 200, 300);
  profile.segment_finished({body, 1});
  profile.at_rest();
  const PhaseProfile& p = profile.of(body);
  EXPECT_EQ(exposed(p, Cause::compute), 200u);
  EXPECT_EQ(exposed(p, Cause::disk_read), 60u);  // 100 of its 160 were hidden
  EXPECT_EQ(exposed(p, Cause::h2d), 30u);
  EXPECT_EQ(exposed(p, Cause::other), 10u);
  EXPECT_EQ(p.wall().value, 300u);
  EXPECT_EQ(p.busy[static_cast<u32>(LaneKind::disk_read)].value, 160u);
}

// The disk takes two requests at once: the third waits for a slot, and the gap is caused by the disk from its
// start.
TEST(TimeProfile, WaitingForATurnOnADiskLaneCountsAsDisk) {
  TinyPlan tiny;
  const OpId first = tiny.add(body, OpKind::forward, LaneKind::compute);
  const OpId a = tiny.add(body, OpKind::read, LaneKind::disk_read);
  const OpId b = tiny.add(body, OpKind::read, LaneKind::disk_read);
  const OpId c = tiny.add(body, OpKind::read, LaneKind::disk_read);
  const OpId second = tiny.add(body, OpKind::forward, LaneKind::compute, {c, first});
  TimeProfile profile(tiny.plan);
  Story story(tiny.plan);
  profile.at_rest();
  story.begin(profile, {body, 1});
  story.done(profile, first, 0, 10);
  story.done(profile, a, 0, 100);
  story.done(profile, b, 0, 110);
  story.done(profile, c, 100, 200);
  story.done(profile, second, 200, 300);
  EXPECT_EQ(exposed(profile.of(body), Cause::disk_read), 190u);
  EXPECT_EQ(exposed(profile.of(body), Cause::other), 0u);
}

// A request delayed by the previous request has the cause for which that request waited.
TEST(TimeProfile, FollowsTheOrderOfADiskLane) {
  TinyPlan tiny;
  const OpId first = tiny.add(body, OpKind::forward, LaneKind::compute);
  const OpId update = tiny.add(body, OpKind::update, LaneKind::host, {first});
  const OpId waits = tiny.add(body, OpKind::read, LaneKind::disk_read, {update});
  const OpId behind = tiny.add(body, OpKind::read, LaneKind::disk_read);
  const OpId second = tiny.add(body, OpKind::forward, LaneKind::compute, {behind});
  TimeProfile profile(tiny.plan);
  Story story(tiny.plan);
  profile.at_rest();
  story.begin(profile, {body, 1});
  story.done(profile, first, 0, 10);
  story.done(profile, update, 10, 90);
  story.done(profile, waits, 90, 130);
  story.done(profile, behind, 90, 140);
  story.done(profile, second, 140, 200);
  EXPECT_EQ(exposed(profile.of(body), Cause::update), 80u);
  EXPECT_EQ(exposed(profile.of(body), Cause::disk_read), 50u);
}

// Ops that only write down the state are one cause, whatever their lane.
TEST(TimeProfile, CountsWaitingForACommitOnItsOwn) {
  TinyPlan tiny;
  const OpId first = tiny.add(body, OpKind::forward, LaneKind::compute);
  const OpId commit = tiny.add(body, OpKind::commit, LaneKind::disk_write, {first});
  tiny.plan.segments[static_cast<u32>(body)].ops[index(commit)].persists = true;
  const OpId write = tiny.add(body, OpKind::write, LaneKind::disk_write, {commit});
  const OpId second = tiny.add(body, OpKind::forward, LaneKind::compute, {write});
  TimeProfile profile(tiny.plan);
  Story story(tiny.plan);
  story.begin(profile, {body, 1});
  story.done(profile, first, 0, 10);
  story.done(profile, commit, 10, 90);
  story.done(profile, write, 90, 140);
  story.done(profile, second, 140, 200);
  EXPECT_EQ(exposed(profile.of(body), Cause::commit), 80u);
  EXPECT_EQ(exposed(profile.of(body), Cause::disk_write), 50u);
}

TEST(TimeProfile, NamesTheBindingLane) {
  PhaseProfile phase;
  const auto set = [&](Cause cause, u64 ns) { phase.exposed[static_cast<u32>(cause)] = Nanos{ns}; };
  const auto busy = [&](LaneKind lane, u64 ns) { phase.busy[static_cast<u32>(lane)] = Nanos{ns}; };
  set(Cause::other, 900), set(Cause::compute, 60), set(Cause::disk_write, 50), set(Cause::disk_read, 40);
  busy(LaneKind::disk_write, 800), busy(LaneKind::disk_read, 500);
  EXPECT_EQ(binding_resource(phase), "disk");
  busy(LaneKind::disk_read, 100);
  EXPECT_EQ(binding_resource(phase), "disk_write");
  set(Cause::h2d, 95);
  EXPECT_EQ(binding_resource(phase), "h2d");
  // Near a tie the name must not change with every small difference.
  set(Cause::h2d, 91);
  EXPECT_EQ(binding_resource(phase), "h2d and disk_write");
  set(Cause::h2d, 89);
  EXPECT_EQ(binding_resource(phase), "h2d and disk_write");
  set(Cause::h2d, 88);
  EXPECT_EQ(binding_resource(phase), "disk_write");
  EXPECT_EQ(binding_resource({}), "compute");
}

TEST(TimeProfile, FollowsEdgesFromTheSegmentBefore) {
  TinyPlan tiny;
  const OpId forward = tiny.add(body, OpKind::forward, LaneKind::compute);
  const OpId update = tiny.add(body, OpKind::update, LaneKind::host, {forward});
  tiny.link(body, body, {{.from = update, .to = forward}});
  TimeProfile profile(tiny.plan);
  Story story(tiny.plan);
  story.begin(profile, {body, 1});
  story.done(profile, forward, 0, 50);
  story.done(profile, update, 50, 80);
  story.begin(profile, {body, 2});
  story.done(profile, forward, 80, 130);
  EXPECT_EQ(exposed(profile.of(body), Cause::update), 30u);
  EXPECT_EQ(exposed(profile.of(body), Cause::compute), 100u);
}

TEST(TimeProfile, CountsTheTailAtRest) {
  TinyPlan tiny;
  const OpId forward = tiny.add(body, OpKind::forward, LaneKind::compute);
  const OpId update = tiny.add(body, OpKind::update, LaneKind::host, {forward});
  const OpId write = tiny.add(body, OpKind::write, LaneKind::disk_write, {update});
  TimeProfile profile(tiny.plan);
  Story story(tiny.plan);
  story.begin(profile, {body, 1});
  story.done(profile, forward, 10, 50);
  story.done(profile, update, 50, 70);
  story.done(profile, write, 72, 100);
  profile.at_rest();
  const PhaseProfile p = profile.total();
  EXPECT_EQ(exposed(p, Cause::update), 20u);
  EXPECT_EQ(exposed(p, Cause::disk_write), 28u);
  EXPECT_EQ(p.wall().value, 90u);
}

TEST(Trace, KeepsTheFirstEvents) {
  TinyPlan tiny;
  const OpId forward = tiny.add(body, OpKind::forward, LaneKind::compute);
  TraceRecorder trace(tiny.plan, 2);
  Story story(tiny.plan);
  for (u64 step = 1; step <= 3; ++step) {
    story.begin(trace, {body, step});
    story.done(trace, forward, step * 10, step * 10 + 5);
  }
  ASSERT_EQ(trace.events().size(), 2u);
  EXPECT_EQ(trace.dropped(), 1u);
  EXPECT_EQ(trace.events()[1].step, 2u);
  EXPECT_EQ(trace.name(trace.events()[0]), "forward micro-batch 0");
}

}  // namespace tidepool::profile_test
