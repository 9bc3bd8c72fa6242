// Items 12 and 16: one call of a run fails, whichever it is: every loss is named, the run continues if it
// can, and a run that ended can be resumed to the same bits. A sample of the calls, or all of them with
// TIDEPOOL_FAULTS=all (scripts/check_injected_faults.sh), or some with TIDEPOOL_FAULTS=100-200.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <regex>

#include "base/errno_text.h"
#include "report/run_report.h"
#include "tests/support/cases.h"
#include "tests/support/child_run.h"
#include "tests/support/file_text.h"
#include "tests/support/places.h"
#include "tests/support/train_fixture.h"

namespace tidepool::injected_faults_test {

namespace fs = std::filesystem;
using test::ChildRun;
using test::file_text;
using test::Numbers;
using test::numbers_of;
using test::TrainDir;
using ::testing::HasSubstr;

constexpr u64 steps = 20;

class InjectedFaults : public ::testing::TestWithParam<int> {
 protected:
  static Config config(const TrainDir& dir, const std::string& run) {
    Config c = test::small_config(dir, run);
    c.train.max_steps = steps;
    c.train.eval_steps = 10;
    c.output.save_steps = 5;
    c.output.last_save_minutes = 0.02;
    c.memory.swap_dir = dir / "swap";
    return c;
  }

  // Runs with the `call`-th call failing.
  // RETURNS: the exit code.
  int run_with_fault(const Config& config, u64 call) {
    log_ = config.output.dir + ".calls";
    const std::map<std::string, std::string> settings = {{"LD_PRELOAD", failing_calls_file()},
                                                         {"FAILING_UNDER", config.output.dir},
                                                         {"FAILING_CALL", fmt::format("{}", call)},
                                                         {"FAILING_ERRNO", fmt::format("{}", GetParam())},
                                                         {"FAILING_LOG", log_}};
    for (const auto& [name, value] : settings) ::setenv(name.c_str(), value.c_str(), 1);
    ChildRun child(config);
    for (const auto& [name, value] : settings) ::unsetenv(name.c_str());
    const int code = child.wait();
    output_ = child.output();
    return code;
  }

  struct Calls {
    u64 first = 1, last = 0, step = 1;
  };
  // TIDEPOOL_FAULTS: all, or 100-200; unset: a sample.
  static Calls wanted(u64 calls) {
    // primes, which are not the length of any loop of a save
    const u64 sampled = test::wants_all_cases() ? 19 : 97;
    const char* words = std::getenv("TIDEPOOL_FAULTS");
    Calls out{.last = calls};
    if (words == nullptr)
      return {.first = 1 + static_cast<u64>(GetParam()) % sampled, .last = calls, .step = sampled};
    if (std::sscanf(words, "%lu-%lu", &out.first, &out.last) == 2) out.last = std::min(out.last, calls);
    return out;
  }

  u64 calls_counted() const {
    std::smatch found;
    const std::string text = file_text(log_);
    return std::regex_search(text, found, std::regex("calls ([0-9]+)")) ? std::stoull(found[1]) : 0;
  }

  static u64 steps_in(const std::string& metrics) {
    u64 count = 0;
    for (u64 at = metrics.find("\"loss\""); at != std::string::npos; at = metrics.find("\"loss\"", at + 1))
      ++count;
    return count;
  }

  void expect_all_is_well_or_named(const Config& config, int code, const Numbers& undisturbed) {
    ASSERT_TRUE(code == 0 || code == 6) << code << "\n" << output_;
    const bool named = output_.find(errno_text(GetParam())) != std::string::npos;
    EXPECT_TRUE(named || code == 0) << output_;
    if (code == 0) expect_whole(config, undisturbed);
    const auto resumed = test::run(config, {.resume = "auto"});
    ASSERT_TRUE(resumed) << resumed.error().message;
    EXPECT_EQ(resumed->weights_xxh3, undisturbed.weights_xxh3);
    EXPECT_EQ(resumed->losses, undisturbed.losses);
    for (const auto& entry : fs::directory_iterator(config.output.dir))
      EXPECT_THAT(entry.path().filename().string(), ::testing::Not(HasSubstr("tmp-")));
  }

  // Expects all steps with their numbers; missing ones must have been named.
  void expect_whole(const Config& config, const Numbers& undisturbed) {
    const auto report = read_report(config.output.dir);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(numbers_of(*report), undisturbed);
    const bool one_before =
        fs::exists(config.output.dir + "/checkpoint-15") || fs::exists(config.output.dir + "/checkpoint-10");
    EXPECT_TRUE(one_before || output_.find("WARNING: checkpoint of step") != std::string::npos) << output_;
    const bool all_logged = steps_in(file_text(config.output.dir + "/metrics.jsonl")) == steps;
    EXPECT_TRUE(all_logged || output_.find("WARNING: metrics.jsonl lacks") != std::string::npos) << output_;
  }

  const TrainDir dir_;
  std::string log_, output_;
};

TEST_P(InjectedFaults, EachCallFailsOnce) {
  if (under_sanitizer()) GTEST_SKIP() << "SKIPPED: a sanitizer's library must be the first that is loaded";
  const Config whole = config(dir_, "whole");
  ASSERT_EQ(run_with_fault(whole, 0), 0) << output_;
  const u64 calls = calls_counted();
  ASSERT_GT(calls, 100u) << file_text(log_);
  const auto report = read_report(whole.output.dir);
  ASSERT_TRUE(report);
  const Numbers undisturbed = numbers_of(*report);

  const Calls calls_to_fail = wanted(calls);
  u64 ended = 0, went_on = 0, failed = 0;
  for (u64 call = calls_to_fail.first; call <= calls_to_fail.last; call += calls_to_fail.step, ++failed) {
    const Config c = config(dir_, fmt::format("run{}", call));
    const int code = run_with_fault(c, call);
    SCOPED_TRACE(fmt::format("FAILING_CALL={} FAILING_ERRNO={}: {}", call, GetParam(), file_text(log_)));
    expect_all_is_well_or_named(c, code, undisturbed);
    ++(code == 0 ? went_on : ended);
    if (!HasFailure()) fs::remove_all(c.output.dir);
  }
  fmt::print("{} of {} calls failed with {}: {} runs went on to their end, {} ended and were resumed\n",
             failed, calls, errno_text(GetParam()), went_on, ended);
}

INSTANTIATE_TEST_SUITE_P(Errors, InjectedFaults, ::testing::Values(ENOSPC, EIO),
                         [](const auto& info) { return info.param == ENOSPC ? "ENOSPC" : "EIO"; });

}  // namespace tidepool::injected_faults_test
