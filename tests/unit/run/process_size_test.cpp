// Memory of the whole process, said before the first step.
#include <gmock/gmock.h>

#include "fit/job.h"
#include "fit/memory_need.h"
#include "kernels/kernels.h"
#include "planner/planner.h"
#include "run/outputs/training_memory.h"
#include "tests/support/asked_plan.h"
#include "tests/support/child_run.h"
#include "tests/support/file_text.h"
#include "tests/support/places.h"
#include "tests/support/train_fixture.h"

namespace tidepool::process_size_test {

using test::TrainDir;

Plan plan_of(const Config& c) { return make_plan(make_job(c).value().graph, plan_options(c)).value(); }

TEST(ProcessSize, CountsTheScratchOfEveryThread) {
  const TrainDir dir;
  const Config c = test::small_config(dir);
  const Plan plan = plan_of(c);
  const auto beside = [&](u32 workers) { return memory_need(c, plan, {.workers = workers}).beside; };
  EXPECT_GE(beside(5), beside(1) + kernel_scratch_per_worker * 4u);
}

TEST(ProcessSize, CountsThePlansOps) {
  const TrainDir dir;
  Config c = test::small_config(dir);
  const Plan small = plan_of(c);
  c.memory.home = HomePolicy::disk;
  c.memory.chunk_size = Bytes{4 * kib};
  const Plan large = plan_of(c);
  ASSERT_GT(large.segment(SegmentKind::body).ops.size(), 2 * small.segment(SegmentKind::body).ops.size());
  EXPECT_GT(memory_need(c, large, {}).beside, memory_need(c, small, {}).beside);
}

// Reading weights ends before the first step: of both, the larger counts, and a small file needs little.
TEST(ProcessSize, CountsTheReaderOfWeightsOrTheSteps) {
  const TrainDir dir;
  const Config c = test::small_config(dir);
  const Plan plan = plan_of(c);
  const auto beside = [&](bool loads, Bytes steps) {
    return memory_need(c, plan, {.loads_weights = loads, .steps = steps}).beside;
  };
  EXPECT_GT(beside(true, Bytes{}), beside(false, Bytes{}));
  EXPECT_LT(beside(true, Bytes{}), beside(false, Bytes{}) + Bytes{4 * mib});
  EXPECT_EQ(beside(true, Bytes{64 * mib}), beside(false, Bytes{64 * mib}));
}

TEST(ProcessSize, CountsTheTraceUpToItsLimit) {
  const TrainDir dir;
  Config c = test::small_config(dir);
  const Plan plan = plan_of(c);
  const auto of_trace = [&](u64 steps) {
    c.train.max_steps = steps;
    c.output.trace = true;
    const Bytes with = training_memory(c, plan);
    c.output.trace = false;
    return with - training_memory(c, plan);
  };
  EXPECT_LT(of_trace(4), of_trace(8));
  EXPECT_EQ(of_trace(1'000'000), of_trace(1'000'000'000));
  EXPECT_LE(of_trace(1'000'000), Bytes{16 * mib});
}

// Regression: a run without an end was refused for memory that it would take after years.
TEST(ProcessSize, OfARunWithoutAnEndIsNotThatOfAllItsSteps) {
  const TrainDir dir;
  Config c = test::small_config(dir);
  c.train.max_steps = 1'000'000'000;
  EXPECT_LT(training_memory(c, plan_of(c)), Bytes{80 * mib});
}

TEST(ProcessSize, IsSaidBeforeTheFirstStepAndIsTrue) {
  if (under_sanitizer()) GTEST_SKIP() << "SKIPPED: a sanitizer's shadow is not counted";
  const TrainDir dir;
  Config c = test::small_config(dir);
  c.machine.threads = 3;
  c.output.save = false;
  test::ChildRun child(c);
  ASSERT_EQ(child.wait(), 0) << child.output();
  const std::string out = child.output();
  const size_t said = out.find("process: about ");
  ASSERT_NE(said, std::string::npos) << out;
  EXPECT_LT(said, out.find("step 1/"));
  const double told = std::atof(out.c_str() + said + sizeof "process: about " - 1) * mib;
  const std::string report = test::file_text(c.output.dir + "/report.json");
  const size_t at = report.find("\"rss_peak_bytes\":");
  ASSERT_NE(at, std::string::npos);
  const double measured = std::atof(report.c_str() + at + sizeof "\"rss_peak_bytes\":" - 1);
  EXPECT_NEAR(told, measured, std::max(0.1 * measured, 8.0 * mib));
}

}  // namespace tidepool::process_size_test
