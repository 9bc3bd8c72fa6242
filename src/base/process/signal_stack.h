// Signals beside kernels that are made at run time: those keep the stack pointer in scratch memory while they
// compute, and the frame of a signal's handler would lie over what is next to it.
#pragma once

#include <csignal>

namespace tidepool {

// Gives the calling thread a stack for handlers with SA_ONSTACK, if it has none. For the one thread that
// signals come to: those of start_thread() have them blocked.
void take_signal_stack();

// Blocks all signals but those of faults, in the calling thread and in those that it starts meanwhile.
class BlockedSignals {
 public:
  BlockedSignals();
  ~BlockedSignals();
  BlockedSignals(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace tidepool
