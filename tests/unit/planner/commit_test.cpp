// Several versions of the state on disk: when the planner keeps them, what it writes for a commit, and the
// faults that the verifier finds in plans with commits.
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>

#include "planner/planner.h"
#include "planner/verify/verify.h"
#include "tests/support/support_graph.h"

namespace tidepool::commit_test {

using testing::HasSubstr;

PlanOptions commit_options(bool clipping = true, HomePolicy home = HomePolicy::automatic) {
  return {.budgets = {Bytes{700 * kib}, Bytes{600 * kib}, Bytes{gib}},
          .micro_batches = 2,
          .clipping = clipping,
          .home = home,
          .chunk_bytes = Bytes{16 * kib},
          .versions = 2};
}

const ModelGraph& commit_graph() {
  static const ModelGraph g = test::make_graph({});
  return g;
}

Plan commit_plan(const PlanOptions& options = commit_options()) {
  auto plan = make_plan(commit_graph(), options);
  EXPECT_TRUE(plan) << plan.error().message;
  return std::move(plan).value();
}

Bytes state_of(const Plan& plan, std::function<bool(Tier)> at_home) {
  Bytes sum{};
  for (u32 id = 0; id < plan.chunks.size(); ++id)
    if (plan.is_committed(ChunkId{id}) && at_home(plan.homes[id].tier)) sum += plan.chunks[id].bytes;
  return sum;
}

Bytes disk_written(const std::array<Bytes, link_count>& bytes) {
  return bytes[static_cast<u32>(LinkKind::disk_write)];
}

TEST(Commit, WritesWhatRestsInMemoryAndNothingElse) {
  for (const HomePolicy home :
       {HomePolicy::automatic, HomePolicy::disk, HomePolicy::host, HomePolicy::mixed, HomePolicy::device})
    for (const bool clipping : {true, false}) {
      PlanOptions options = commit_options(clipping, home);
      if (home != HomePolicy::automatic) options.budgets.host = options.budgets.device = Bytes{8 * mib};
      const Plan plan = commit_plan(options);
      const Bytes resting = state_of(plan, [](Tier tier) { return tier != Tier::disk; });
      EXPECT_EQ(disk_written(persisted_bytes(plan, SegmentKind::body)), resting);
      const auto other = clipping ? SegmentKind::drain : SegmentKind::forward_backward;
      EXPECT_EQ(disk_written(persisted_bytes(plan, other)), resting);
      EXPECT_EQ(plan.second_slot, state_of(plan, [](Tier) { return true; }));
    }
}

TEST(Commit, ChangesNoOtherMoveInPrecisionsWhoseParametersLive) {
  PlanOptions options = commit_options(true, HomePolicy::mixed);
  options.budgets.host = options.budgets.device = Bytes{8 * mib};
  const Plan two = commit_plan(options);
  options.versions = 1;
  const Plan one = commit_plan(options);
  EXPECT_EQ(link_bytes(one, SegmentKind::body), link_bytes(two, SegmentKind::body));
  EXPECT_EQ(one.versions, 1u);
  EXPECT_TRUE(one.slots.empty());
}

TEST(Commit, AutomaticallyIfStateRestsOnDiskAndThereIsRoom) {
  PlanOptions options = commit_options();
  options.versions = 0;
  EXPECT_EQ(commit_plan(options).versions, 3u);
  const Plan two = commit_plan(commit_options());
  const u64 state = two.second_slot.value;
  const u64 others = two.tiers[static_cast<u32>(Tier::disk)].planned_peak.value - 2 * state;
  // Checkpoints need room too: twice the state.
  for (const auto& [bytes, versions] :
       {std::pair(5 * state, 3u), {5 * state - 1, 2u}, {4 * state, 2u}, {4 * state - 1, 1u}}) {
    options.budgets.disk = Bytes{others + bytes};
    EXPECT_EQ(commit_plan(options).versions, versions) << bytes;
  }
  options.budgets.disk = Bytes{gib};
  options.budgets.host = Bytes{64 * mib};
  EXPECT_EQ(commit_plan(options).versions, 1u);  // nothing rests on disk
  options.versions = 2;
  EXPECT_EQ(commit_plan(options).versions, 2u);
}

TEST(Commit, AThirdVersionTakesRoomAndMovesNothing) {
  PlanOptions options = commit_options();
  const Plan two = commit_plan(options);
  options.versions = 3;
  const Plan three = commit_plan(options);
  EXPECT_EQ(three.versions, 3u);
  EXPECT_EQ(three.slots, two.slots);
  EXPECT_EQ(three.second_slot, two.second_slot);
  EXPECT_EQ(link_bytes(three, SegmentKind::body), link_bytes(two, SegmentKind::body));
  EXPECT_EQ(persisted_bytes(three, SegmentKind::body), persisted_bytes(two, SegmentKind::body));
  const u32 disk = static_cast<u32>(Tier::disk);
  EXPECT_EQ(three.tiers[disk].planned_peak, two.tiers[disk].planned_peak + two.second_slot);
}

// Budgets decide where state rests, not where it is committed: so a run with other budgets finds it.
TEST(Commit, HasSlotsThatDoNotDependOnHomes) {
  const Plan streaming = commit_plan();
  PlanOptions options = commit_options(false);
  options.budgets = {Bytes{64 * mib}, Bytes{64 * mib}, Bytes{gib}};
  const Plan resting = commit_plan(options);
  EXPECT_NE(streaming.homes, resting.homes);
  EXPECT_EQ(streaming.slots, resting.slots);
}

// ---- canaries

struct Fault {
  const char* says;
  std::function<void(Plan&)> make;
};

u32 find(const Segment& segment, const std::function<bool(const Op&)>& is) {
  const auto at = std::ranges::find_if(segment.ops, is);
  EXPECT_NE(at, segment.ops.end());
  return static_cast<u32>(at - segment.ops.begin());
}
u32 find_commit(const Segment& segment) {
  return find(segment, [](const Op& op) { return op.kind == OpKind::commit; });
}
Segment& body_of(Plan& plan) { return plan.segments[static_cast<u32>(SegmentKind::body)]; }
Operand& operand_of_commit(Plan& plan, u32 number) {
  Segment& body = body_of(plan);
  return body.operands[body.ops[find_commit(body)].operands_begin + number];
}

TEST(CommitCanary, EachIsRefusedAndNamed) {
  const Fault faults[] = {
      {"leaves out chunk",
       [](Plan& plan) { --body_of(plan).ops[find_commit(body_of(plan))].operands_count; }},
      {"as the step's update leaves it", [](Plan& plan) { operand_of_commit(plan, 0).version = 0; }},
      {"changes what it commits", [](Plan& plan) { operand_of_commit(plan, 0).access = Access::read_write; }},
      {"makes 0 commits",
       [](Plan& plan) {
         Segment& drain = plan.segments[static_cast<u32>(SegmentKind::drain)];
         const u32 commit = find_commit(drain);
         ASSERT_EQ(commit + 1, drain.ops.size());
         drain.ops.pop_back();
       }},
      {"may not be skipped",
       [](Plan& plan) {
         body_of(plan)
             .ops[find(body_of(plan), [](const Op& op) { return op.kind == OpKind::update; })]
             .persists = true;
       }},
      {"is not a commit of its step",
       [](Plan& plan) { body_of(plan).ops[find_commit(body_of(plan))].steps_back = 0; }},
      {"second slots begin before", [](Plan& plan) { plan.second_slot.value -= 4096; }},
      {"has no slots",
       [](Plan& plan) {
         for (Frame& slot : plan.slots)
           if (slot.bytes.value > 0) {
             slot = {};
             return;
           }
       }},
      {"beside its slot",
       [](Plan& plan) {
         for (u32 id = 0; id < plan.homes.size(); ++id)
           if (plan.homes[id].tier == Tier::disk && plan.homes[id].bytes.value > 0) {
             plan.homes[id].offset += 4096;
             return;
           }
       }},
      {"the last slots end after the disk's bytes", [](Plan& plan) { plan.versions = 3; }},
      {"keeps 4 versions", [](Plan& plan) { plan.versions = 4; }},
  };
  ASSERT_TRUE(verify_plan(commit_plan(), commit_graph()));
  for (const Fault& fault : faults) {
    SCOPED_TRACE(fault.says);
    Plan plan = commit_plan();
    fault.make(plan);
    const Result<void> verified = verify_plan(plan, commit_graph());
    ASSERT_FALSE(verified);
    EXPECT_THAT(verified.error().message, HasSubstr(fault.says));
  }
}

// A skipped op leaves nothing behind, so no op of other steps may count on what it writes.
TEST(CommitCanary, ReadingWhatOnlyCommittedStepsWriteIsRefused) {
  PlanOptions options = commit_options(true, HomePolicy::device);
  options.budgets = {Bytes{8 * mib}, Bytes{8 * mib}, Bytes{gib}};
  Plan plan = commit_plan(options);
  Segment& body = body_of(plan);
  const u32 write = find(body, [](const Op& op) { return op.persists && op.kind == OpKind::write; });
  const u32 copy = find(body, [](const Op& op) { return op.persists && op.kind == OpKind::copy; });
  ASSERT_LT(copy, write);
  body.ops[write].persists = false;  // then it reads what a skipped copy did not bring
  const Result<void> verified = verify_plan(plan, commit_graph());
  ASSERT_FALSE(verified);
  EXPECT_THAT(verified.error().message, HasSubstr("only steps that are committed write"));
}

// Without its edge to the commit, a write of the next step could change what the commit counts on. Later
// writes may wait for the commit all the same, through frames that earlier ones free.
TEST(CommitCanary, AnUpdateThatDoesNotWaitForTheCommitIsRefused) {
  const Plan plan = commit_plan();
  const u32 commit = find_commit(plan.segment(SegmentKind::body));
  u32 refused = 0;
  for (u32 l = 0; l < plan.links.size(); ++l) {
    if (plan.links[l].from != SegmentKind::body) continue;
    for (u32 e = 0; e < plan.links[l].edges.size(); ++e) {
      if (index(plan.links[l].edges[e].from) != commit) continue;
      Plan broken = plan;
      broken.links[l].edges.erase(broken.links[l].edges.begin() + e);
      refused += !verify_plan(broken, commit_graph());
    }
  }
  EXPECT_GT(refused, 5u);
}

}  // namespace tidepool::commit_test
