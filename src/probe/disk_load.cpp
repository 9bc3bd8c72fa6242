#include "probe/disk_load.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>

#include "base/check.h"
#include "base/steady_seconds.h"

namespace tidepool {
namespace {

constexpr u64 blocks_per_request = 16;
// Limit of a request of several blocks, because requests in flight delay the end of a measurement.
constexpr u64 request_bytes_max = 16 * mib;

// Random bytes, not zeros: storage may compress zeros or not store them at all, and fio does not write them
// either.
void fill_random(std::span<std::byte> memory) {
  std::mt19937_64 random(1);
  for (u64 at = 0; at < memory.size(); at += sizeof(u64)) {
    u64 word = random();
    std::memcpy(memory.data() + at, &word, sizeof word);
  }
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

Result<std::unique_ptr<DiskLoad>> DiskLoad::create(SwapFile& file, const DiskLoadOptions& options) {
  std::unique_ptr<DiskLoad> load(new DiskLoad);
  load->file_bytes_ = options.span.value != 0 ? options.span.value : file.bytes().value;
  CHECK(load->file_bytes_ <= file.bytes().value, load->file_bytes_, file.bytes().value);
  const u64 wanted =
      std::max(std::min(options.block.value * blocks_per_request, request_bytes_max), options.block.value);
  load->request_bytes_ = std::min(wanted, load->file_bytes_ / 2);
  // Two requests more than the queue holds: one is being cut, one waits behind it.
  load->buffers_ = div_up(options.depth * options.block.value, load->request_bytes_) + 2;
  TRY_ASSIGN(load->arena_,
             Arena::create({.name = "bench", .bytes = Bytes{load->buffers_ * load->request_bytes_}}));
  fill_random(load->arena_->memory());
  DiskOptions disk{.queue_depth = options.depth, .piece = options.block, .arenas = {load->arena_->memory()}};
  auto sink = [self = load.get()](const DiskCompletion& completion) { self->completed(completion); };
  TRY_ASSIGN(load->disk_, create_disk(file, options.backend, disk, sink));
  return load;
}

Result<DiskRate> DiskLoad::run(DiskPattern pattern, double seconds) {
  double cpu = cpu_seconds(), start = steady_seconds();
  TRY_ASSIGN(u64 bytes, drive(pattern, seconds, ~u64{0}));
  double moved = static_cast<double>(bytes);
  return DiskRate{.bytes_per_second = moved / (steady_seconds() - start),
                  .cpu_seconds_per_gb = (cpu_seconds() - cpu) / moved * 1e9};
}

Result<void> DiskLoad::fill() {
  TRY(fill_on(1e9));
  return disk_->sync();
}

Result<Bytes> DiskLoad::fill_on(double seconds) {
  {
    std::scoped_lock lock(mutex_);
    at_ = {0, filled_bytes_};
  }
  static_assert(static_cast<u32>(DiskOp::write) == 1);
  TRY_ASSIGN(const u64 written, drive(DiskPattern::write, seconds, file_bytes_ - filled_bytes_));
  filled_bytes_ += written;
  return Bytes{filled_bytes_};
}

Result<u64> DiskLoad::drive(DiskPattern pattern, double seconds, u64 bytes_max) {
  std::unique_lock lock(mutex_);
  CHECK(in_flight_ == 0, in_flight_);
  pattern_ = pattern;
  if (pattern == DiskPattern::mixed) at_ = {0, file_bytes_ / 2 / request_bytes_ * request_bytes_};
  bytes_ = 0;
  bytes_max_ = bytes_max;
  stopping_ = false;
  for (u64 b = 0; b < buffers_; ++b) submit_next(b);
  idle_.wait_for(lock, std::chrono::duration<double>(std::min(seconds, 1e6)),
                 [&] { return in_flight_ == 0; });
  stopping_ = true;
  idle_.wait(lock, [&] { return in_flight_ == 0; });
  if (!error_.message.empty()) return error_;
  return bytes_;
}

void DiskLoad::completed(const DiskCompletion& completion) {
  std::scoped_lock lock(mutex_);
  --in_flight_;
  if (!completion.ok) error_ = completion.error;
  if (completion.ok && !stopping_ && error_.message.empty()) submit_next(completion.tag);
  if (in_flight_ == 0) idle_.notify_all();
}

DiskOp DiskLoad::next_op(u64 buffer) const {
  if (pattern_ == DiskPattern::mixed) return buffer % 2 == 0 ? DiskOp::read : DiskOp::write;
  return pattern_ == DiskPattern::read ? DiskOp::read : DiskOp::write;
}

void DiskLoad::submit_next(u64 buffer) {
  if (bytes_ >= bytes_max_) return;
  DiskOp op = next_op(buffer);
  u64& at = at_[static_cast<u32>(op)];
  if (at == file_bytes_) at = 0;
  u64 bytes = std::min(request_bytes_, file_bytes_ - at);
  disk_->submit({op, at, arena_->memory().subspan(buffer * request_bytes_, bytes), buffer});
  at += bytes;
  bytes_ += bytes;
  ++in_flight_;
}

}  // namespace tidepool
