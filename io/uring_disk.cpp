// UringDisk gives the ring to one thread. Submitters put requests into the piece queue under a lock. They
// wake the thread only if it sleeps with room for more pieces, through an eventfd that the ring itself reads.
// The thread fills the ring, enters the kernel once for the whole batch, and sleeps there: it never spins,
// because the cores belong to compute.
#include "io/uring_disk.h"

#include <fmt/format.h>
#include <liburing.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "base/check.h"
#include "base/errno_text.h"
#include "io/disk_error.h"
#include "io/io_thread.h"
#include "io/memory_limits.h"
#include "io/piece_queue.h"
#include "io/swap_file.h"

namespace tidepool {
namespace {

constexpr u64 registered_buffer_max = gib;    // the kernel's limit per entry
constexpr u32 registered_buffers_max = 1024;  // the limit of older kernels; 1 TiB of arenas
constexpr u64 wake_data = ~0ull;              // user data of the eventfd's read
// Limit of refusals in a row, up to 25.6 ms apart: 5 s in which a machine short of memory may recover.
constexpr u32 enter_tries_max = 200;

class UringDisk final : public Disk {
 public:
  UringDisk(SwapFile& file, const DiskOptions& options, DiskSink sink)
      : file_(file),
        sink_(std::move(sink)),
        queue_(file.bytes().value, options, file.path()),
        flying_(options.queue_depth) {
    for (u32 i = options.queue_depth; i > 0; --i) seats_.push_back(i - 1);
  }

  ~UringDisk() override {
    if (thread_.joinable()) {
      {
        std::scoped_lock lock(mutex_);
        stopping_ = true;
      }
      wake();
      work_.notify_all();
      thread_.join();
    }
    if (ring_ready_) io_uring_queue_exit(&ring_);
    if (wake_fd_ >= 0) close(wake_fd_);
  }

  Result<void> start(const DiskOptions& options) {
    wake_fd_ = eventfd(0, EFD_CLOEXEC);
    if (wake_fd_ < 0) return file_error("cannot make", "an eventfd", errno);
    TRY(make_ring(options.queue_depth + 1));
    register_file();
    register_buffers(options.arenas);
    describe_ = fmt::format("io_uring, {} deep, {}, {}", flying_.size(),
                            file_.direct() ? "O_DIRECT" : "buffered", buffers_note_);
    TRY_ASSIGN(thread_, start_io_thread("tp-disk", options.cpus, [this] { serve(); }));
    std::unique_lock lock(mutex_);
    work_.wait(lock, [this] { return proven_.has_value(); });
    if (*proven_ == 0) return {};
    return Error{ErrorKind::io, fmt::format("the kernel made an io_uring but refuses to run it: {}; allow "
                                            "io_uring_enter and io_uring_register in the seccomp profile",
                                            errno_text(*proven_))};
  }

  void submit(const DiskRequest& request) override {
    bool asleep;
    {
      std::scoped_lock lock(mutex_);
      queue_.push(request);
      asleep = std::exchange(wants_wake_, false);
    }
    if (asleep) wake();
    work_.notify_all();  // costs nothing unless the ring has broken down
  }

  Result<void> sync() override {
    if (fdatasync(file_.fd()) != 0) return file_error("cannot flush", file_.path(), errno);
    return {};
  }
  Result<void> clear(u64 offset, Bytes bytes) override { return file_.clear(offset, bytes); }

  std::string describe() const override { return describe_; }

 private:
  // Tries the flags with the cheapest completions first; older kernels refuse flags that they do not know.
  // The ring starts disabled because its single issuer is the thread that enables it.
  Result<void> make_ring(u32 entries) {
    constexpr u32 tries[] = {
        IORING_SETUP_R_DISABLED | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
        IORING_SETUP_R_DISABLED | IORING_SETUP_COOP_TASKRUN, IORING_SETUP_R_DISABLED};
    int error = 0;
    for (u32 flags : tries) {
      io_uring_params params{};
      params.flags = flags;
      error = -io_uring_queue_init_params(entries, &ring_, &params);
      ring_ready_ = error == 0;
      if (error != EINVAL) break;
    }
    if (ring_ready_) return {};
    const char* advice = error == ENOMEM ? "raise the memlock limit (`ulimit -l`)"
                                         : "allow it with `sysctl kernel.io_uring_disabled=0` and, in a "
                                           "container, a seccomp profile that permits io_uring";
    return Error{ErrorKind::io,
                 fmt::format("the kernel refuses io_uring: {}; {}", errno_text(error), advice)};
  }

  void register_file() {
    int fd = file_.fd();
    file_registered_ = io_uring_register_files(&ring_, &fd, 1) == 0;
  }

  void register_buffers(const std::vector<std::span<std::byte>>& arenas) {
    u64 bytes = 0;
    for (std::span<std::byte> arena : arenas) {
      bytes += arena.size();
      for (u64 begin = 0; begin < arena.size(); begin += registered_buffer_max) {
        buffers_.push_back(arena.subspan(begin, std::min(registered_buffer_max, arena.size() - begin)));
      }
    }
    buffers_note_ = "buffers not registered (none given)";
    if (buffers_.empty()) return;
    std::vector<iovec> entries;
    for (std::span<std::byte> b : buffers_) entries.push_back({b.data(), b.size()});
    int error = buffers_.size() > registered_buffers_max
                    ? E2BIG
                    : -io_uring_register_buffers(&ring_, entries.data(), static_cast<u32>(entries.size()));
    buffers_note_ = error == 0 ? "registered buffers" : explain_unregistered(error, Bytes{bytes});
    if (error != 0) buffers_.clear();
  }

  static std::string explain_unregistered(int error, Bytes bytes) {
    std::string why = explain_memlock(read_memory_limits(), bytes);
    return fmt::format(
        "buffers not registered ({}): pages are pinned anew for each transfer, which costs CPU "
        "time{}{}",
        errno_text(error), why.empty() ? "" : "; ", why);
  }

  void wake() {
    u64 one = 1;
    ssize_t written = write(wake_fd_, &one, sizeof one);
    CHECK(written == sizeof one, errno);
  }

  void serve() {
    const int error_number = prove();
    {
      std::scoped_lock lock(mutex_);
      proven_ = error_number;
    }
    work_.notify_all();
    if (error_number != 0) return;
    listen();
    while (fill()) {
      enter();
      reap();
      if (broken_ != 0) return serve_without_ring();
    }
  }

  // Makes each system call of a ring once before the first request, because a seccomp profile may permit the
  // set-up of a ring and refuse its use.
  // RETURNS: an errno, or 0.
  // THREADS: the ring's own thread, which is the single issuer.
  int prove() {
    // Not io_uring_enable_rings: liburing 2.3 declares it but does not export it.
    if (syscall(__NR_io_uring_register, ring_.ring_fd, IORING_REGISTER_ENABLE_RINGS, nullptr, 0) != 0)
      return errno;
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    CHECK(sqe != nullptr);
    io_uring_prep_nop(sqe);
    int result = 0;
    do {
      result = io_uring_submit_and_wait(&ring_, 1);
    } while (result == -EINTR);
    if (result < 0) return -result;
    io_uring_cqe* cqe = nullptr;
    const int missing = io_uring_peek_cqe(&ring_, &cqe);
    if (missing != 0) return -missing;
    io_uring_cqe_seen(&ring_, cqe);
    return 0;
  }

  // Fails every request, now and later: the kernel takes no more requests, so no completion can be waited
  // for. Requests that the kernel has taken may still move bytes; the contract of a failed request allows
  // that.
  void serve_without_ring() {
    std::vector<bool> flying(flying_.size(), true);
    for (u32 seat : seats_) flying[seat] = false;
    for (u32 seat = 0; seat < flying.size(); ++seat)
      if (flying[seat]) give_up(flying_[seat]);
    for (Piece piece; next_waiting(piece);) give_up(piece);
  }

  // Sleeps until a piece waits.
  // RETURNS: false once the disk stops.
  bool next_waiting(Piece& piece) {
    std::unique_lock lock(mutex_);
    work_.wait(lock, [&] { return queue_.waiting() || stopping_; });
    return queue_.pop(piece);
  }

  void give_up(Piece& piece) {
    DiskCompletion completion;
    PieceVerdict verdict;
    {
      std::scoped_lock lock(mutex_);
      verdict = queue_.finish(piece, -broken_, completion);
    }
    if (verdict == PieceVerdict::complete) sink_(completion);
  }

  void listen() {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    CHECK(sqe != nullptr);
    io_uring_prep_read(sqe, wake_fd_, &wake_count_, sizeof wake_count_, 0);
    io_uring_sqe_set_data64(sqe, wake_data);
  }

  // Moves waiting pieces into the ring.
  // RETURNS: false once the disk stops and nothing is left to do.
  bool fill() {
    std::scoped_lock lock(mutex_);
    while (!seats_.empty()) {
      u32 seat = seats_.back();
      if (!queue_.pop(flying_[seat])) break;
      seats_.pop_back();
      prepare(seat);
    }
    wants_wake_ = !seats_.empty();  // otherwise the next completion wakes us anyway
    return !(stopping_ && queue_.idle());
  }

  void prepare(u32 seat) {
    const Piece& piece = flying_[seat];
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    CHECK(sqe != nullptr, seat);  // the ring has an entry for every seat and the eventfd
    int fd = file_registered_ ? 0 : file_.fd();
    u32 bytes = static_cast<u32>(piece.bytes);
    int buffer = registered_buffer(piece);
    bool read = piece.op == DiskOp::read;
    if (buffer >= 0 && read)
      io_uring_prep_read_fixed(sqe, fd, piece.memory, bytes, piece.offset, buffer);
    else if (buffer >= 0)
      io_uring_prep_write_fixed(sqe, fd, piece.memory, bytes, piece.offset, buffer);
    else if (read)
      io_uring_prep_read(sqe, fd, piece.memory, bytes, piece.offset);
    else
      io_uring_prep_write(sqe, fd, piece.memory, bytes, piece.offset);
    if (file_registered_) io_uring_sqe_set_flags(sqe, IOSQE_FIXED_FILE);
    io_uring_sqe_set_data64(sqe, seat);
  }

  // RETURNS: index of the registered buffer that holds the piece; -1 if the piece is outside or crosses two
  // buffers (one piece in a thousand), which an ordinary transfer handles.
  int registered_buffer(const Piece& piece) const {
    for (u32 i = 0; i < buffers_.size(); ++i) {
      const std::byte* begin = buffers_[i].data();
      if (piece.memory >= begin && piece.memory + piece.bytes <= begin + buffers_[i].size()) {
        return static_cast<int>(i);
      }
    }
    return -1;
  }

  void enter() {
    const int result = io_uring_submit_and_wait(&ring_, 1);
    if (result >= 0 || result == -EINTR) {
      refusals_ = 0;
      return;
    }
    // Without memory for requests, the kernel may recover later. Requests that it did not take stay in the
    // ring.
    const bool passes = result == -EAGAIN || result == -EBUSY || result == -ENOMEM;
    if (passes && ++refusals_ < enter_tries_max) {
      std::this_thread::sleep_for(retry_delay(refusals_));
    } else {
      broken_ = result == -EAGAIN ? ENOMEM : -result;  // EAGAIN would make the queue retry once more
    }
  }

  void reap() {
    io_uring_cqe* cqe = nullptr;
    while (io_uring_peek_cqe(&ring_, &cqe) == 0) {
      u64 data = io_uring_cqe_get_data64(cqe);
      i32 result = cqe->res;
      io_uring_cqe_seen(&ring_, cqe);
      if (data == wake_data)
        listen();
      else
        land(static_cast<u32>(data), result);
    }
  }

  void land(u32 seat, i32 result) {
    DiskCompletion completion;
    PieceVerdict verdict;
    {
      std::scoped_lock lock(mutex_);
      verdict = queue_.finish(flying_[seat], result, completion);
    }
    if (verdict == PieceVerdict::again) {
      std::this_thread::sleep_for(retry_delay(flying_[seat].stalls));
      return prepare(seat);
    }
    seats_.push_back(seat);
    if (verdict == PieceVerdict::complete) sink_(completion);
  }

  SwapFile& file_;
  DiskSink sink_;
  std::string describe_, buffers_note_;
  io_uring ring_{};
  bool ring_ready_ = false, file_registered_ = false;
  std::vector<std::span<std::byte>> buffers_;  // index: as in the ring
  int wake_fd_ = -1;
  u64 wake_count_ = 0;  // destination of the ring's eventfd reads

  std::mutex
      mutex_;  // guards queue_, wants_wake_, stopping_, proven_; never held in the kernel or in the sink
  PieceQueue queue_;
  bool wants_wake_ = false, stopping_ = false;
  std::optional<int> proven_;     // the errno of prove(); empty: not yet known
  std::condition_variable work_;  // start() and serve_without_ring() wait for it

  std::vector<Piece> flying_;  // by seat; the ring's thread only
  std::vector<u32> seats_;     // free seats
  u32 refusals_ = 0;           // consecutive refusals by the kernel to enter
  int broken_ = 0;             // errno of the last refusal, once the ring is broken
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Disk>> create_uring_disk(SwapFile& file, const DiskOptions& options, DiskSink sink) {
  auto disk = std::make_unique<UringDisk>(file, options, std::move(sink));
  TRY(disk->start(options));
  return std::unique_ptr<Disk>(std::move(disk));
}

}  // namespace tidepool
