// Runs commands as a user types them, in this process.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "cli/cli.h"

namespace tidepool::test {

struct CommandOutcome {
  int code = 0;
  std::string out, err;
};

inline CommandOutcome run_command(const std::vector<std::string>& words) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  CommandOutcome outcome{.code = run_cli(words)};
  std::fflush(stdout);
  outcome.out = ::testing::internal::GetCapturedStdout();
  outcome.err = ::testing::internal::GetCapturedStderr();
  return outcome;
}

}  // namespace tidepool::test
