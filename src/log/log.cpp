#include "log/log.h"

#include <spdlog/async.h>
#include <spdlog/async_logger.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <memory>
#include <thread>

#include "base/process/limits.h"
#include "base/process/signal_stack.h"
#include "log/log_sink.h"

namespace tidepool {
namespace {

using std::chrono::milliseconds;

constexpr std::array<std::string_view, 5> level_names = {"debug", "info", "warning", "error", "off"};

spdlog::level::level_enum level_of(LogLevel level) {
  constexpr std::array of = {spdlog::level::debug, spdlog::level::info, spdlog::level::warn,
                             spdlog::level::err, spdlog::level::off};
  return of[static_cast<size_t>(level)];
}

std::string pattern_of(u32 node) {
  const std::string of_node = node == none ? "" : fmt::format(" node {}", node);
  return "%Y-%m-%d %H:%M:%S.%e %-7l" + of_node + " %v";
}

struct Log {
  std::shared_ptr<spdlog::details::thread_pool> pool;
  std::shared_ptr<LogSink> sink;
  std::shared_ptr<spdlog::async_logger> logger;
  std::atomic<u64> taken = 0;

  bool is_settled() const { return sink->handled() + pool->overrun_counter() >= taken; }
  // RETURNS: false if the thread has written nothing for `patience`, or not all within `most`.
  bool settle(milliseconds patience, milliseconds most) const {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point begin = Clock::now();
    Clock::time_point moved = begin;
    for (u64 before = sink->handled(); !is_settled();) {
      std::this_thread::sleep_for(milliseconds(1));
      const Clock::time_point now = Clock::now();
      if (const u64 handled = sink->handled(); handled != before) before = handled, moved = now;
      if (now - moved > patience || now - begin > most) return false;
    }
    return true;
  }
};

// Not owned: a log that the disk holds is never destroyed.
std::atomic<Log*> process_log = nullptr;

}  // namespace

Result<LogLevel> parse_log_level(std::string_view text, std::string_view from) {
  for (size_t i = 0; i < level_names.size(); ++i)
    if (text == level_names[i]) return static_cast<LogLevel>(i);
  return Error{ErrorKind::usage,
               fmt::format("{}: '{}' is not debug, info, warning, error or off", from, text)};
}

Result<void> start_log(const LogOptions& options) {
  if (process_log != nullptr || options.least == LogLevel::off) return {};
  const auto refused = [](int error_number) { return no_thread("tp-log", error_number); };
  if (soft_limit_bytes(RLIMIT_AS) && !has_room_for_thread()) return refused(EAGAIN);
  auto log = std::make_unique<Log>();
  try {
    const BlockedSignals blocked;  // as in all threads but the first
    log->pool = std::make_shared<spdlog::details::thread_pool>(
        options.queue_lines, 1, [] { pthread_setname_np(pthread_self(), "tp-log"); });
  } catch (const std::system_error& e) {
    return refused(e.code().value());
  }
  log->sink = std::make_shared<LogSink>(options.file_bytes_max,
                                        [pool = log->pool.get()] { return u64{pool->overrun_counter()}; });
  log->logger = std::make_shared<spdlog::async_logger>("run", log->sink, log->pool,
                                                       spdlog::async_overflow_policy::overrun_oldest);
  log->logger->set_pattern(pattern_of(options.node));
  log->logger->set_level(level_of(options.least));
  log->logger->set_error_handler([](const std::string&) {});
  process_log = log.release();
  return {};
}

void open_log(const std::string& path) {
  if (Log* const log = process_log; log != nullptr) log->sink->open(path);
}

bool takes_log(LogLevel level) {
  const Log* const log = process_log;
  return log != nullptr && log->logger->should_log(level_of(level));
}

void log_text(LogLevel level, std::string_view text) {
  Log* const log = process_log;
  if (log == nullptr || !log->logger->should_log(level_of(level))) return;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    if (!line.empty()) {
      ++log->taken;
      log->logger->log(level_of(level), spdlog::string_view_t(line.data(), line.size()));
    }
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

void settle_log(milliseconds most) {
  if (const Log* const log = process_log; log != nullptr) log->settle(most, most);
}

std::string finish_log(milliseconds patience) {
  const std::unique_ptr<Log> log(process_log.exchange(nullptr));
  if (log == nullptr) return "";
  const bool settled = log->settle(patience, std::chrono::hours(1));
  if (settled) log->sink->write_waiting();
  std::string missing = log->sink->has_path() ? log->sink->what_is_missing() : "";
  if (settled) return missing;
  // The disk holds the thread, and its queue with it.
  new std::shared_ptr(log->pool);
  return missing;
}

}  // namespace tidepool
