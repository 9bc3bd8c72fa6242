#include "cli/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>

#include "base/errno_text.h"
#include "base/result.h"
#include "base/write_within.h"
#include "report/standard_writers.h"

namespace tidepool {

void fill_missing_streams() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
    // Standard output is opened read-only, so that writing to it fails, as it would on the closed stream.
    const int mode = fd == STDOUT_FILENO ? O_RDONLY : O_RDWR;
    if (::open("/dev/null", mode) != fd) return;  // open() takes the lowest free number, which is `fd`
  }
}

int output_lost(int error_number) {
  const std::string why = error_number == 0 ? "" : ": " + errno_text(error_number);
  write_within(STDERR_FILENO, "tidepool: cannot write to standard output" + why + "\n");
  return static_cast<int>(ErrorKind::io);
}

int flush_output(int code) {
  errno = 0;
  const bool direct_lost = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  const int why = direct_lost ? errno : error_of_writers();
  return (direct_lost || why != 0) && code == 0 ? output_lost(why) : code;
}

}  // namespace tidepool
