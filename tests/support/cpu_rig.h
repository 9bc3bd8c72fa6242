// CpuRig holds everything a CPU executor needs, in memory: a pool, arenas of the plan's size, a simulated
// disk, and data made from the step number.
#pragma once

#include <cstdlib>
#include <memory>
#include <optional>

#include "executor/cpu/cpu_executor.h"
#include "io/simulated_disk.h"
#include "kernels/kernels.h"

namespace tidepool::test {

// Page-aligned memory of any size.
class PageBuffer {
 public:
  explicit PageBuffer(u64 bytes)
      : bytes_(round_up(std::max<u64>(bytes, 1), frame_alignment)),
        data_(static_cast<std::byte*>(std::aligned_alloc(frame_alignment, bytes_))) {
    std::fill_n(data_, bytes_, std::byte{0xA5});
  }
  ~PageBuffer() { std::free(data_); }
  PageBuffer(const PageBuffer&) = delete;
  PageBuffer& operator=(const PageBuffer&) = delete;
  std::span<std::byte> span() const { return {data_, bytes_}; }

 private:
  u64 bytes_;
  std::byte* data_;
};

// Tokens are a hash of (step, micro-batch, position); targets are the next token.
class HashedData : public StepSource {
 public:
  explicit HashedData(u32 vocab_size) : vocab_size_(vocab_size) {}
  Result<void> load_batch(const BatchRequest& r, const BatchArrays& batch) override {
    const std::span<i32> tokens = batch.tokens, targets = batch.targets, starts = batch.starts;
    if (fault) return *fault;
    // Each sequence has two documents of any length: its first half and the rest.
    const u64 length = starts.empty() ? 0 : starts.size() / sequences;
    for (u64 i = 0; i < starts.size(); ++i)
      starts[i] = i % length < length / 2 ? 0 : static_cast<i32>(length / 2);
    for (u64 i = 0; i < tokens.size(); ++i) {
      tokens[i] = token(r, i);
      targets[i] = token(r, i + 1);
    }
    return {};
  }
  StepSettings settings(u64) const override { return step_settings; }

  StepSettings step_settings{.optimizer = {.learning_rate = 1e-3, .weight_decay = 0.1}, .max_grad_norm = 1.0};
  std::optional<Error> fault;
  u64 micro_batches = 1;  // micro-batches of an evaluation segment
  u64 sequences = 1;      // sequences of a packed batch

 private:
  i32 token(const BatchRequest& r, u64 i) const {
    const u64 batch =
        r.evaluation ? (r.step - 1) * micro_batches + r.micro_batch : 1000 * r.step + r.micro_batch;
    u64 z = (2 * batch + r.evaluation) * 1000003 + i;
    z = (z ^ (z >> 15)) * 0xbf58476d1ce4e5b9;
    return static_cast<i32>((z >> 40) % vocab_size_);
  }
  u32 vocab_size_;
};

struct CpuRigOptions {
  u32 workers = 2;
  u32 disk_depth = 8;
  DiskFaults faults;
  Nanos patience{120'000'000'000};         // longer than a busy machine delays a thread
  Transport* transport = nullptr;          // to the other nodes of the plan
  SimulatedMedium* medium = nullptr;       // under the disk; null: one of its own
  const CommitRequest* commits = nullptr;  // for a plan with several versions
};

class CpuRig {
 public:
  CpuRig(const Plan& plan, const ModelGraph& graph, StepSource& source, const CpuRigOptions& options = {})
      : pool(create_core_pool(options.workers, kernel_scratch_per_worker).value()),
        host(plan.tiers[1].planned_peak.value),
        staging(64 * kib) {
    const u64 disk_bytes = std::max<u64>(plan.tiers[2].planned_peak.value, frame_alignment);
    const auto open = [&](DiskSink sink) -> Result<std::unique_ptr<Disk>> {
      return std::unique_ptr<Disk>(
          options.medium != nullptr
              ? create_simulated_disk(*options.medium, options.faults, {}, std::move(sink))
              : create_simulated_disk(Bytes{disk_bytes}, options.faults, {}, std::move(sink)));
    };
    std::vector<CpuLaneDevice> lanes;
    for (u32 d = 0; d < plan.devices; ++d)
      lanes.push_back(
          {.kernels = kernels.emplace_back(create_cpu_kernels(*pool)).get(),
           .arena =
               devices.emplace_back(std::make_unique<PageBuffer>(plan.tiers[0].planned_peak.value))->span()});
    executor = create_cpu_executor(plan, graph, *pool, lanes,
                                   {.source = source,
                                    .host_arena = host.span(),
                                    .staging = staging.span(),
                                    .open_disk = open,
                                    .disk_depth = options.disk_depth,
                                    .seed = 1,
                                    .transport = options.transport,
                                    .commits = options.commits,
                                    .patience = options.patience})
                   .value();
  }

  std::unique_ptr<CorePool> pool;
  std::vector<std::unique_ptr<Kernels>> kernels;  // by device
  std::vector<std::unique_ptr<PageBuffer>> devices;
  PageBuffer host, staging;
  std::unique_ptr<TrainingExecutor> executor;
};

}  // namespace tidepool::test
