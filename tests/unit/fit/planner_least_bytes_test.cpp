// Derives the lower bound a second time, from the operands of a finished plan instead of the step program's
// structure: content used at two ops must be held in between, or be moved over every link that leads away and
// back. Only the choice of held content is shared; planner_lower_bound_test checks it.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "config_files/load_config.h"
#include "fit/job.h"
#include "planner/bound/lower_bound.h"
#include "planner/planner.h"
#include "tests/support/asked_plan.h"
#include "tests/support/places.h"

namespace tidepool::planner_least_bytes_test {

using Link = LinkKind;

struct Touch {
  i32 position = 0;
  OpKind kind{};
  bool in_host = false;
  bool reads = false, writes = false;
};

class LeastBytes {
 public:
  explicit LeastBytes(const Plan& plan) : plan_(plan) {
    gather_touches();
    for (const auto& [chunk, touches] : touches_) add_content(chunk, touches);
    for (const auto& [window, saved] : at_home_)
      for (u32 link = 0; link < link_count; ++link)
        if (saved[link] != 0) savings_[link].push_back({0, turn_ - 1, window_bytes_[window], saved[link]});
  }

  std::array<u64, link_count> bounds() const {
    std::array<u64, link_count> out = base_;
    std::vector<u64> capacity[2];  // of the device; of both tiers together, which spare the disk alike
    for (u64 p = 0; p < plan_.working_set[0].size(); ++p) {
      u64 sum = 0;
      for (u32 tier = 0; tier < 2; ++tier) {
        const u64 budget = plan_.tiers[tier].budget.value;
        sum += budget - std::min(plan_.working_set[tier][p], budget);
        capacity[tier].push_back(sum);
      }
    }
    for (u32 link = 0; link < link_count; ++link)
      out[link] -= std::min(out[link], most_saved(savings_[link], capacity[is_disk(link)]));
    return out;
  }

 private:
  // Positions count ops that are not movements: the step program's ops.
  void gather_touches() {
    const Segment& body = plan_.segment(SegmentKind::body);
    for (const Op& op : body.ops) {
      if (is_movement(op.kind) || op.kind == OpKind::commit) continue;
      program_.push_back(&op);
      const bool in_host = op.kind == OpKind::update || op.kind == OpKind::load_batch;
      for (const Operand& operand : body.operands_of(op))
        for (u32 i = 0; i < operand.count; ++i)
          touches_[index(operand.first) + i].push_back(
              {turn_, op.kind, in_host, tidepool::reads(operand.access), tidepool::writes(operand.access)});
      ++turn_;
    }
    EXPECT_EQ(static_cast<u64>(turn_), plan_.working_set[0].size());
  }

  // These kinds live only while an op or a pass runs, or instead of a recompute; they never move.
  static bool in_working_set(Kind kind) {
    return kind == Kind::workspace || kind == Kind::scalars || kind == Kind::activation_grad ||
           kind == Kind::kept;
  }

  void add_content(u32 chunk, const std::vector<Touch>& touches) {
    const Chunk& c = plan_.chunks[chunk];
    if (in_working_set(c.kind)) return;
    if (c.kind == Kind::batch) {  // made in host memory, read by the device, once per step
      for (const Touch& t : touches) base_[at(Link::h2d)] += t.in_host ? c.bytes.value : 0;
      return;
    }
    const bool persistent = is_persistent(c.kind), dies = made_by_update(c.kind, plan_.precision);
    if (persistent && !dies) window_bytes_[c.window] += c.bytes.value;
    for (u64 t = 0; t < touches.size(); ++t) {
      const bool last = t + 1 == touches.size();
      Touch next = touches[last ? 0 : t + 1];
      if (last) next.position += turn_;
      if (next.reads) add_gap(c, touches[t], next, persistent);
    }
    if (!persistent) return;
    if (dies) return add_write_of_dying(c, touches);
    // Written once per step, unless it never leaves host memory.
    base_[at(Link::disk_write)] += c.bytes.value;
    savings_[at(Link::disk_write)].push_back({0, turn_ - 1, c.bytes.value, c.bytes.value});
  }

  // Written once per step, unless it stays in memory until its last use: at least during its longest gap.
  void add_write_of_dying(const Chunk& c, const std::vector<Touch>& touches) {
    i32 begin = 0, end = -1;
    for (u64 t = 0; t + 1 < touches.size(); ++t) {
      const i32 from = touches[t].position + 1, to = touches[t + 1].position - 1;
      if (!touches[t].in_host && to - from > end - begin) begin = from, end = to;
    }
    if (begin > end) return;
    add_saveable(Link::disk_write, c.bytes.value, begin, end);
  }

  void add_gap(const Chunk& c, const Touch& from, const Touch& to, bool persistent) {
    const u64 bytes = c.bytes.value;
    const i32 begin = from.position + 1, end = to.position - 1;
    const bool between_devices = !from.in_host && !to.in_host;
    // Between the tiers it always crosses the link, unless its home is on the device.
    if (from.in_host && !to.in_host) add_fixed(Link::h2d, c);
    if (!from.in_host && to.in_host && !persistent) add_fixed(Link::d2h, c);
    if (held_by_working_set(c, from, to)) return;
    if (between_devices) {
      add_saveable(Link::h2d, bytes, begin, end);
      if (!persistent) add_saveable(Link::d2h, bytes, begin, end);
    }
    add_saveable(Link::disk_read, bytes, begin, end);
    if (!persistent) add_saveable(Link::disk_write, bytes, begin, end);
    if (c.window == none || c.kind == Kind::grad_accum) return;
    if (between_devices) at_home_[c.window][at(Link::h2d)] += bytes;
  }

  // RETURNS: true for content that streaming holds anyway: chunk sets between their own updates and the ops
  // directly before or after those, and a boundary activation from its op to the next forward.
  bool held_by_working_set(const Chunk& c, const Touch& from, const Touch& to) const {
    if (c.kind == Kind::activation && from.writes && to.kind == OpKind::forward) return true;
    for (i32 p = from.position + 1; p < to.position; ++p)
      if (program_[static_cast<u64>(p % turn_)]->kind != OpKind::update) return false;
    return true;
  }

  void add_fixed(Link link, const Chunk& c) {
    base_[at(link)] += c.bytes.value;
    if (c.window != none) at_home_[c.window][at(link)] += c.bytes.value;
  }

  void add_saveable(Link link, u64 bytes, i32 begin, i32 end) {
    base_[at(link)] += bytes;
    if (end >= turn_) begin -= turn_, end -= turn_;
    savings_[at(link)].push_back({begin, end, bytes, bytes});
  }

  static bool is_disk(u32 link) { return link == at(Link::disk_read) || link == at(Link::disk_write); }
  static u32 at(Link link) { return static_cast<u32>(link); }

  const Plan& plan_;
  i32 turn_ = 0;
  std::vector<const Op*> program_;
  std::map<u32, std::vector<Touch>> touches_;  // by chunk, in program order
  std::array<u64, link_count> base_{};
  std::array<std::vector<Saving>, link_count> savings_;
  std::map<u32, u64> window_bytes_;
  std::map<u32, std::array<u64, link_count>> at_home_;  // by window: copies saved by a home on the device
};

struct Job {
  const char* name;
  const char* config;
  const char* precision;
  double most_over_least = 1.05;
};
void PrintTo(const Job& job, std::ostream* out) { *out << job.name; }

class LeastBytesOf : public testing::TestWithParam<Job> {};

TEST_P(LeastBytesOf, AgreesWithTheBoundThatPlansStayNear) {
  const std::string precision = std::string("train.precision=") + GetParam().precision;
  const auto config = load_config(source_file("configs/") + GetParam().config, {{precision}});
  ASSERT_TRUE(config) << config.error().message;
  const auto job = make_job(*config);
  ASSERT_TRUE(job) << job.error().message;
  const auto plan = make_plan(job->graph, job->options);
  ASSERT_TRUE(plan) << plan.error().message;
  const auto least = LeastBytes(*plan).bounds();
  const auto bound = lower_bound(*plan, job->graph);
  const auto moved = link_bytes(*plan, SegmentKind::body);
  for (u32 link = 0; link < link_count; ++link) {
    const std::string which(name(static_cast<LinkKind>(link)));
    RecordProperty(which,
                   std::to_string(static_cast<double>(moved[link].value) / static_cast<double>(least[link])));
    EXPECT_GE(moved[link].value, least[link]) << which;
    EXPECT_LE(static_cast<double>(moved[link].value),
              GetParam().most_over_least * static_cast<double>(least[link]))
        << which;
    EXPECT_NEAR(static_cast<double>(bound[link].value), static_cast<double>(least[link]),
                0.01 * static_cast<double>(least[link]))
        << which;
  }
}
INSTANTIATE_TEST_SUITE_P(Configs, LeastBytesOf,
                         testing::Values(Job{"quickstart", "quickstart.yaml", "bf16"},
                                         Job{"gpt_1_3b", "gpt-1.3b-3gib.yaml", "bf16"},
                                         Job{"gpt_1_3b_fp16", "gpt-1.3b-3gib.yaml", "fp16", 1.07}),
                         [](const auto& info) { return info.param.name; });

// From all streaming to all resident.
TEST(LeastBytes, PlansOfAnyBudgetsStayNearTheBoundOfAllLinks) {
  const auto config = load_config(source_file("configs/gpt-1.3b-3gib.yaml"), {});
  ASSERT_TRUE(config) << config.error().message;
  const auto job = make_job(*config);
  ASSERT_TRUE(job) << job.error().message;
  struct {
    u64 device_gib, host_gib;
  } const all[] = {{1, 2},  {1, 4},  {1, 8}, {1, 12}, {1, 16}, {2, 6},
                   {2, 10}, {2, 14}, {4, 8}, {4, 12}, {8, 8},  {12, 6}};
  for (const auto& [device_gib, host_gib] : all) {
    SCOPED_TRACE(std::to_string(device_gib) + " + " + std::to_string(host_gib) + " GiB");
    PlanOptions options = job->options;
    options.budgets.device = Bytes{device_gib * gib};
    options.budgets.host = Bytes{host_gib * gib};
    const auto plan = make_plan(job->graph, options);
    ASSERT_TRUE(plan) << plan.error().message;
    const auto least = lower_bound(*plan, job->graph), moved = link_bytes(*plan, SegmentKind::body);
    for (const Link link : {Link::disk_read, Link::disk_write})
      EXPECT_GE(moved[static_cast<u32>(link)].value, least[static_cast<u32>(link)].value) << name(link);
    const auto together = static_cast<double>(weighed(moved)),
               together_least = static_cast<double>(weighed_lower_bound(*plan, job->graph).value());
    EXPECT_GE(together, together_least);
    EXPECT_LE(together, 1.10 * together_least);
  }
}

}  // namespace tidepool::planner_least_bytes_test
