// CostModel says what an op needs of a machine: a flow over its shared resources.
//
//   resource          unit            who uses it
//   cores             seconds of all  host Adam, checksums; on cpu devices compute and copies too
//   dram              bytes           host Adam (read + written), copies, disk transfers
//   disk              seconds         reads and writes; more of them a second when mixed, if it can
//   compute           seconds         one device's blocks, gradients, updates
//   h2d, d2h, both    bytes           one device's link, each direction and their sum
//   switch up, down   bytes           devices behind one switch
//   interconnect      bytes           one device's link to the others; where there is none, collectives go
//                                     down and up the links of all devices, through dram
#pragma once

#include <vector>

#include "executor/sim/fluid.h"
#include "machine/roofline.h"
#include "tidepool/machine.h"
#include "tidepool/model_graph.h"
#include "tidepool/plan.h"

namespace tidepool {

// Measured on the spot; 0: not measured, from the roofline of the block's kernels.
struct BlockSeconds {
  double forward = 0;             // of one micro-batch
  double backward = 0;            // inside kept
  double backward_recompute = 0;  // inside recomputed
};

class CostModel {
 public:
  // The plan must outlive it. `blocks`: empty, or by block of the graph.
  CostModel(const Plan&, const ModelGraph&, const Machine&, std::vector<BlockSeconds> blocks);

  // Capacity per second of each resource, without the disk's mix.
  const std::vector<double>& capacities() const { return capacities_; }
  static constexpr u32 disk_resource = 2;
  // Disk-seconds per second while both directions are at work; 1 in one direction.
  double disk_mixed_capacity() const { return disk_mixed_; }

  // Of one micro-batch, measured or predicted. REQUIRES: block is one of the graph's.
  const BlockSeconds& block(u32 block) const { return blocks_[block]; }

  Flow flow(const Segment&, const Op&) const;

 private:
  u32 device_resource(u32 device, u32 which) const;
  double block_seconds(const Segment&, const Op&) const;
  double touched_bytes(const Segment&, const Op&) const;
  // What computing on the host takes from memory at least; a workspace stays in the caches.
  double streamed_bytes(const Segment&, const Op&) const;
  void need_collective(Flow&, const Segment&, const Op&) const;
  void need_copy(Flow&, const Op&, double bytes) const;
  // REQUIRES: the lane is a device's h2d or d2h.
  void need_link(Flow&, LaneId, double bytes) const;
  void need_disk(Flow&, const Op&, const Operand& in_memory, double bytes) const;
  void need_update(Flow&, const Op&, double bytes) const;
  double disk_rate(bool read, double bytes) const;

  const Plan& plan_;
  const Machine machine_;
  const std::vector<BlockSeconds> blocks_;  // by block; none is 0
  std::vector<u32> switch_of_;              // [device] as the plan counts them; none: its own way
  std::vector<double> capacities_;
  double disk_mixed_ = 1.0;
};

}  // namespace tidepool
