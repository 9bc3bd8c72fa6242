// PseudoTerminal has an emulator behind it: a program's output is seen as on a screen.
#pragma once

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <string>

#include "base/check.h"
#include "base/fd.h"
#include "tests/support/terminal_emulator.h"

namespace tidepool::test {

class PseudoTerminal {
 public:
  PseudoTerminal(TerminalEmulator::Size size, TerminalEmulator::OnResize on_resize)
      : master_(::posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC)), screen_(size, on_resize) {
    CHECK(master_.get() >= 0 && ::grantpt(master_.get()) == 0 && ::unlockpt(master_.get()) == 0);
    std::array<char, 64> name{};
    CHECK(::ptsname_r(master_.get(), name.data(), name.size()) == 0);
    path_ = name.data();
    // kept open, so that size and contents stay
    slave_ = Fd(::open(path_.c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC));
    CHECK(slave_.get() >= 0);
    set_size(size);
  }

  const std::string& path() const { return path_; }  // for the writing process to open
  // Reads new output. Call often: a terminal with a few unread kilobytes blocks writers.
  const TerminalEmulator& screen() {
    std::array<char, 4096> bytes;
    for (ssize_t n; (n = ::read(master_.get(), bytes.data(), bytes.size())) > 0;)
      screen_.write({bytes.data(), static_cast<std::size_t>(n)});
    return screen_;
  }
  // Ctrl-S and Ctrl-Q: the terminal takes nothing until it goes on.
  void stop() { CHECK(::tcflow(slave_.get(), TCOOFF) == 0); }
  void go_on() { CHECK(::tcflow(slave_.get(), TCOON) == 0); }
  void resize(TerminalEmulator::Size size) {
    screen();
    set_size(size);
    screen_.resize(size);
  }

 private:
  void set_size(TerminalEmulator::Size size) {
    const winsize to{.ws_row = static_cast<unsigned short>(size.rows),
                     .ws_col = static_cast<unsigned short>(size.columns),
                     .ws_xpixel = 0,
                     .ws_ypixel = 0};
    CHECK(::ioctl(slave_.get(), TIOCSWINSZ, &to) == 0);
  }

  Fd master_, slave_;
  std::string path_;
  TerminalEmulator screen_;
};

}  // namespace tidepool::test
