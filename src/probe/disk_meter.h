// The disk under measurement: a file of random bytes, read, written, and both at once.
#pragma once

#include <array>
#include <functional>
#include <string>

#include "io/swap_file.h"
#include "probe/disk_load.h"
#include "probe/meter.h"

namespace tidepool {

struct DiskMeterOptions {
  std::string dir = ".";       // must exist; a directory made in it is removed at the end
  double slice_seconds = 0.3;  // of one sample, about
  double point_seconds = 0.1;  // of one sample of a point
  double fill_seconds = 4;     // for writing the file at first: slow disks get a smaller one
  DiskBackend backend = DiskBackend::automatic;
  std::function<bool()> stop;  // asked about every half second
};

inline constexpr std::array<Bytes, 4> point_blocks = {Bytes{64 * kib}, Bytes{256 * kib}, Bytes{1 * mib},
                                                      Bytes{4 * mib}};
inline constexpr std::array<u32, 3> point_depths = {1, 8, 32};
std::string point_key(Bytes block, u32 depth, DiskPattern);

// Rates at 1 MiB x 32: disk.read, disk.write, disk.mixed; of points point_key(...).
class DiskMeter final : public Meter {
 public:
  // ErrorKind::usage: no such directory. ErrorKind::io: too little space, not writable, in use, no disk.
  static Result<std::unique_ptr<DiskMeter>> create(const DiskMeterOptions&);
  ~DiskMeter() override;

  Result<void> measure(Rates&) override;
  // One sample of each point, or fewer if stopped.
  Result<void> measure_points(Rates&);

  Bytes free_space() const { return free_; }           // before the file was made
  const std::string& notes() const { return notes_; }  // one line each
  std::string describe() const { return load_->describe(); }

 private:
  explicit DiskMeter(const DiskMeterOptions& options) : options_(options) {}
  Result<void> make_file();
  Result<void> fill();

  const DiskMeterOptions options_;
  std::string dir_, notes_;
  Bytes free_{}, span_{};
  std::unique_ptr<SwapFile> file_;
  std::unique_ptr<DiskLoad> load_;
};

}  // namespace tidepool
