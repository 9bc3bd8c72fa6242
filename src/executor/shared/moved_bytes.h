// MovedBytes counts useful bytes that were really copied, read and written.
#pragma once

#include <array>
#include <atomic>

#include "tidepool/plan.h"

namespace tidepool {

// THREADS: any thread may call.
class MovedBytes {
 public:
  void add(LinkKind link, u64 bytes) {
    by_link_[static_cast<u32>(link)].fetch_add(bytes, std::memory_order_relaxed);
  }
  void add_between_devices(u64 bytes) { between_devices_.fetch_add(bytes, std::memory_order_relaxed); }

  std::array<Bytes, link_count> by_link() const {
    std::array<Bytes, link_count> all{};
    for (u32 i = 0; i < link_count; ++i) all[i] = Bytes{by_link_[i].load(std::memory_order_relaxed)};
    return all;
  }
  Bytes between_devices() const { return Bytes{between_devices_.load(std::memory_order_relaxed)}; }

 private:
  std::array<std::atomic<u64>, link_count> by_link_{};
  std::atomic<u64> between_devices_{0};
};

}  // namespace tidepool
