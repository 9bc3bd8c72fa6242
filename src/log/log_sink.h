// LogSink writes the lines of spdlog's thread to a file, and makes room by turning old files over.
#pragma once

#include <spdlog/details/null_mutex.h>
#include <spdlog/sinks/base_sink.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "base/types.h"
#include "base/write_file.h"

namespace tidepool {

class LogSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  // `left_out`: lines that the queue had no room for, so far.
  LogSink(Bytes file_bytes_max, std::function<u64()> left_out);

  // THREADS: any. The file is opened with the next line.
  void open(const std::string& path);
  bool has_path() const;

  u64 handled() const { return handled_; }  // THREADS: any
  // Writes lines that came before the file had a name, if none has come since. REQUIRES: as below.
  void write_waiting();
  // A line for people; empty: nothing is missing. REQUIRES: the thread has ended, or is held.
  std::string what_is_missing() const;

 protected:
  void sink_it_(const spdlog::details::log_msg&) override;
  void flush_() override {}  // each line is written at once

 private:
  void take_line(std::string_view line);
  void tell_of_left_out();
  bool write(std::string_view text);
  void lose(std::string_view lines, std::string reason);
  Result<void> append(std::string_view text);
  void turn_over();

  const u64 file_bytes_max_;
  const std::function<u64()> left_out_;
  mutable std::mutex
      mutex_;  // guards path_, lost_ and reason_, of which only the thread changes the last two
  std::string path_;
  std::atomic<u64> handled_ = 0;

  // Only the thread uses these.
  std::string waiting_;  // lines before the file has a name
  std::optional<AppendLog> file_;
  u64 file_bytes_ = 0;
  u64 told_left_out_ = 0;         // of left_out_()
  u64 lost_ = 0, told_lost_ = 0;  // lines that could not be written
  std::string reason_;            // why the newest of them could not
};

}  // namespace tidepool
