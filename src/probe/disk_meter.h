// DiskMeter measures the disk: a file of random bytes, read, written, and both at once.
#pragma once

#include <array>
#include <functional>
#include <string>

#include "io/swap_file.h"
#include "probe/disk_load.h"
#include "probe/meter.h"

namespace tidepool {

struct DiskMeterOptions {
  std::string dir = ".";       // must exist; the probe makes a directory in it and removes it at the end
  double slice_seconds = 0.3;  // length of one sample, approximately
  double point_seconds = 0.1;  // length of one sample of a point
  double fill_seconds = 4;     // limit for the first write of the file: slow disks get a smaller file
  DiskBackend backend = DiskBackend::automatic;
  std::function<bool()> stop;  // called about every half second
};

inline constexpr std::array<Bytes, 4> point_blocks = {Bytes{64 * kib}, Bytes{256 * kib}, Bytes{1 * mib},
                                                      Bytes{4 * mib}};
inline constexpr std::array<u32, 3> point_depths = {1, 8, 32};
std::string point_key(Bytes block, u32 depth, DiskPattern);

// Rates at 1 MiB x 32: disk.read, disk.write, disk.mixed; for points point_key(...).
class DiskMeter final : public Meter {
 public:
  // Errors: ErrorKind::usage if the directory does not exist; ErrorKind::io if there is too little space, or
  // the directory is not writable, in use or not on a disk.
  static Result<std::unique_ptr<DiskMeter>> create(const DiskMeterOptions&);
  ~DiskMeter() override;

  Result<void> measure(Rates&) override;
  // One sample of each point, or fewer if stopped.
  Result<void> measure_points(Rates&);

  Bytes free_space() const { return free_; }           // before the file was created
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
