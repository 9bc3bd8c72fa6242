// Limits of the system for this process. When the kernel refuses a thread or memory, the errors name the
// limit that binds, how much of it is in use, and how to raise it.
#pragma once

#include <sys/resource.h>

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

// Soft limit of setrlimit; none: unlimited.
std::optional<Bytes> soft_limit_bytes(__rlimit_resource);

Bytes address_space_used();  // address space that RLIMIT_AS counts
Bytes process_peak();        // peak resident memory, as the OS counts it
Bytes process_resident();    // resident memory now

// False if a limit on address space leaves less than a thread's stack and the first arena of its allocator
// need.
bool has_room_for_thread();

// ErrorKind::does_not_fit: the kernel refused to start a thread and set `error_number`.
Error no_thread(std::string_view name, int error_number);

// ErrorKind::does_not_fit: the kernel refused to map `bytes` and set `error_number`. `what`: "the host
// arena"; `advice` says how to need less, "lower memory.host".
Error no_memory(std::string_view what, Bytes bytes, int error_number, std::string_view advice);

}  // namespace tidepool
