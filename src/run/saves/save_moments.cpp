#include "run/saves/save_moments.h"

#include <cerrno>
#include <csignal>

#include "report/standard_writers.h"

namespace tidepool {
namespace {

volatile std::sig_atomic_t save_asked = 0;
const char* asked_words = "";
struct sigaction action_before;

void on_save_signal(int) {
  const int error = errno;  // keeps errno of the interrupted code
  save_asked = 1;
  say_in_handler(asked_words);
  errno = error;
}

void on_early_signal(int) { save_asked = 1; }

}  // namespace

void SaveSignal::hear_early() {
  struct sigaction action {};
  if (::sigaction(SIGUSR1, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) return;
  action.sa_handler = on_early_signal;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  ::sigaction(SIGUSR1, &action, nullptr);
}

const char* SaveSignal::words(bool saves) {
  return saves ? "tidepool: SIGUSR1: saving after this step\n"
               : "tidepool: SIGUSR1: output.save is false, so nothing is saved\n";
}

SaveSignal::SaveSignal(const char* heard) {
  asked_words = heard;
  struct sigaction action {};
  action.sa_handler = on_save_signal;
  action.sa_flags = SA_RESTART | SA_ONSTACK;  // ONSTACK: uses the signal stack of StopSignals, if any
  ::sigaction(SIGUSR1, &action, &action_before);
  if (save_asked != 0) say_in_handler(asked_words);
}

SaveSignal::~SaveSignal() {
  ::sigaction(SIGUSR1, &action_before, nullptr);
  save_asked = 0;
}

bool SaveSignal::asked() { return save_asked != 0; }
void SaveSignal::forget() { save_asked = 0; }

bool SaveMoments::due(u64 step, double now) const {
  if (!output_.save) return false;
  if (output_.save_steps != 0 && step % output_.save_steps == 0) return true;
  if (output_.save_minutes > 0 && now - last_try_ >= output_.save_minutes * 60) return true;
  return SaveSignal::asked();
}

void SaveMoments::tried(double now) {
  last_try_ = now;
  SaveSignal::forget();
}

}  // namespace tidepool
