// Threads of the disks: no signals (they belong to the main thread), a name, and a place to run.
#pragma once

#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

// `name` has at most 15 characters. `cpus` empty: anywhere. A refused binding is ignored: it is a wish.
// Errors: as of start_thread.
Result<std::thread> start_io_thread(const char* name, const std::vector<int>& cpus,
                                    std::function<void()> body);

// How long to wait before try number `stalls` + 1: 0.1 ms doubling to 25.6 ms, so that piece_stalls_max
// tries span about a quarter of a second. Short transfers (stalls 0) go on at once.
std::chrono::microseconds retry_delay(u32 stalls);

}  // namespace tidepool
