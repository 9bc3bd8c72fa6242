// Starts threads for disks: named, optionally bound to CPUs, all signals blocked (the main thread handles
// them).
#pragma once

#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

// REQUIRES: `name` has at most 15 characters. With empty `cpus` the thread runs anywhere. A refused binding
// is ignored, because binding only improves speed.
// Errors: as start_thread.
Result<std::thread> start_io_thread(const char* name, const std::vector<int>& cpus,
                                    std::function<void()> body);

// RETURNS: delay before try number `stalls` + 1: 0.1 ms doubling to 25.6 ms, so that piece_stalls_max tries
// span about a quarter of a second. Short transfers (stalls 0) continue at once.
std::chrono::microseconds retry_delay(u32 stalls);

}  // namespace tidepool
