// Keeps signal handlers off the stacks of JIT-compiled kernels. Those kernels keep the stack pointer in
// scratch memory while they compute, where the frame of a signal handler would overwrite what is next to it.
#pragma once

#include <csignal>

namespace tidepool {

// Gives the calling thread a stack for handlers with SA_ONSTACK, if it has none. Call it in the thread that
// receives signals: threads of start_thread() have signals blocked.
void take_signal_stack();

// BlockedSignals blocks all signals except those of faults (such as SIGSEGV), in the calling thread and in
// the threads that it starts meanwhile.
class BlockedSignals {
 public:
  BlockedSignals();
  ~BlockedSignals();
  BlockedSignals(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace tidepool
