#include "base/process/signal_stack.h"

#include <pthread.h>

#include <array>
#include <cstddef>

#include "base/types.h"

namespace tidepool {
namespace {

// A signal frame holds all vector registers (11 KiB with AMX); handlers print and remove files.
alignas(64) std::array<std::byte, 128 * kib> stack;

}  // namespace

void take_signal_stack() {
  stack_t had{};
  if (sigaltstack(nullptr, &had) != 0 || (had.ss_flags & SS_DISABLE) == 0) return;
  const stack_t own{.ss_sp = stack.data(), .ss_flags = 0, .ss_size = stack.size()};
  sigaltstack(&own, nullptr);
}

BlockedSignals::BlockedSignals() {
  sigset_t all;
  sigfillset(&all);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS}) sigdelset(&all, fault);
  pthread_sigmask(SIG_SETMASK, &all, &before_);
}

BlockedSignals::~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

}  // namespace tidepool
