#include "tidepool/check.h"

#include <cstdio>
#include <cstdlib>

namespace tidepool {

void check_failed(const char* file, int line, const char* condition, const char* names,
                  const std::string& values) {
  std::fprintf(stderr, "tidepool: %s:%d: CHECK(%s) failed\n", file, line, condition);
  if (*names != '\0') std::fprintf(stderr, "  %s = %s\n", names, values.c_str());
  std::fputs("  This is a bug in Tidepool. Please report it with the command and config.yaml.\n", stderr);
  std::abort();
}

}  // namespace tidepool
