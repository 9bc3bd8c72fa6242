// Tests StopSignals: signals in a row are one request to stop, a later one is the second.
#include "run/outputs/signals.h"

#include <gtest/gtest.h>

#include <csignal>
#include <thread>

#include "run/saves/save_moments.h"

namespace tidepool::signals_test {

class StopSignalsTest : public ::testing::Test {
 protected:
  StopSignalsTest() { std::signal(SIGHUP, SIG_DFL); }  // even if the test runner ignores it
};

TEST_F(StopSignalsTest, SignalsInARowAreOneRequest) {
  const StopSignals signals;
  for (const int number : {SIGHUP, SIGHUP, SIGTERM, SIGINT, SIGTERM}) std::raise(number);
  EXPECT_EQ(StopSignals::signal_number(), SIGHUP);
}

TEST_F(StopSignalsTest, SighupIsNeverTheSecond) {
  const StopSignals signals;
  std::raise(SIGTERM);
  std::this_thread::sleep_for(same_request * 11 / 10);
  std::raise(SIGHUP);
  EXPECT_EQ(StopSignals::signal_number(), SIGTERM);
}

TEST(StopSignalsDeathTest, ALaterSecondEndsTheProcess) {
  const auto interrupt_twice = [] {
    const StopSignals signals;
    std::raise(SIGINT);
    std::this_thread::sleep_for(same_request * 11 / 10);
    std::raise(SIGINT);
  };
  EXPECT_EXIT(interrupt_twice(), ::testing::ExitedWithCode(128 + SIGINT), "stopped at once");
}

// Regression: SIGUSR1 ended a process that had just begun.
TEST(SaveSignalTest, TakesARequestThatCameBeforeIt) {
  std::signal(SIGUSR1, SIG_DFL);
  SaveSignal::hear_early();
  std::raise(SIGUSR1);
  {
    const SaveSignal signal("");
    EXPECT_TRUE(SaveSignal::asked());
  }
  EXPECT_FALSE(SaveSignal::asked());
  const SaveSignal next("");
  EXPECT_FALSE(SaveSignal::asked());
}

TEST(SaveSignalTest, LeavesAnIgnoredSignalIgnored) {
  std::signal(SIGUSR1, SIG_IGN);
  SaveSignal::hear_early();
  EXPECT_EQ(std::signal(SIGUSR1, SIG_DFL), SIG_IGN);
}

}  // namespace tidepool::signals_test
