// Tests StopSignals: signals in a row are one request to stop, a later one is the second.
#include "run/outputs/signals.h"

#include <gtest/gtest.h>

#include <csignal>
#include <thread>

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

}  // namespace tidepool::signals_test
