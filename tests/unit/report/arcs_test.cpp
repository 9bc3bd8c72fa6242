// Arcs of chunks in memory over a step, and step.json, which passes them to the page.
#include <gmock/gmock.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include "planner/frame_arcs.h"
#include "planner/planner.h"
#include "report/step_file.h"
#include "run/assembly/steady_step.h"
#include "tests/support/support_graph.h"
#include "tests/support/tiny_plan.h"

namespace tidepool::arcs_test {

using test::frame;
using test::TinyPlan;
using enum SegmentKind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Plan some_plan(HomePolicy home = HomePolicy::disk, Precision precision = Precision::bf16) {
  const Budgets budgets{Bytes{2 * mib}, Bytes{mib}, Bytes{gib}};
  return make_plan(test::make_graph({.precision = precision}),
                   {.budgets = budgets, .micro_batches = 2, .home = home})
      .value();
}

TEST(FrameArcs, RunFromAFillToTheLastTouchBeforeTheNextFill) {
  TinyPlan tiny;
  const ChunkId a = tiny.add_transient(Kind::activation);
  const Frame here = frame(Tier::device, 3);
  const auto touch = [&](Access access) {
    tiny.add(body, OpKind::forward, LaneKind::compute, {}, {{.first = a, .access = access, .frame = here}});
  };
  for (const Access access : {Access::read, Access::write, Access::read, Access::read_write, Access::write})
    touch(access);
  const auto arcs = frame_arcs(tiny.plan, tiny.plan.segment(body));
  // Op 0 of the next turn reads the last fill.
  EXPECT_THAT(arcs, ElementsAre(FrameArc{.chunk = a, .offset = here.offset, .from = 1, .to = 3},
                                FrameArc{.chunk = a, .offset = here.offset, .from = 4, .to = 0}));
}

TEST(FrameArcs, HomesStayAndWindowsAreSplitByChunk) {
  TinyPlan tiny;
  const ChunkId home = tiny.add_chunk(frame(Tier::disk, 2));
  const ChunkId first = tiny.add_transient(Kind::workspace, 2);
  tiny.add_transient(Kind::workspace);
  tiny.move(body, LaneKind::disk_read, home, 0, frame(Tier::disk, 2), frame(Tier::host, 7));
  tiny.add(body, OpKind::forward, LaneKind::compute, {},
           {{.first = first, .count = 2, .access = Access::write, .frame = frame(Tier::device, 1, 3)}});
  const auto arcs = frame_arcs(tiny.plan, tiny.plan.segment(body));
  ASSERT_EQ(arcs.size(), 4u);
  EXPECT_EQ(arcs[0].tier, Tier::host);
  EXPECT_TRUE(arcs[1].permanent());
  EXPECT_EQ(arcs[2].offset, 1 * frame_alignment);
  EXPECT_EQ(arcs[3].offset, 3 * frame_alignment);
}

// The page must show what the planner promises.
TEST(FrameArcs, NeverExceedThePlannedPeakOfRealPlans) {
  for (u32 i = 0; i < 8; ++i) {
    constexpr HomePolicy homes[] = {HomePolicy::device, HomePolicy::host, HomePolicy::disk,
                                    HomePolicy::mixed};
    const Plan plan = some_plan(homes[i % 4], i < 4 ? Precision::bf16 : Precision::fp16);
    const Segment& segment = plan.segment(body);
    std::array<std::vector<u64>, tier_count> used;
    for (auto& tier : used) tier.resize(segment.ops.size());
    for (const FrameArc& arc : frame_arcs(plan, segment)) {
      for (u32 op = 0; op < segment.ops.size(); ++op) {
        const bool there = arc.permanent() || (arc.from <= arc.to ? arc.from <= op && op <= arc.to
                                                                  : op >= arc.from || op <= arc.to);
        if (there) used[static_cast<u32>(arc.tier)][op] += plan.chunk(arc.chunk).bytes.value;
      }
    }
    for (u32 t = 0; t < tier_count; ++t)
      EXPECT_LE(*std::max_element(used[t].begin(), used[t].end()), plan.tiers[t].planned_peak.value)
          << name(static_cast<Tier>(t));
  }
}

TEST(StepFile, IsJsonWithColumnsOfEqualLength) {
  const Plan plan = some_plan();
  const u64 ops = plan.segment(body).ops.size();
  StepFile file{.plan = plan, .names = {.blocks = {"embedding", "h.0"}, .windows = {"wte"}}};
  file.measured = {.step = 7, .length = Nanos{5'000'000}};
  for (u64 i = 0; i < ops; ++i) {
    file.measured.started_ns.push_back(static_cast<i64>(i) * 1000 - 2000);
    file.measured.finished_ns.push_back(static_cast<i64>(i) * 1000);
  }
  const std::string text = to_json(file);
  ASSERT_TRUE(check_step_file(text, "step.json")) << check_step_file(text, "step.json").error().message;
  const auto v = boost::json::parse(text);
  EXPECT_EQ(v.at("ops").at("kind").as_array().size(), ops);
  EXPECT_EQ(v.at("operands").at("chunk").as_array().size(), plan.segment(body).operands.size());
  EXPECT_EQ(v.at("places").as_array().size(), 3u);
  EXPECT_EQ(v.at("measured").at("started_us").at(0).as_int64(), -2);
  EXPECT_EQ(v.at("measured").at("length_us").as_int64(), 5000);
  EXPECT_TRUE(v.at("predicted").is_null());
}

TEST(StepFile, NamesTheFault) {
  const std::string good = to_json({.plan = some_plan()});
  const auto message = [](const std::string& text) {
    return check_step_file(text, "run/step.json").error().message;
  };
  EXPECT_THAT(message(good.substr(0, good.size() / 2)), HasSubstr("run/step.json: not valid JSON"));
  EXPECT_THAT(message("[]"), HasSubstr("run/step.json: the object"));
  EXPECT_THAT(message("{\"format\": 9}"), HasSubstr("format 9 is of another version"));
  std::string shorter = good;
  shorter.replace(shorter.find("\"lane\":["), 10, "\"lane\":[");
  EXPECT_THAT(message(shorter), HasSubstr("is missing or invalid"));
  EXPECT_EQ(check_step_file("{", "x").error().kind, ErrorKind::bad_input);
}

// Three steps of a plan with two ops: the median of the two steps that follow another step.
TEST(SteadyStep, IsTheMedianOfTheCompletelyRecordedSteps) {
  TinyPlan tiny;
  for (const SegmentKind kind : {forward_backward, body}) {
    tiny.add(kind, OpKind::forward, LaneKind::compute);
    tiny.add(kind, OpKind::norm, LaneKind::compute);
  }
  std::vector<TracedOp> events;
  u64 now = 100;
  const auto run = [&](SegmentKind kind, u64 step, u64 took) {
    const Segment* segment = &tiny.plan.segment(kind);
    events.push_back({segment, OpId{0}, step, Nanos{now}, Nanos{now + took / 2}});
    events.push_back({segment, OpId{1}, step, Nanos{now + took / 2}, Nanos{now + took}});
    now += took;
  };
  EXPECT_FALSE(steady_step(tiny.plan, events).known());
  run(forward_backward, 1, 50);
  EXPECT_FALSE(steady_step(tiny.plan, events).known());
  run(body, 2, 90), run(body, 3, 70), run(body, 4, 80);
  const StepTimes times = steady_step(tiny.plan, events);
  EXPECT_EQ(times.step, 4u);
  EXPECT_EQ(times.length, Nanos{80});
  EXPECT_THAT(times.started_ns, ElementsAre(0, 40));
  EXPECT_THAT(times.finished_ns, ElementsAre(40, 80));
  events.pop_back();  // the trace was full
  EXPECT_EQ(steady_step(tiny.plan, events).step, 3u);
}

}  // namespace tidepool::arcs_test
