// The one answer to a failed allocation: the process says which limit binds, and ends with exit code 3.
//
// Unwinding was rejected: most threads have nobody to tell, destructors would wait for transfers in flight,
// and messages need memory themselves. A run at steady state allocates nothing, so this strikes before the
// first step or at rest; the last checkpoint is intact.
#pragma once

namespace tidepool {

// From now on; at once where the address space is so full that no allocator can begin. `tidy`: called before
// the end, on any thread; must neither allocate nor wait for long.
void end_when_out_of_memory(void (*tidy)());

// For memory that a library was refused, and said so by std::bad_alloc.
[[noreturn]] void end_out_of_memory();

}  // namespace tidepool
