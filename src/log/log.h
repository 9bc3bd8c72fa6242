// The log of this process: lines with time, level and node, for whoever looks for a cause later. A run writes
// it to run.log; what its terminal shows is in it, and more (docs/file-formats.md).
//
// Lines pass through a queue of limited length to a thread that writes them (spdlog's). Nothing here waits
// for a disk and nothing ends a run: a file that cannot be written, or not fast enough, lacks lines and says
// how many.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

enum class LogLevel : u8 { debug, info, warning, error, off };

// Errors: usage, naming `from`: "--log-level".
Result<LogLevel> parse_log_level(std::string_view text, std::string_view from);

struct LogOptions {
  LogLevel least = LogLevel::debug;
  u32 node = none;  // none: lines name no node
  u32 queue_lines = 1024;
  Bytes file_bytes_max{16 * mib};  // then the file becomes FILE.1, FILE.1 becomes FILE.2, and FILE.2 goes
};

// Starts to take lines; a no-op if the log has begun. Lines wait in memory until open_log().
// Errors: does_not_fit, if no thread can be started.
Result<void> start_log(const LogOptions&);
// Names the file, to which lines are appended; a no-op without a log, or if it has a file.
void open_log(const std::string& path);

// ---- A no-op without a log. THREADS: any.
bool takes_log(LogLevel);
// Each line of `text` becomes a line of the log.
void log_text(LogLevel, std::string_view text);
template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  if (!takes_log(LogLevel::debug)) return;
  fmt::memory_buffer line;  // on the stack: a step logs too
  fmt::format_to(std::back_inserter(line), format, std::forward<Args>(args)...);
  log_text(LogLevel::debug, {line.data(), line.size()});
}
// Waits until all lines are written, at most this long.
void settle_log(std::chrono::milliseconds most);

// Writes what waits, and closes the file. Gives up if nothing is written for `patience`: a disk may hang.
// RETURNS: a line for people on what the file lacks; empty: nothing. THREADS: when no other logs.
std::string finish_log(std::chrono::milliseconds patience = std::chrono::milliseconds(2000));

}  // namespace tidepool
