// StuckDisk stops answering, like a device whose driver has lost it.
#pragma once

#include <atomic>
#include <thread>

#include "io/simulated_disk.h"

namespace tidepool::test {

// Answers `answers` requests, then none. Its destructor waits for ever.
class StuckDisk final : public Disk {
 public:
  StuckDisk(Bytes bytes, u64 answers, DiskSink sink)
      : answers_(answers), disk_(create_simulated_disk(bytes, {}, {}, std::move(sink))) {}
  ~StuckDisk() override {
    while (swallowed_.load() > 0) std::this_thread::sleep_for(std::chrono::seconds(1));
  }

  void submit(const DiskRequest& request) override {
    if (submitted_++ < answers_) return disk_->submit(request);
    ++swallowed_;
  }
  Result<void> sync() override { return {}; }
  Result<void> clear(u64 offset, Bytes bytes) override { return disk_->clear(offset, bytes); }
  std::string describe() const override { return "a disk that hangs"; }

 private:
  const u64 answers_;
  std::atomic<u64> submitted_{0}, swallowed_{0};
  std::unique_ptr<SimulatedDisk> disk_;
};

}  // namespace tidepool::test
