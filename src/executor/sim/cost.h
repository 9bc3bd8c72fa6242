// CostModel says what an op needs of a machine: a flow over its shared resources.
//
//  resource          unit            used by
//  cores             seconds of all  updates, checksums; on cpu devices compute and copies too
//  dram              bytes           updates (read + written), copies, disk transfers
//  disk              seconds         reads and writes; more per second when mixed, if the disk can
//  compute           seconds         one device's blocks, gradients, updates
//  h2d, d2h, both    bytes           one device's link, each direction and their sum
//  switch up, down   bytes           devices behind one switch
//  interconnect      bytes           one device's link to the others; without one, collectives go down and up
//                                    the links of all devices, through dram
#pragma once

#include <vector>

#include "executor/sim/fluid.h"
#include "machine/roofline.h"
#include "tidepool/machine.h"
#include "tidepool/model_graph.h"
#include "tidepool/plan.h"

namespace tidepool {

// BlockSeconds are the times of one block, measured on the spot; 0: not measured, predicted from the roofline
// of the block's kernels.
struct BlockSeconds {
  double forward = 0;             // per micro-batch
  double backward = 0;            // inside kept
  double backward_recompute = 0;  // inside recomputed
  double recall = 0;              // blocks with a past
};

// OpSeconds are measured times of ops. Empty: predicted from their kernels.
struct OpSeconds {
  std::vector<BlockSeconds> blocks = {};  // by block of the graph
  std::vector<double> matrices =
      {};  // to orthogonalize, by shape (ModelGraph::matrix_costs); 0: not measured

  bool empty() const { return blocks.empty(); }
};

class CostModel {
 public:
  // REQUIRES: plan and graph outlive this object.
  CostModel(const Plan&, const ModelGraph&, const Machine&, OpSeconds measured);

  // Capacity per second of each resource; for the disk without the gain of mixing.
  const std::vector<double>& capacities() const { return capacities_; }
  static constexpr u32 disk_resource = 2, send_resource = 3, receive_resource = 4;
  // Disk-seconds per second while both directions are at work; 1 in one direction.
  double disk_mixed_capacity() const { return disk_mixed_; }

  // Seconds of one micro-batch, measured or predicted.
  // REQUIRES: the graph has the block.
  const BlockSeconds& block(u32 block) const { return blocks_[block]; }

  Flow flow(const Segment&, const Op&) const;

 private:
  u32 device_resource(u32 device, u32 which) const;
  double block_seconds(const Segment&, const Op&) const;
  double touched_bytes(const Segment&, const Op&) const;
  // Least bytes that computing on the CPU takes from memory; a workspace stays in the caches.
  double streamed_bytes(const Segment&, const Op&) const;
  void need_collective(Flow&, const Segment&, const Op&) const;
  void need_copy(Flow&, const Op&, double bytes) const;
  // REQUIRES: the lane is a device's h2d or d2h.
  void need_link(Flow&, LaneId, double bytes) const;
  void need_lookup(Flow&, double bytes) const;
  void need_disk(Flow&, const Op&, const Operand& in_memory, double bytes) const;
  // RETURNS: bytes of an update's gradient that its rule reads after the first pass.
  double bytes_read_again(const Operand& gradient) const;
  void need_update(Flow&, const Op&, double bytes) const;
  void need_combine(Flow&, double bytes) const;
  double disk_rate(bool read, double bytes) const;

  const Plan& plan_;
  const ModelGraph& graph_;
  const Machine machine_;
  const std::vector<BlockSeconds> blocks_;          // by block; no entry is 0
  std::vector<std::vector<double>> orthogonalize_;  // [window][cut]
  std::vector<u32> gradient_reads_;                 // by rule
  std::vector<u32> switch_of_;  // [device] in the plan's numbering; none: a path of its own
  std::vector<double> capacities_;
  double disk_mixed_ = 1.0;
};

}  // namespace tidepool
