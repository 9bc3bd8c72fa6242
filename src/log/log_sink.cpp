#include "log/log_sink.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace tidepool {
namespace {

namespace fs = std::filesystem;

// A run that prepares says less than this before its directory is known.
constexpr u64 waiting_bytes_max = 256 * kib;

std::string lines_text(u64 count) { return fmt::format("{} line{}", count, count == 1 ? "" : "s"); }

}  // namespace

LogSink::LogSink(Bytes file_bytes_max, std::function<u64()> left_out)
    : file_bytes_max_(file_bytes_max.value), left_out_(std::move(left_out)) {}

void LogSink::open(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (path_.empty()) path_ = path;
}

bool LogSink::has_path() const {
  const std::lock_guard lock(mutex_);
  return !path_.empty();
}

void LogSink::sink_it_(const spdlog::details::log_msg& message) {
  struct Handled {  // also if formatting throws
    std::atomic<u64>& count;
    ~Handled() { ++count; }
  } const handled{handled_};
  tell_of_left_out();
  spdlog::memory_buf_t line;
  formatter_->format(message, line);
  take_line({line.data(), line.size()});
}

void LogSink::take_line(std::string_view line) {
  if (!has_path()) {
    if (waiting_.size() + line.size() <= waiting_bytes_max)
      waiting_ += line;
    else
      lose(line, "the run's directory was not known for long");
    return;
  }
  write_waiting();
  if (lost_ > told_lost_) {
    const u64 missing = lost_ - told_lost_;
    const std::string note =
        fmt::format("({} could not be written here: {})\n", lines_text(missing), reason_);
    if (append(note)) told_lost_ = lost_, file_bytes_ += note.size();
  }
  write(line);
}

void LogSink::write_waiting() {
  if (!waiting_.empty() && has_path()) write(std::exchange(waiting_, {}));
}

void LogSink::tell_of_left_out() {
  const u64 now = left_out_();
  if (now == told_left_out_) return;
  take_line(fmt::format("({} left out here: they came faster than the file takes them)\n",
                        lines_text(now - told_left_out_)));
  told_left_out_ = now;
}

bool LogSink::write(std::string_view text) {
  if (file_bytes_ + text.size() > file_bytes_max_ && file_bytes_ > 0) turn_over();
  const Result<void> done = append(text);
  if (done) {
    file_bytes_ += text.size();
    return true;
  }
  lose(text, done.error().message);
  return false;
}

void LogSink::lose(std::string_view lines, std::string reason) {
  const std::lock_guard lock(mutex_);
  reason_ = std::move(reason);
  lost_ += static_cast<u64>(std::ranges::count(lines, '\n'));
}

Result<void> LogSink::append(std::string_view text) {
  if (!file_) {
    TRY_ASSIGN(AppendLog file, AppendLog::open(path_, FileUse::run));
    file_ = std::move(file);
    std::error_code unknown;
    const auto size = fs::file_size(path_, unknown);
    file_bytes_ = unknown ? 0 : size;
  }
  return file_->append(text);
}

// If a file cannot be renamed, this one grows on.
void LogSink::turn_over() {
  std::error_code failed;
  fs::rename(path_ + ".1", path_ + ".2", failed);
  fs::rename(path_, path_ + ".1", failed);
  file_bytes_ = 0;
  if (!failed) file_.reset();
}

std::string LogSink::what_is_missing() const {
  const std::lock_guard lock(mutex_);
  const u64 left_out = left_out_();
  std::string out;
  if (lost_ > 0) out = fmt::format("{} could not be written: {}", lines_text(lost_), reason_);
  if (left_out > 0)
    out += fmt::format("{}{} came faster than the file takes them", out.empty() ? "" : "; ",
                       lines_text(left_out));
  return out.empty() ? out : fmt::format("{} is not complete: {}", path_, out);
}

}  // namespace tidepool
