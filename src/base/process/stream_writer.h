// StreamWriter writes text for people to a stream by a thread of its own, so that a reader who does not read
// (a stopped terminal, `less`, a launcher that ends) never holds the threads that print.
//
// Text waits in a queue of limited size. If the queue is full, the oldest lines are left out: whole lines,
// and a line in their place says how many. So a reader who looks again sees the newest lines, which are those
// that matter at the end of a run. A picture (a view that is drawn again and again) waits in a place of its
// own: a newer one replaces it.
//
// A pipe is never filled: three quarters of it stay empty until finish(). So the last lines of a process find
// room in the pipe whether anybody reads or not, and are there when somebody does, also after the process has
// ended.
#pragma once

#include <semaphore.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

enum class StandardStream : u8 { output, error };

class StreamWriter {
 public:
  using Clock = std::chrono::steady_clock;
  struct Options {
    StandardStream file = StandardStream::output;  // both print to the same file, if both do
    std::array<int, 2> fds = {1, 2};               // of each stream
    std::string erase;  // removes a picture, if the cursor is where the picture left it
    u64 queue_bytes_max = 1024 * 1024;
    // finish() gives up if no byte is taken for this long.
    std::chrono::milliseconds patience{2000};
  };

  // Errors: those of start_thread().
  static Result<std::unique_ptr<StreamWriter>> create(const Options&);
  // REQUIRES: finish() returned true. Otherwise keep the object until the process ends: its thread is held by
  // the reader, and cannot be stopped.
  ~StreamWriter();
  StreamWriter(const StreamWriter&) = delete;

  // ---- Nothing of this waits for a reader.
  // THREADS: any.
  // REQUIRES: the stream is that of options.file, or the same file.
  void print(StandardStream, std::string_view text);
  // Shows `picture` below the last line, in place of the picture before; empty: only removes that one.
  void draw(StandardStream, std::string_view picture);
  // Prints `text` to `to`, the writer of standard error, once a write to standard output has failed.
  void when_lost(StreamWriter& to, const std::string& text);
  // RETURNS: the error of the first write that failed; 0: none failed.
  int lost(StandardStream stream) const { return lost_[static_cast<size_t>(stream)]; }
  // RETURNS: lines that were left out, and after finish() those that wait for a reader.
  u64 lines_left_out() const { return left_out_all_ + held_; }

  // ---- For signal handlers: async-signal-safe.
  // Prints `literal` to standard error. A first line feed is left out where it would follow a picture.
  void say(const char* literal);
  // Waits until everything is written, for `milliseconds` at most.
  void settle(int milliseconds);

  // Writes what waits. Gives up if the reader has taken nothing for options.patience, counted from `begin` at
  // the earliest; a pipe then gets the newest lines, as many as find room. RETURNS: true if the thread has
  // ended; false if the reader holds it. REQUIRES: nothing is printed any more.
  bool finish(Clock::time_point begin = Clock::now());

 private:
  struct Piece {  // some lines, or a part of a long one
    StandardStream stream{};
    std::string text;
    u64 lines = 0;
  };
  struct Batch {
    enum { nothing, too_long_for_pipe, ready } state = nothing;
    Piece piece;
  };

  explicit StreamWriter(const Options& options);

  void run();
  Batch words_of_handlers();
  Batch take();
  void leave_out_first();
  std::string notice() const;
  u64 room(u64 at_least);
  void write(const Piece&);
  int fd_of(StandardStream stream) const { return options_.fds[static_cast<size_t>(stream)]; }
  void failed(StandardStream, int error_number);
  void wake();
  void wait_a_moment();

  const Options options_;
  const u64 pipe_bytes_;  // the pipe's size; 0: no pipe
  const u64 batch_bytes_;
  std::array<std::atomic<int>, 2> lost_{};
  std::array<std::atomic<const char*>, 8> said_{};  // by signal handlers, not printed yet
  std::atomic<u64> asked_ = 0, settled_ = 0;        // equal: everything is written
  std::atomic<u64> left_out_all_ = 0, held_ = 0;
  sem_t wake_{};

  // Only the thread uses these.
  bool drawn_ = false;    // the newest output is a picture
  bool in_line_ = false;  // the newest output does not end a line
  u64 unread_ = 0;        // bytes in the pipe when it was looked at last

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Piece> queue_;
  u64 queue_bytes_ = 0;
  Piece left_out_;                // count of lines since the last notice, and their stream
  std::optional<Piece> picture_;  // not drawn yet
  bool finishes_ = false, gives_up_ = false, trimmed_ = false, ended_ = false;
  Clock::time_point moved_at_{};  // the reader took something, or began to be waited for
  StreamWriter* tell_ = nullptr;
  std::string words_of_loss_;

  std::thread thread_;
};

}  // namespace tidepool
