// A session takes memory, disk and threads for a plan, in this order, and hands them to the executor.
#include "trainer/session.h"

#include <algorithm>

#include <fmt/format.h>

#include "executor/cpu/cpu_executor.h"
#include "io/memory_limits.h"
#include "model/blocks.h"
#include "tidepool/check.h"
#include "trainer/rest_staging.h"

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

// Still to be taken outside of the arenas. Code, the plan and scratch are in use by now and counted as such;
// to come are schedules and records of ops, buffers of files, stacks and the disk's queue.
Bytes beside_budgets(const Plan& plan) {
  constexpr u64 bytes_per_op = 256;
  constexpr Bytes buffers{12 * mib};
  u64 ops = 0;
  for (const Segment& segment : plan.segments) ops += segment.ops.size();
  return buffers + Bytes{ops * bytes_per_op} + staging_beside_budgets(plan);
}

}  // namespace

Bytes staging_beside_budgets(const Plan& plan) {
  Bytes beside{};
  for (const StagingPlace& place : place_staging(plan, StateStore::staging_bytes(plan), host_reserved()))
    if (!place.tier) beside += place.bytes;
  return beside;
}

Bytes host_reserved() {
  return Bytes{round_up((executor_staging + checkpoint_buffer).value, frame_alignment)};
}

Result<ModelGraph> make_graph(const Config& config) {
  return build_gpt2(config.model, config.train.precision,
                    {.sequences = config.train.per_device_train_batch_size,
                     .tokens = config.train.sequence_length});
}

u32 micro_batches_per_step(const Config& config) {
  return config.train.gradient_accumulation_steps * config.machine.devices();
}

Result<Bytes> disk_budget(const Config& config) {
  if (config.memory.budgets.disk != disk_auto) return config.memory.budgets.disk;
  return swap_space(swap_directory(config));
}

PlanOptions plan_options(const Config& config, Bytes disk) {
  const Budgets& budgets = config.memory.budgets;
  return PlanOptions{.budgets = {.device = budgets.device, .host = budgets.host, .disk = disk},
                      .micro_batches = micro_batches_per_step(config),
                      .devices = config.machine.devices(),
                      .clipping = config.train.max_grad_norm > 0,
                      .home = config.memory.home,
                      .recompute = config.train.recompute,
                      .chunk_bytes = config.memory.chunk_size,
                      .sweeps = config.memory.sweeps,
                      .lookahead = config.memory.lookahead,
                      .host_reserved = host_reserved()};
}

std::string plan_text(const Config& config, const Plan& plan) {
  std::string text = to_text(plan);
  if (config.memory.budgets.disk != disk_auto) return text;
  const std::string budget = fmt::format("disk budget {}", plan.tiers[static_cast<u32>(Tier::disk)].budget.value);
  const u64 at = text.find(budget);
  CHECK(at != std::string::npos, budget);
  return text.replace(at, budget.size(), "disk budget auto");
}

Result<std::unique_ptr<Session>> Session::create(const Config& config, const ModelGraph& graph, Plan plan,
                                                 StepSource& source, const SessionOptions& options) {
  std::unique_ptr<Session> session(new Session(graph, std::move(plan)));
  TRY_ASSIGN(session->pool_, create_core_pool(config.machine.threads, kernel_scratch_per_worker));
  for (u32 d = 0; d < session->plan_.devices; ++d)
    session->kernels_.push_back(create_cpu_kernels(*session->pool_));
  TRY(session->take_memory());
  if (!options.open_disk) TRY(session->take_disk(config, options));
  TRY(session->open_executor(config, source, options));
  session->make_state_store();
  return session;
}

Result<void> Session::take_memory() {
  const MemoryLimits limits = read_memory_limits();
  const auto peak = [&](Tier tier) { return plan_.tiers[static_cast<u32>(tier)].planned_peak; };
  TRY(check_memory(limits, peak(Tier::device) * plan_.devices + peak(Tier::host), beside_budgets(plan_)));
  const auto arena = [&](std::string name, Bytes bytes) {
    return Arena::create({.name = std::move(name),
                          .bytes = Bytes{std::max(round_up(bytes.value, frame_alignment), frame_alignment)},
                          .pool = pool_.get(),
                          .ledger = &ledger_});
  };
  for (u32 d = 0; d < plan_.devices; ++d) {
    TRY_ASSIGN(devices_.emplace_back(), arena(fmt::format("device {}", d), peak(Tier::device)));
    notes_.push_back(devices_.back()->describe());
  }
  TRY_ASSIGN(host_, arena("host", peak(Tier::host)));
  notes_.push_back(host_->describe());
  return {};
}

Result<void> Session::take_disk(const Config& config, const SessionOptions& options) {
  const SwapFileOptions file{.dir = swap_directory(config),
                             .bytes = plan_.tiers[static_cast<u32>(Tier::disk)].planned_peak,
                             .own_dir = options.own_swap_dir || config.memory.swap_dir.empty()};
  if (file.bytes.value == 0) {
    const std::string cleared = clear_swap_litter(file);
    if (!cleared.empty()) notes_.push_back(cleared);
    return {};
  }
  TRY_ASSIGN(swap_, SwapFile::create(file));
  for (const std::string& note : swap_->notes()) notes_.push_back(note);
  const std::string memlock = explain_memlock(read_memory_limits(), host_->bytes());
  if (!memlock.empty()) notes_.push_back(memlock);
  return {};
}

Result<void> Session::open_executor(const Config& config, StepSource& source, const SessionOptions& options) {
  const u64 frames_end = host_->bytes().value - host_reserved().value;
  CpuExecutorParts parts{.pool = *pool_,
                         .kernels = {},
                         .source = source,
                         .device_arenas = {},
                         .host_arena = host_->memory(),
                         .staging = host_->memory().subspan(frames_end, executor_staging.value),
                         .open_disk = options.open_disk,
                         .disk_depth = config.memory.queue_depth,
                         .seed = config.train.seed,
                         .rest_patience = options.rest_patience};
  for (u32 d = 0; d < plan_.devices; ++d) {
    parts.kernels.push_back(kernels_[d].get());
    parts.device_arenas.push_back(devices_[d]->memory());
  }
  if (swap_)
    parts.open_disk = [this, &config](DiskSink sink) -> Result<std::unique_ptr<Disk>> {
      return create_disk(*swap_, backend_of(config.memory.io),
                         {.queue_depth = config.memory.queue_depth, .arenas = {host_->memory()}},
                         std::move(sink));
    };
  TRY_ASSIGN(executor_, CpuExecutor::create(plan_, graph_, parts));
  if (executor_->disk() != nullptr) notes_.push_back("disk: " + executor_->disk()->describe());
  return {};
}

// An update has the chunks that it brought from disk in host frames beside all homes, so there is room for one
// of each at rest. Were it in pieces too small, the device's arena would do, which is host memory here.
void Session::make_state_store() {
  const std::array<StagingPlace, 2> places = place_staging(plan_, StateStore::staging_bytes(plan_), host_reserved());
  StateStore::Staging staging;
  for (u32 i = 0; i < staging.size(); ++i) {
    const auto& [tier, offset, bytes] = places[i];
    if (tier) {
      staging[i] = (*tier == Tier::host ? host_memory() : device_memory()).subspan(offset, bytes.value);
    } else if (bytes.value > 0) {
      own_staging_[i].resize(bytes.value);
      ledger_.take("checkpoint staging", bytes);
      staging[i] = own_staging_[i];
    }
  }
  state_ = std::make_unique<StateStore>(plan_, graph_, *executor_, staging);
}

}  // namespace tidepool
