// RowLookup brings the rows of a table that a micro-batch's tokens look up, and not the table (Lookup).
#pragma once

#include <span>
#include <vector>

#include "executor/shared/disk_lanes.h"
#include "executor/shared/executor_common.h"
#include "executor/shared/step_source.h"

namespace tidepool {

// A table at home on disk is read in blocks of 4 KiB, each with a checksum of its own. They take 1/512 of the
// table's bytes, beside the budgets (lookup_memory()).
// THREADS: the host lane's thread; keep_checksums() at rest.
class RowLookup {
 public:
  // REQUIRES: both outlive the object; the plan looks rows up.
  RowLookup(ExecutorCommon&, DiskLanes&);

  // Tokens become their places among the distinct tokens, in order of token.
  void number(std::span<i32> tokens);
  // Runs an op: the rows of its micro-batch's tokens, and their count.
  // Errors: those of the data source and of the disk; a block whose checksum is wrong.
  Result<void> run(const Issue&);
  // `content`: a chunk of the table that is about to be written to the disk.
  void keep_checksums(ChunkId, std::span<const std::byte> content);

 private:
  // Cut of the table, in its home.
  struct Cut {
    ChunkId chunk{};
    u64 begin = 0, bytes = 0;  // within the table
    Frame home;
    std::vector<u64> checksums;  // by block; tables on disk only
  };
  // Part of a row within one cut.
  struct Part {
    u64 cut = 0;
    u64 begin = 0, bytes = 0;  // within the cut
  };
  // Blocks of one cut that are read together.
  struct Run {
    u64 cut = 0;
    u64 first = 0, blocks = 0;
    u64 at = 0;  // block of the staging buffer
  };

  Result<void> load_tokens(const Issue&);
  void find_distinct(std::span<const i32> tokens);
  // Calls fn for the parts of a row, in order.
  template <class Fn>
  void parts_of(i32 row, Fn&&) const;
  void copy_from_host(std::span<std::byte> rows) const;
  Result<void> copy_from_disk(std::span<std::byte> rows);
  // Reads the blocks of as many rows, from row `first` of the list on, as the staging buffer holds.
  // RETURNS: the row after them.
  Result<u64> read_rows(u64 first);
  void add_blocks(const Part&);
  Error damaged(const Run&, u64 block) const;

  ExecutorCommon& common_;
  DiskLanes& disk_;
  const Lookup& lookup_;
  const u64 row_bytes_;
  std::vector<Cut> cuts_;
  bool on_disk_ = false;
  std::vector<i32> distinct_;                   // rows of the micro-batch, ascending
  std::vector<i32> tokens_, targets_, starts_;  // of the micro-batch
  std::vector<Run> runs_;
  std::vector<BlockRead> reads_;
  u64 blocks_ = 0;  // in `runs_`
};

// Memory that looking rows up takes beside the budgets.
Bytes lookup_memory(const Plan&, u64 places);

}  // namespace tidepool
