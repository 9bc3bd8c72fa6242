// SimulatedDisk keeps its file in memory and injects faults from a seed. This header is the fault model:
// Tidepool has been tested against these faults and no others.
//
// Faults strike pieces (DiskOptions::piece), not requests. The seed, the operation, the offset and how often
// that offset was used before decide whether a fault strikes; timing does not. So a seed repeats a run.
// Power cuts are faults of the medium (io/simulated_medium.h).
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "io/disk.h"
#include "io/simulated_medium.h"

namespace tidepool {

enum class DiskFault : u8 {
  short_transfer,     // fewer bytes than asked; not always whole pages
  interrupted,        // EINTR, nothing moved
  again,              // EAGAIN, nothing moved
  io_error,           // EIO, nothing moved
  no_space,           // ENOSPC (writes)
  bit_flip,           // a read succeeds with one bit wrong; the medium stays good
  lost_write,         // a write succeeds and changes nothing
  misdirected_read,   // a read succeeds with the bytes of another offset
  misdirected_write,  // a write succeeds at another offset and overwrites that content
};
inline constexpr u32 disk_fault_count = 9;

// ScriptedFault strikes the `nth` (from 0) piece of `op` that covers `offset`.
struct ScriptedFault {
  DiskFault fault{};
  DiskOp op{};
  u64 offset = 0;
  u32 nth = 0;
};

struct DiskFaults {
  u64 seed = 0;
  std::array<double, disk_fault_count> rate{};  // per piece, by DiskFault; sum at most 1
  std::vector<ScriptedFault> scripted;
  u32 delay_us_max = 0;  // completions come after a random delay up to this
  bool reorder = true;   // completions come in random order, even without delay

  double& operator[](DiskFault f) { return rate[static_cast<u32>(f)]; }
};

class SimulatedDisk : public Disk {
 public:
  // RETURNS: how many faults of each DiskFault have struck so far.
  // THREADS: any thread may call.
  virtual std::array<u64, disk_fault_count> struck() const = 0;
};

// The simulated file is all of the medium, which outlives the disk.
std::unique_ptr<SimulatedDisk> create_simulated_disk(SimulatedMedium&, const DiskFaults&, const DiskOptions&,
                                                     DiskSink);
// The simulated file has `bytes` bytes, all zero at first, on a medium of its own that loses nothing.
std::unique_ptr<SimulatedDisk> create_simulated_disk(Bytes bytes, const DiskFaults&, const DiskOptions&,
                                                     DiskSink);

}  // namespace tidepool
