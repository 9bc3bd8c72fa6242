#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "tidepool/result.h"

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond `ulimit -f` is then an error that can be named
  try {
    return tidepool::run_cli(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::exception& e) {  // no code of ours throws: the standard library did
    std::fprintf(stderr, "tidepool: internal failure: %s\n", e.what());
    return static_cast<int>(tidepool::ErrorKind::internal);
  }
}
