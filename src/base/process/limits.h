// Limits that the system sets for this process. Errors about threads and memory that the kernel refused name
// the limit that binds, how much of it is in use, and how to raise it.
#pragma once

#include <sys/resource.h>

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

// A limit of setrlimit. Nothing: unlimited.
std::optional<Bytes> soft_limit_bytes(__rlimit_resource);

Bytes address_space_used();  // what RLIMIT_AS counts
Bytes process_peak();        // most that has been resident at once, as the OS counts it

// False where a limit on address space leaves less than the stack of a thread and what its allocator begins
// with.
bool has_room_for_thread();

// ErrorKind::does_not_fit: the kernel refused to start the thread, with `error_number`.
Error no_thread(std::string_view name, int error_number);

// ErrorKind::does_not_fit: the kernel refused to map `bytes`, with `error_number`. `what`: "the host arena";
// `advice`: what needs less of it, "lower memory.host".
Error no_memory(std::string_view what, Bytes bytes, int error_number, std::string_view advice);

}  // namespace tidepool
