// SimulatedDisk draws each fault from the seed, and serves requests in a thread of its own.
#include "io/simulated_disk.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "base/check.h"
#include "base/mix_bits.h"
#include "io/disk_error.h"
#include "io/io_thread.h"
#include "io/piece_queue.h"

namespace tidepool {
namespace {

using Clock = std::chrono::steady_clock;

constexpr bool strikes(DiskFault fault, DiskOp op) {
  switch (fault) {
    case DiskFault::bit_flip:
    case DiskFault::misdirected_read:
      return op == DiskOp::read;
    case DiskFault::no_space:
    case DiskFault::lost_write:
    case DiskFault::misdirected_write:
      return op == DiskOp::write;
    default:
      return true;
  }
}

class SimulatedDiskImpl final : public SimulatedDisk {
 public:
  // `own`: null if the medium outlives the disk.
  SimulatedDiskImpl(std::unique_ptr<SimulatedMedium> own, SimulatedMedium& medium, const DiskFaults& faults,
                    const DiskOptions& options, DiskSink sink)
      : faults_(faults),
        sink_(std::move(sink)),
        own_(std::move(own)),
        medium_(medium),
        queue_(medium.size(), options, "simulated disk"),
        depth_(options.queue_depth),
        dice_(mix_count(faults.seed)) {
    for (auto& uses : uses_) uses.resize(medium.size() / frame_alignment);
    seen_.resize(faults.scripted.size());
    flying_.reserve(depth_);
    thread_ = start_io_thread("tp-sim-disk", {}, [this] { serve(); }).value();
  }

  ~SimulatedDiskImpl() override {
    {
      std::scoped_lock lock(mutex_);
      stopping_ = true;
    }
    work_.notify_all();
    thread_.join();
  }

  void submit(const DiskRequest& request) override {
    {
      std::scoped_lock lock(mutex_);
      queue_.push(request);
    }
    work_.notify_all();
  }

  Result<void> sync() override {
    const std::scoped_lock lock(mutex_);
    if (medium_.flush()) return {};
    return file_error("cannot flush", "simulated disk", EIO);
  }
  Result<void> clear(u64 offset, Bytes bytes) override {
    const std::scoped_lock lock(mutex_);
    if (medium_.clear(offset, bytes.value)) return {};
    return file_error("cannot clear a part of", "simulated disk", EIO);
  }
  std::string describe() const override { return "simulated disk in memory"; }

  std::array<u64, disk_fault_count> struck() const override {
    std::array<u64, disk_fault_count> counts{};
    for (u32 i = 0; i < disk_fault_count; ++i) counts[i] = struck_[i].load();
    return counts;
  }

 private:
  struct Flying {
    Piece piece;
    Clock::time_point due;
  };

  void serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      take_off();
      if (flying_.empty()) {
        if (stopping_) return;
        work_.wait(lock);
        continue;
      }
      u32 next = choose();
      if (flying_[next].due > Clock::now()) {
        work_.wait_until(lock, flying_[next].due);
        continue;
      }
      Piece piece = flying_[next].piece;
      flying_.erase(flying_.begin() + next);
      land(piece, lock);
    }
  }

  void take_off() {
    Piece piece;
    while (flying_.size() < depth_ && queue_.pop(piece)) flying_.push_back({piece, due()});
  }

  Clock::time_point due() {
    if (faults_.delay_us_max == 0) return {};
    dice_ = mix_count(dice_);
    return Clock::now() + std::chrono::microseconds(dice_ % (faults_.delay_us_max + 1));
  }

  u32 choose() {
    if (faults_.delay_us_max != 0) {
      auto first = std::ranges::min_element(flying_, {}, &Flying::due);
      return static_cast<u32>(first - flying_.begin());
    }
    if (!faults_.reorder) return 0;
    dice_ = mix_count(dice_);
    return static_cast<u32>(dice_ % flying_.size());
  }

  void land(Piece& piece, std::unique_lock<std::mutex>& lock) {
    i64 result = transfer(piece);
    DiskCompletion completion;
    PieceVerdict verdict = queue_.finish(piece, result, completion);
    if (verdict == PieceVerdict::again) flying_.push_back({piece, due()});
    if (verdict != PieceVerdict::complete) return;
    lock.unlock();
    sink_(completion);
    lock.lock();
  }

  i64 transfer(const Piece& piece) {
    u32 op = static_cast<u32>(piece.op);
    u64 page = piece.offset / frame_alignment;
    u64 dice = mix_count(mix_count(mix_count(faults_.seed + op) + page) + uses_[op][page]++);
    u32 fault = roll(piece, dice);
    if (fault == none) return move(piece, piece.offset, piece.bytes);
    struck_[fault].fetch_add(1);
    return strike(static_cast<DiskFault>(fault), piece, mix_count(dice));
  }

  u32 roll(const Piece& piece, u64 dice) {
    u32 fault = none;
    for (u32 i = 0; i < faults_.scripted.size(); ++i) {
      const ScriptedFault& s = faults_.scripted[i];
      bool covers = s.op == piece.op && s.offset >= piece.offset && s.offset < piece.offset + piece.bytes;
      if (covers && seen_[i]++ == s.nth) fault = static_cast<u32>(s.fault);
    }
    if (fault != none) return fault;
    double u = static_cast<double>(dice >> 11) * 0x1p-53;
    for (u32 i = 0; i < disk_fault_count; ++i) {
      if (u < faults_.rate[i]) return strikes(static_cast<DiskFault>(i), piece.op) ? i : none;
      u -= faults_.rate[i];
    }
    return none;
  }

  i64 strike(DiskFault fault, const Piece& piece, u64 dice) {
    switch (fault) {
      case DiskFault::short_transfer:
        return move(piece, piece.offset, 1 + dice % (piece.bytes - 1));
      case DiskFault::interrupted:
        return -EINTR;
      case DiskFault::again:
        return -EAGAIN;
      case DiskFault::io_error:
        return -EIO;
      case DiskFault::no_space:
        return -ENOSPC;
      case DiskFault::lost_write:
        return static_cast<i64>(piece.bytes);
      case DiskFault::misdirected_read:
      case DiskFault::misdirected_write:
        return move(piece, elsewhere(piece, dice), piece.bytes);
      case DiskFault::bit_flip:
        if (const i64 moved = move(piece, piece.offset, piece.bytes); moved < 0) return moved;
        piece.memory[dice / 8 % piece.bytes] ^= std::byte(1u << dice % 8);
        return static_cast<i64>(piece.bytes);
    }
    CHECK(false, static_cast<u32>(fault));
  }

  u64 elsewhere(const Piece& piece, u64 dice) const {
    u64 places = (medium_.size() - piece.bytes) / frame_alignment + 1;
    CHECK(places > 1, "the disk has room for one piece only");
    u64 place = dice % places;
    if (place == piece.offset / frame_alignment) place = (place + 1) % places;
    return place * frame_alignment;
  }

  i64 move(const Piece& piece, u64 offset, u64 bytes) {
    const std::span<std::byte> memory(piece.memory, bytes);
    const bool moved =
        piece.op == DiskOp::read ? medium_.read(offset, memory) : medium_.write(offset, memory);
    return moved ? static_cast<i64>(bytes) : -EIO;
  }

  const DiskFaults faults_;
  DiskSink sink_;
  const std::unique_ptr<SimulatedMedium> own_;
  SimulatedMedium& medium_;
  std::array<std::vector<u32>, 2> uses_;  // by DiskOp and page: number of pieces that began there
  std::vector<u32> seen_;                 // by scripted fault: number of pieces that covered its offset
  std::array<std::atomic<u64>, disk_fault_count> struck_{};

  std::mutex mutex_;  // guards all mutable members above and below; not held in the sink
  std::condition_variable work_;
  PieceQueue queue_;
  u32 depth_;
  std::vector<Flying> flying_;
  u64 dice_;  // for order and delay only, which may depend on timing
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<SimulatedDisk> create_simulated_disk(SimulatedMedium& medium, const DiskFaults& faults,
                                                     const DiskOptions& options, DiskSink sink) {
  CHECK(options.queue_depth >= 1 && options.queue_depth <= queue_depth_max, options.queue_depth);
  return std::make_unique<SimulatedDiskImpl>(nullptr, medium, faults, options, std::move(sink));
}

std::unique_ptr<SimulatedDisk> create_simulated_disk(Bytes bytes, const DiskFaults& faults,
                                                     const DiskOptions& options, DiskSink sink) {
  CHECK(options.queue_depth >= 1 && options.queue_depth <= queue_depth_max, options.queue_depth);
  auto own = std::make_unique<SimulatedMedium>(MediumOptions{.bytes = bytes, .remembers_cache = false});
  SimulatedMedium& medium = *own;
  return std::make_unique<SimulatedDiskImpl>(std::move(own), medium, faults, options, std::move(sink));
}

}  // namespace tidepool
