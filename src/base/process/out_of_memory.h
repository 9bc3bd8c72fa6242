// end_when_out_of_memory() decides the one answer to a failed allocation: the process prints which limit
// binds, and ends with exit code 3.
//
// Unwinding was rejected: most threads have no caller to report to, destructors would wait for transfers in
// flight, and messages need memory themselves. A run at steady state allocates nothing, so this happens
// before the first step or at rest; the last checkpoint is intact.
#pragma once

namespace tidepool {

// Makes later failed allocations end the process. Ends it at once if the address space is too full for any
// allocator to start.
// `tidy` is called before the end, on any thread; it must neither allocate nor wait for long.
void end_when_out_of_memory(void (*tidy)());

// Ends the process when a library reported a failed allocation by std::bad_alloc.
[[noreturn]] void end_out_of_memory();

}  // namespace tidepool
