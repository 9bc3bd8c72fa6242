// ExecutorCommon is everything that the lanes of one executor share, on any hardware: the request, the memory
// behind frames, the ledger of chunks on disk, the board of completions, and counters.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "executor/lanes/completion_board.h"
#include "executor/lanes/lane_book.h"
#include "executor/lanes/lane_work.h"
#include "executor/lanes/tier_memory.h"
#include "executor/shared/batch_op.h"
#include "executor/shared/chunk_ledger.h"
#include "executor/shared/replayed_steps.h"
#include "executor/shared/step_results.h"
#include "executor/shared/update_index.h"
#include "io/disk.h"
#include "io/state_journal.h"
#include "net/transport.h"
#include "tidepool/core_pool.h"
#include "tidepool/model_graph.h"

namespace tidepool {

// MovedBytes counts useful bytes that were really copied, read and written.
// THREADS: any thread may call.
class MovedBytes {
 public:
  void add(LinkKind link, u64 bytes) {
    by_link_[static_cast<u32>(link)].fetch_add(bytes, std::memory_order_relaxed);
  }
  // Explained at ExecutorCounters::moved_by_data().
  void add_by_data(LinkKind link, i64 bytes) {
    by_data_[static_cast<u32>(link)].fetch_add(bytes, std::memory_order_relaxed);
  }
  void add_between_devices(u64 bytes) { between_devices_.fetch_add(bytes, std::memory_order_relaxed); }
  void add_over_network(bool sent, u64 bytes) {
    over_network_[sent].fetch_add(bytes, std::memory_order_relaxed);
  }

  std::array<Bytes, link_count> by_link() const {
    std::array<Bytes, link_count> all{};
    for (u32 i = 0; i < link_count; ++i) all[i] = Bytes{by_link_[i].load(std::memory_order_relaxed)};
    return all;
  }
  std::array<i64, link_count> by_data() const {
    std::array<i64, link_count> all{};
    for (u32 i = 0; i < link_count; ++i) all[i] = by_data_[i].load(std::memory_order_relaxed);
    return all;
  }
  Bytes between_devices() const { return Bytes{between_devices_.load(std::memory_order_relaxed)}; }
  NetBytes over_network() const {
    return {Bytes{over_network_[1].load(std::memory_order_relaxed)},
            Bytes{over_network_[0].load(std::memory_order_relaxed)}};
  }

 private:
  std::array<std::atomic<u64>, link_count> by_link_{};
  std::array<std::atomic<i64>, link_count> by_data_{};
  std::atomic<u64> between_devices_{0};
  std::array<std::atomic<u64>, 2> over_network_{};  // received, sent
};

// RETURNS: bytes of a copy from an operand, whose content is `from`: of rows that are looked up only those
// that are there.
inline u64 useful_bytes(const Plan& plan, const Operand& operand, std::span<const std::byte> from) {
  if (plan.chunk(operand.first).kind != Kind::rows) return operand.frame.bytes.value;
  return values_bytes(u64{row_count(from)} * plan.lookup.row_elements, plan.precision);
}

// CommitSource supplies what a commit keeps beside the state: the trainer's progress.
class CommitSource {
 public:
  virtual ~CommitSource() = default;
  // RETURNS: bytes that stay unchanged until the next call; with all marks they fit into an area of the
  // journal. Nullopt: no run is to resume from the state after this step, so there will be no commit of it.
  // THREADS: the engine's thread, after the step's loss is known.
  virtual std::optional<std::span<const std::byte>> payload(u64 step) = 0;
};

// CommitRequest describes the journal on the disk, for plans that keep several versions of the state.
struct CommitRequest {
  JournalHead head;
  bool writes_head = true;  // false: an earlier process has written it
  u64 sequence = 0;         // of the last commit there
  std::vector<ChunkMark>
      marks;  // of the last commit: slots count as they say from the start; empty: there is none
  CommitSource* source = nullptr;  // null: commits have no payload
};

struct ExecutorRequest {
  StepSource& source;               // outlives the executor
  std::span<std::byte> host_arena;  // frames of the host, and more
  std::span<std::byte> staging;     // for transfers at rest: a multiple of 8 KiB, page-aligned; with GPUs a
                                    // part of the arena
  OpenDisk open_disk;               // empty: the plan uses no disk
  u32 disk_depth = 32;              // requests in flight per disk lane
  u64 seed = 0;                     // seed of dropout
  Transport* transport = nullptr;   // to the other nodes; null: there are none
  const CommitRequest* commits = nullptr;  // null: the plan keeps one version; outlives the executor
  Nanos patience{1'000'000'000};           // timeout of wait() for a completion
  Nanos rest_patience{300'000'000'000};    // timeout of one piece of a transfer at rest
  // Called by GPUs' executors once matrix products are tuned, before anything else starts. Empty: no-op.
  std::function<void()> products_tuned = {};
};

struct ExecutorCommon {
  // `devices`: memory of each device's frames.
  // REQUIRES: the plan, the graph, the pool and everything in the request outlive the object.
  ExecutorCommon(const Plan&, const ModelGraph&, CorePool&, std::vector<std::span<std::byte>> devices,
                 const ExecutorRequest&);
  ExecutorCommon(const ExecutorCommon&) = delete;

  const Plan& plan;
  const ModelGraph& graph;
  CorePool& pool;
  const ExecutorRequest request;
  const ExecutorClock clock;
  const TierMemory memory;
  const UpdateIndex updates;
  ChunkLedger ledger;
  ReplayedSteps replayed;
  LaneBook book;
  CompletionBoard board;
  EvaluationSums evaluation;
  MovedBytes moved;
  std::atomic<u64> vote{0};          // of this node, for all nodes
  LogitsRequest logits;              // set at rest
  TargetOutputs* outputs = nullptr;  // set at rest
};

}  // namespace tidepool
