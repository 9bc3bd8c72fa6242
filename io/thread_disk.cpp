#include "io/thread_disk.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "io/disk_error.h"
#include "io/io_thread.h"
#include "io/piece_queue.h"
#include "io/swap_file.h"

namespace tidepool {
namespace {

class ThreadDisk final : public Disk {
 public:
  ThreadDisk(SwapFile& file, const DiskOptions& options, DiskSink sink, const std::string& why)
      : file_(file), sink_(std::move(sink)), queue_(file.bytes().value, options, file.path()) {
    describe_ = fmt::format("pread/pwrite on {} threads, {}{}{}", threads_for(options),
                            file.direct() ? "O_DIRECT" : "buffered", why.empty() ? "" : "; ", why);
  }

  Result<void> start(const DiskOptions& options) {
    for (u32 i = 0; i < threads_for(options); ++i) {
      TRY_ASSIGN(std::thread thread, start_io_thread("tp-disk", options.cpus, [this] { serve(); }));
      threads_.push_back(std::move(thread));
    }
    return {};
  }

  ~ThreadDisk() override {
    {
      std::scoped_lock lock(mutex_);
      stopping_ = true;
    }
    work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void submit(const DiskRequest& request) override {
    {
      std::scoped_lock lock(mutex_);
      queue_.push(request);
    }
    work_.notify_all();  // all, because a request is many pieces
  }

  Result<void> sync() override {
    if (fdatasync(file_.fd()) != 0) return file_error("cannot flush", file_.path(), errno);
    return {};
  }
  Result<void> clear(u64 offset, Bytes bytes) override { return file_.clear(offset, bytes); }

  std::string describe() const override { return describe_; }

 private:
  static u32 threads_for(const DiskOptions& options) {
    return std::clamp(options.queue_depth, 1u, disk_threads_max);
  }

  void serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      // The sink may submit again while other threads are leaving; the thread that calls the sink is still
      // here.
      work_.wait(lock, [this] { return queue_.waiting() || stopping_; });
      Piece piece;
      if (!queue_.pop(piece)) return;
      lock.unlock();
      transfer(piece);
      lock.lock();
    }
  }

  void transfer(Piece& piece) {
    DiskCompletion completion;
    PieceVerdict verdict;
    do {
      std::this_thread::sleep_for(retry_delay(piece.stalls));
      i64 result = piece.op == DiskOp::read
                       ? pread(file_.fd(), piece.memory, piece.bytes, static_cast<off_t>(piece.offset))
                       : pwrite(file_.fd(), piece.memory, piece.bytes, static_cast<off_t>(piece.offset));
      if (result < 0) result = -errno;
      std::scoped_lock lock(mutex_);
      verdict = queue_.finish(piece, result, completion);
    } while (verdict == PieceVerdict::again);
    if (verdict != PieceVerdict::complete) return;
    std::scoped_lock lock(sink_mutex_);
    sink_(completion);
  }

  SwapFile& file_;
  DiskSink sink_;
  std::string describe_;
  std::mutex mutex_;  // guards queue_ and stopping_; never held during I/O or in the sink
  std::condition_variable work_;
  PieceQueue queue_;
  bool stopping_ = false;
  std::mutex sink_mutex_;  // keeps the sink's promise: one call at a time
  std::vector<std::thread> threads_;
};

}  // namespace

Result<std::unique_ptr<Disk>> create_thread_disk(SwapFile& file, const DiskOptions& options, DiskSink sink,
                                                 const std::string& why) {
  auto disk = std::make_unique<ThreadDisk>(file, options, std::move(sink), why);
  TRY(disk->start(options));
  return std::unique_ptr<Disk>(std::move(disk));
}

}  // namespace tidepool
