// SimulatedMedium stores the bytes of a simulated disk and outlives it, as a drive outlives a process. It has
// a write cache, which a power cut empties. This header is the fault model of power cuts:
//
//   - What was written or cleared before a flush that succeeded is there after the cut.
//   - Each write and clear since then is kept, lost or torn, in any order. Of a torn one, each 512-byte
//   sector
//     (or each 4 KiB page: the seed chooses) is old or new by itself.
//
// The end of a process loses nothing: its writes stay in the cache. A test stops the disk at a change (a
// write, a clear or a flush), which fails as all later requests do, and then says what it was that stopped
// it. The change that was struck may have been made or not; a power cut may also have torn it. A seed
// decides.
#pragma once

#include <span>
#include <vector>

#include "base/types.h"
#include "io/disk.h"

namespace tidepool {

struct MediumOptions {
  Bytes bytes{};                // all zero at first
  bool flushes = true;          // false: a lying drive, whose flushes succeed and do nothing
  bool remembers_cache = true;  // false: changes are durable at once, so there is no power cut
};

// THREADS: one at a time.
class SimulatedMedium {
 public:
  explicit SimulatedMedium(const MediumOptions&);

  // After so many more changes the disk stops.
  void stop_after(u64 changes);
  bool stopped() const { return stopped_; }
  // The power failed, now or when the disk stopped, and is back.
  void cut_power(u64 seed);
  // Only the process ended, and there is another.
  void end_process(u64 seed);
  u64 changes() const { return changes_; }  // made so far

  u64 size() const { return bytes_.size(); }
  // Content as reads find it.
  std::span<const std::byte> bytes() const { return bytes_; }
  // Flips one bit, in the cache and below.
  void flip(u64 bit);

  // RETURNS: false if the disk was stopped.
  bool read(u64 offset, std::span<std::byte> out) const;
  bool write(u64 offset, std::span<const std::byte> content);
  bool clear(u64 offset, u64 bytes);
  bool flush();

 private:
  // Change is a write or clear in the cache.
  struct Change {
    u64 offset = 0, bytes = 0;
    u64 content = none64;  // place in contents_; none64: zeros
  };
  static constexpr u64 none64 = ~u64{0};
  bool strikes(bool in_cache);  // true: the disk stops at this change
  void put(const Change&, u64 begin, u64 bytes, std::vector<std::byte>& to) const;
  void go_on();

  const MediumOptions options_;
  std::vector<std::byte> bytes_;    // as reads find it
  std::vector<std::byte> durable_;  // below the cache
  std::vector<Change> cache_;       // in order
  std::vector<std::byte> contents_;
  u64 changes_ = 0, changes_max_ = none64;
  bool stopped_ = false;
  bool struck_ = false;  // the newest change in the cache may have been made or not
};

}  // namespace tidepool
