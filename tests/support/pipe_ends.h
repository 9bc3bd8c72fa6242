// PipeEnds is a pipe whose reader a test decides when to read.
#pragma once

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <string>

#include "base/check.h"
#include "base/fd.h"

namespace tidepool::test {

struct PipeEnds {
  PipeEnds() {
    int ends[2];
    CHECK(::pipe2(ends, O_CLOEXEC) == 0);
    reader = Fd(ends[0]), writer = Fd(ends[1]);
  }
  int unread_bytes() const {
    int bytes = 0;
    CHECK(::ioctl(reader.get(), FIONREAD, &bytes) == 0);
    return bytes;
  }
  // Closes the writing end, and reads until no other process has it open.
  std::string read_all() {
    writer = Fd();
    std::string out;
    char bytes[4096];
    for (ssize_t n; (n = ::read(reader.get(), bytes, sizeof bytes)) > 0;)
      out.append(bytes, static_cast<size_t>(n));
    return out;
  }

  Fd reader, writer;
};

}  // namespace tidepool::test
