// StreamWriter: queue of text in front of a stream that may not be read.
#include "base/process/stream_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/process/start_thread.h"
#include "base/write_within.h"

namespace tidepool {
namespace {

// A write that does not fit into the last page of a pipe begins a new one, so writes of 1 KiB waste a quarter
// of a pipe at most.
constexpr u64 piece_bytes_max = 1024;
constexpr u64 batch_bytes_max = 4096;
constexpr u64 pipe_bytes_least = 4096;
// While a process runs, a pipe is filled up to this part; when it ends, up to the other.
constexpr u64 share_running = 4;  // 1/4
constexpr u64 quarters_at_end = 3;
// Nothing tells that a pipe has become emptier, only that it is not full. 3/4 of 64 KiB hold what a run says
// in the meantime.
constexpr i64 look_ns = 10'000'000;
// Only other processes that fill the same pipe can hold the last lines.
constexpr std::chrono::seconds last_lines_patience(5);

u64 size_of_pipe(int fd) {
  struct stat at {};
  if (::fstat(fd, &at) != 0 || !S_ISFIFO(at.st_mode)) return 0;
  const int size = ::fcntl(fd, F_GETPIPE_SZ);
  return size > 0 ? std::max(static_cast<u64>(size), pipe_bytes_least) : pipe_bytes_least;
}

u64 unread_in_pipe(int fd) {
  int bytes = 0;
  return ::ioctl(fd, FIONREAD, &bytes) == 0 && bytes > 0 ? static_cast<u64>(bytes) : 0;
}

// RETURNS: the length of the first lines of `text` that fit into a piece; of a longer line, a part.
size_t first_piece(std::string_view text) {
  if (text.size() <= piece_bytes_max) return text.size();
  const size_t end = text.rfind('\n', piece_bytes_max - 1);
  return end != std::string_view::npos ? end + 1 : piece_bytes_max;
}

void sleep_in_handler(int milliseconds) {
  const struct timespec span { .tv_sec = 0, .tv_nsec = milliseconds * 1'000'000L };
  ::nanosleep(&span, nullptr);
}

}  // namespace

Result<std::unique_ptr<StreamWriter>> StreamWriter::create(const Options& options) {
  std::unique_ptr<StreamWriter> out(new StreamWriter(options));
  TRY_ASSIGN(out->thread_, start_thread("tp-terminal", [writer = out.get()] { writer->run(); }));
  return out;
}

StreamWriter::StreamWriter(const Options& options)
    : options_(options),
      pipe_bytes_(size_of_pipe(fd_of(options.file))),
      batch_bytes_(pipe_bytes_ > 0 ? piece_bytes_max : batch_bytes_max) {
  CHECK(::sem_init(&wake_, 0, 0) == 0, errno);
}

StreamWriter::~StreamWriter() {
  CHECK(!thread_.joinable());
  ::sem_destroy(&wake_);
}

// ---- called by other threads

void StreamWriter::wake() {
  ++asked_;
  ::sem_post(&wake_);
}

void StreamWriter::print(StandardStream stream, std::string_view text) {
  {
    const std::lock_guard lock(mutex_);
    picture_.reset();
    if (queue_.empty()) moved_at_ = Clock::now();
    for (size_t size = 0; !text.empty(); text.remove_prefix(size)) {
      size = first_piece(text);
      const std::string_view part = text.substr(0, size);
      queue_.push_back({stream, std::string(part), static_cast<u64>(std::ranges::count(part, '\n'))});
      queue_bytes_ += size;
      while (queue_bytes_ > options_.queue_bytes_max && queue_.size() > 1) leave_out_first();
    }
  }
  wake();
}

void StreamWriter::draw(StandardStream stream, std::string_view picture) {
  {
    const std::lock_guard lock(mutex_);
    picture_ = Piece{.stream = stream, .text = std::string(picture)};
  }
  wake();
}

void StreamWriter::when_lost(StreamWriter& to, const std::string& text) {
  {
    const std::lock_guard lock(mutex_);
    if (lost(StandardStream::output) == 0) {
      tell_ = &to;
      words_of_loss_ = text;
      return;
    }
  }
  to.print(StandardStream::error, text);
}

// REQUIRES: the lock is held; the queue is not empty.
void StreamWriter::leave_out_first() {
  bool ends_line = false;
  while (!queue_.empty() && !ends_line) {
    Piece& first = queue_.front();
    ends_line = first.text.ends_with('\n');
    left_out_.stream = first.stream;
    left_out_.lines += first.lines;
    left_out_all_ += first.lines;
    queue_bytes_ -= first.text.size();
    queue_.pop_front();
  }
}

void StreamWriter::say(const char* literal) {
  for (std::atomic<const char*>& place : said_) {
    const char* free = nullptr;
    if (place.compare_exchange_strong(free, literal)) break;
  }
  wake();
}

void StreamWriter::settle(int milliseconds) {
  constexpr int pause_ms = 5;
  for (int waited = 0; settled_ != asked_ && waited < milliseconds; waited += pause_ms)
    sleep_in_handler(pause_ms);
  // The thread may wait for a lock that the interrupted code holds.
  for (std::atomic<const char*>& place : said_)
    if (const char* words = place.exchange(nullptr); words != nullptr)
      write_within(fd_of(StandardStream::error), words, 0);
}

bool StreamWriter::finish(Clock::time_point begin) {
  std::unique_lock lock(mutex_);
  finishes_ = true;
  wake();
  // A reader that has not read for long gets a chance to begin, no more.
  const auto until = [&] {
    return gives_up_ ? begin + last_lines_patience
                     : std::max(begin + options_.patience / 4, moved_at_ + options_.patience);
  };
  while (!ended_) {
    changed_.wait_until(lock, until());
    if (ended_ || Clock::now() < until()) continue;
    if (gives_up_ || pipe_bytes_ == 0) break;
    gives_up_ = true;
    begin = Clock::now();
    wake();
  }
  held_ = std::accumulate(queue_.begin(), queue_.end(), u64{0},
                          [](u64 lines, const Piece& piece) { return lines + piece.lines; });
  if (!ended_) return false;
  lock.unlock();
  thread_.join();
  return true;
}

// ---- the thread

void StreamWriter::run() {
  for (;;) {
    const u64 asked = asked_;
    Batch batch = words_of_handlers();
    if (batch.state == Batch::nothing) batch = take();
    if (batch.state == Batch::ready) {
      write(batch.piece);
      continue;
    }
    if (batch.state == Batch::too_long_for_pipe) {
      wait_a_moment();
      continue;
    }
    settled_ = asked;
    {
      const std::lock_guard lock(mutex_);
      ended_ = finishes_ && asked_ == asked;
      changed_.notify_all();
      if (ended_) return;
    }
    while (::sem_wait(&wake_) != 0) {
    }
  }
}

void StreamWriter::wait_a_moment() {
  struct timespec until {};
  ::clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += look_ns;
  until.tv_sec += until.tv_nsec / 1'000'000'000;
  until.tv_nsec %= 1'000'000'000;
  ::sem_clockwait(&wake_, CLOCK_MONOTONIC, &until);
}

StreamWriter::Batch StreamWriter::words_of_handlers() {
  Batch out{.piece = {.stream = StandardStream::error}};
  for (std::atomic<const char*>& place : said_) {
    const char* words = place.exchange(nullptr);
    if (words == nullptr) continue;
    if (std::exchange(drawn_, false)) {
      out.piece.text += options_.erase;
      if (words[0] == '\n') ++words;
    }
    out.piece.text += words;
    out.state = Batch::ready;
  }
  return out;
}

std::string StreamWriter::notice() const {
  return fmt::format("{}({} line{} left out here: nobody read them in time)\n", in_line_ ? "\n" : "",
                     left_out_.lines, left_out_.lines == 1 ? "" : "s");
}

// RETURNS: the bytes that may be written without waiting; `at_least` if the pipe is empty.
// REQUIRES: the lock is held.
u64 StreamWriter::room(u64 at_least) {
  if (pipe_bytes_ == 0) return ~u64{0};
  const u64 unread = unread_in_pipe(fd_of(options_.file));
  if (unread < unread_) moved_at_ = Clock::now();
  unread_ = unread;
  if (unread == 0) return std::max(at_least, pipe_bytes_ / share_running);
  const auto below = [unread](u64 limit) { return limit > unread ? limit - unread : 0; };
  const u64 at_end = below(pipe_bytes_ / 4 * quarters_at_end);
  // Room at the end is for the newest lines.
  const bool is_end = gives_up_ || (finishes_ && queue_bytes_ + piece_bytes_max <= at_end);
  return is_end ? at_end : below(pipe_bytes_ / share_running);
}

StreamWriter::Batch StreamWriter::take() {
  const std::lock_guard lock(mutex_);
  Batch out;
  const u64 may = room(2 * piece_bytes_max);
  if (gives_up_ && !std::exchange(trimmed_, true)) {
    while (!queue_.empty() && queue_bytes_ + piece_bytes_max > may) leave_out_first();
    if (may < piece_bytes_max) left_out_.lines = 0;  // not even the notice
  }
  if (queue_.empty() && left_out_.lines == 0 && !picture_) return out;
  std::string& text = out.piece.text;
  if (left_out_.lines > 0) {
    out.piece.stream = left_out_.stream;
    text = notice();
  } else {
    out.piece.stream = queue_.empty() ? picture_->stream : queue_.front().stream;
  }
  size_t pieces = 0;
  for (; pieces < queue_.size(); ++pieces) {
    const Piece& next = queue_[pieces];
    const bool fits = text.size() + next.text.size() <= batch_bytes_ || pieces == 0;
    if (next.stream != out.piece.stream || !fits) break;
    text += next.text;
  }
  if (text.size() > may) {
    out.state = Batch::too_long_for_pipe;
    return out;
  }
  out.state = Batch::ready;
  left_out_.lines = 0;
  for (size_t i = 0; i < pieces; ++i) {
    queue_bytes_ -= queue_.front().text.size();
    queue_.pop_front();
  }
  if (drawn_) text.insert(0, options_.erase);
  drawn_ = false;
  if (queue_.empty() && picture_ && picture_->stream == out.piece.stream) {
    drawn_ = !picture_->text.empty();
    text += picture_->text;
    picture_.reset();
  }
  return out;
}

void StreamWriter::write(const Piece& piece) {
  const int fd = fd_of(piece.stream);
  std::string_view text = piece.text;
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EAGAIN) {  // another process made the file non-blocking
      struct pollfd at {
        .fd = fd, .events = POLLOUT, .revents = 0
      };
      ::poll(&at, 1, -1);
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return failed(piece.stream, n < 0 ? errno : ENOSPC);
    text.remove_prefix(static_cast<size_t>(n));
    const std::lock_guard lock(mutex_);
    moved_at_ = Clock::now();
  }
  in_line_ = !drawn_ && !piece.text.ends_with('\n');
}

void StreamWriter::failed(StandardStream stream, int error_number) {
  std::string words;
  StreamWriter* to = nullptr;
  {
    const std::lock_guard lock(mutex_);
    int none = 0;
    lost_[static_cast<size_t>(stream)].compare_exchange_strong(none, error_number);
    moved_at_ = Clock::now();
    if (stream == StandardStream::output) words = std::exchange(words_of_loss_, {});
    to = tell_;
  }
  if (!words.empty()) to->print(StandardStream::error, words);
}

}  // namespace tidepool
