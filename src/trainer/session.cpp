#include "trainer/session.h"

#include <sys/statvfs.h>

#include <algorithm>

#include <fmt/format.h>

#include "io/memory_limits.h"
#include "model/blocks.h"
#include "tidepool/check.h"

namespace tidepool {
namespace {

DiskBackend backend_of(IoBackend io) {
  switch (io) {
    case IoBackend::io_uring: return DiskBackend::io_uring;
    case IoBackend::threads: return DiskBackend::threads;
    case IoBackend::automatic: break;
  }
  return DiskBackend::automatic;
}

std::string swap_dir(const Config& config) {
  return config.memory.swap_dir.empty() ? config.output.dir + "/swap" : config.memory.swap_dir;
}

Bytes host_reserved() {
  return Bytes{round_up((executor_staging + checkpoint_buffer).value, frame_alignment)};
}

}  // namespace

Result<ModelGraph> make_graph(const Config& config) {
  return build_gpt2(config.model, config.train.precision,
                    {.sequences = config.train.per_device_train_batch_size,
                     .tokens = config.train.sequence_length});
}

PlanOptions plan_options(const Config& config) {
  PlanOptions options{.budgets = config.memory.budgets,
                      .micro_batches = config.train.gradient_accumulation_steps,
                      .clipping = config.train.max_grad_norm > 0,
                      .home = config.memory.home,
                      .recompute = config.train.recompute,
                      .chunk_bytes = config.memory.chunk_size,
                      .sweeps = config.memory.sweeps,
                      .lookahead = config.memory.lookahead,
                      .host_reserved = host_reserved()};
  if (options.budgets.disk.value == 0) options.budgets.disk = Bytes{~u64{0} / 2};  // what is free
  return options;
}

Result<std::unique_ptr<Session>> Session::create(const Config& config, const ModelGraph& graph, Plan plan,
                                                 StepSource& source) {
  std::unique_ptr<Session> session(new Session(graph, std::move(plan)));
  TRY_ASSIGN(session->pool_, create_core_pool(config.machine.threads, kernel_scratch_per_worker));
  session->kernels_ = create_cpu_kernels(*session->pool_);
  TRY(session->take_memory(config));
  TRY(session->open_executor(config, source));
  session->make_state_store();
  return session;
}

Result<void> Session::take_memory(const Config& config) {
  const MemoryLimits limits = read_memory_limits();
  const auto peak = [&](Tier tier) { return plan_.tiers[static_cast<u32>(tier)].planned_peak; };
  TRY(check_memory(limits, peak(Tier::device) + peak(Tier::host)));
  const auto arena = [&](const char* name, Bytes bytes) {
    return Arena::create({.name = name,
                          .bytes = Bytes{std::max(round_up(bytes.value, frame_alignment), frame_alignment)},
                          .pool = pool_.get(),
                          .ledger = &ledger_});
  };
  TRY_ASSIGN(device_, arena("device 0", peak(Tier::device)));
  TRY_ASSIGN(host_, arena("host", peak(Tier::host)));
  notes_ = {device_->describe(), host_->describe()};
  if (peak(Tier::disk).value == 0) return {};
  TRY_ASSIGN(swap_, SwapFile::create({.dir = swap_dir(config), .bytes = peak(Tier::disk)}));
  for (const std::string& note : swap_->notes()) notes_.push_back(note);
  const std::string memlock = explain_memlock(limits, host_->bytes());
  if (!memlock.empty()) notes_.push_back(memlock);
  return {};
}

Result<void> Session::open_executor(const Config& config, StepSource& source) {
  const u64 frames_end = host_->bytes().value - host_reserved().value;
  CpuExecutorParts parts{.pool = *pool_,
                         .kernels = *kernels_,
                         .source = source,
                         .device_arena = device_->memory(),
                         .host_arena = host_->memory(),
                         .staging = host_->memory().subspan(frames_end, executor_staging.value),
                         .disk_depth = config.memory.queue_depth,
                         .seed = config.train.seed};
  if (swap_)
    parts.open_disk = [this, &config](DiskSink sink) -> Result<std::unique_ptr<Disk>> {
      return create_disk(*swap_, backend_of(config.memory.io),
                         {.queue_depth = config.memory.queue_depth, .arenas = {host_->memory()}},
                         std::move(sink));
    };
  TRY_ASSIGN(executor_, CpuExecutor::create(plan_, graph_, parts));
  if (swap_) notes_.push_back("disk: " + executor_->disk()->describe());
  return {};
}

// At rest the host holds homes only; what lies above them is free for staging.
void Session::make_state_store() {
  u64 homes_end = 0;
  for (const Frame& home : plan_.homes)
    if (home.bytes.value > 0 && home.tier == Tier::host) homes_end = std::max(homes_end, home.end());
  homes_end += frame_alignment;  // scalars
  const u64 frames_end = host_->bytes().value - host_reserved().value;
  const u64 needed = StateStore::staging_bytes(plan_).value;
  std::span<std::byte> staging;
  if (homes_end + needed <= frames_end) {
    staging = host_->memory().subspan(frames_end - needed, needed);
  } else {
    own_staging_.resize(needed);
    ledger_.take("checkpoint staging", Bytes{needed});
    staging = own_staging_;
  }
  state_ = std::make_unique<StateStore>(plan_, graph_, *executor_, staging);
}

}  // namespace tidepool
