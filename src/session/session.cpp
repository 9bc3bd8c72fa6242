// A session takes memory, disk and threads for a plan, in this order, and hands them to the executor.
#include "session/session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/process/limits.h"
#include "executor/shared/row_lookup.h"
#include "fit/executor_choice.h"
#include "fit/memory_need.h"
#include "fit/rest_staging.h"
#include "io/memory_limits.h"
#include "session/committed_reader.h"

namespace tidepool {
namespace {

DiskBackend backend_of(IoBackend io) {
  switch (io) {
    case IoBackend::io_uring:
      return DiskBackend::io_uring;
    case IoBackend::threads:
      return DiskBackend::threads;
    case IoBackend::automatic:
      break;
  }
  return DiskBackend::automatic;
}

// Number of staged chunks of each slot, if there is room: enough to keep a disk busy while the next is
// filled.
u64 staged_pairs(const std::array<Bytes, 2>& one) {
  constexpr Bytes enough{128 * mib};
  const u64 bytes = (one[0] + one[1]).value;
  return bytes == 0 ? 0 : std::clamp<u64>(enough.value / bytes, 2, StateStore::staged_max);
}

}  // namespace

Result<std::unique_ptr<Session>> Session::create(const Job& job, Plan plan, StepSource& source,
                                                 const SessionOptions& options) {
  TRY(check_executor(job.config));
  std::unique_ptr<Session> session(new Session(job, std::move(plan)));
  const Bytes resident = process_resident();
  TRY_ASSIGN(session->pool_, create_core_pool(job.config.machine.threads, kernel_scratch_per_worker));
  TRY(session->take_memory(options, resident));
  session->prepare_commits(options.commits);
  if (!options.open_disk) TRY(session->take_disk(options));
  TRY(session->open_executor(source, options));
  session->make_state_store();
  return session;
}

// Workers touch their scratch while the memory in use is read: what the process has taken since
// `resident_before` is in use, and the rest is to come.
Result<void> Session::take_memory(const SessionOptions& options, Bytes resident_before) {
  const Config& config = job_.config;
  device_memory_ = device_memory_of(config);
  const bool gpus = device_memory_ == DeviceMemory::of_gpus;
  const Bytes host_peak = plan_.tiers[static_cast<u32>(Tier::host)].planned_peak;
  const MemoryNeed need = memory_need(config, plan_,
                                      {.workers = pool_->workers(),
                                       .loads_weights = options.loads_weights,
                                       .steps = options.steps_take,
                                       .updates = update_scratch_of_host(job_.graph, plan_, device_memory_),
                                       .lookups = lookup_memory(plan_, job_.graph.batch.rows())});
  if (!gpus) process_expected_ = resident_before + need.sum();
  const Bytes now = process_resident(), taken = now - std::min(now, resident_before);
  TRY(check_memory(read_memory_limits(), need.arenas, need.beside - std::min(need.beside, taken)));
  if (gpus && config.machine.tune_products) {
    TRY_ASSIGN(products_, TunedProducts::open(product_file(config), options.product_timing, options.say));
  }
  const DevicesRequest request{.plan = plan_,
                               .graph = job_.graph,
                               .pool = *pool_,
                               .ledger = ledger_,
                               .reserved = job_.options.device_reserved,
                               .gpus = config.machine.gpus(),
                               .choices = products_ ? &products_->choices() : nullptr};
  TRY_ASSIGN(devices_, gpus ? gpu_backend()->take_devices(request) : take_cpu_devices(request));
  for (const std::string& line : devices_->describe()) notes_.push_back(line);
  TRY_ASSIGN(
      host_,
      Arena::create({.name = "host",
                     .bytes = Bytes{std::max(round_up(host_peak.value, frame_alignment), frame_alignment)},
                     .near = devices_->pci(),
                     .pool = pool_.get(),
                     .ledger = &ledger_}));
  notes_.push_back(host_->describe());
  return {};
}

// A session that copies from a file of another layout makes a file of its own beside it.
void Session::prepare_commits(const SessionCommits& commits) {
  if (commits.found != nullptr && commits.mode == SessionCommits::Mode::copy)
    copied_commit_ = commits.found->path;
  if (commits.found != nullptr && commits.mode == SessionCommits::Mode::discard)
    stale_commit_ = commits.found->path;
  if (plan_.versions < 2) return;
  const StateTable table = make_state_table(plan_, graph());
  const u64 frames = plan_.tiers[static_cast<u32>(Tier::disk)].planned_peak.value;
  commits_.emplace();
  commits_->source = commits.source;
  if (commits.found != nullptr && commits.mode == SessionCommits::Mode::take_over) {
    commits_->head = commits.found->head;
    commits_->head.frames_bytes = std::max(commits_->head.frames_bytes, frames);
    commits_->writes_head = false;
    commits_->sequence = commits.found->commit.sequence;
    commits_->marks = commits.found->commit.chunks;
    return;
  }
  commits_->head = {.format = journal_format(plan_.versions),
                    .area_bytes = round_up(commit_bytes(table.marks(), commits.payload_max), frame_alignment),
                    .frames_bytes = frames,
                    .description = describe_state(table, commits.owner)};
}

FoundState Session::last_commit() const {
  return {.path = swap_->path(), .head = commits_->head, .commit = executor_->last_commit()};
}

Result<std::unique_ptr<StateReader>> Session::read_commit() {
  TRY_ASSIGN(auto reader,
             CommittedReader::open(last_commit(), make_state_table(plan_, graph()), graph(), *pool_));
  reader->keep(executor_->hold_last_commit());
  return std::unique_ptr<StateReader>(std::move(reader));
}

u64 Session::payload_max() const {
  if (!commits_) return 0;
  return commits_->head.area_bytes - commit_bytes(make_state_table(plan_, graph()).marks(), 0);
}

void Session::keep_commit() {
  if (swap_) swap_->keep(true);
}

Result<void> Session::replace_commit() {
  if (copied_commit_.empty()) return {};
  swap_->keep(true);  // before the only other copy of the state is replaced
  TRY(swap_->rename_to(swap_file_name));
  copied_commit_.clear();
  return {};
}

void Session::discard_commit() {
  if (swap_) swap_->keep(false);
  for (const std::string& path : {copied_commit_, stale_commit_})
    if (!path.empty()) ::unlink(path.c_str());
}

Session::~Session() = default;

Result<void> Session::take_disk(const SessionOptions& options) {
  const Config& config = job_.config;
  using Mode = SessionCommits::Mode;
  using Found = SwapFileOptions::Found;
  const bool copies = !copied_commit_.empty();
  const FoundState* const found = options.commits.found;
  const bool node_folder = config.machine.node > 0 && !config.memory.swap_dir.empty();
  const SwapFileOptions file{.dir = swap_directory(config),
                             .bytes = commits_ ? Bytes{commits_->head.file_bytes()}
                                               : plan_.tiers[static_cast<u32>(Tier::disk)].planned_peak,
                             .own_dir = options.own_swap_dir || config.memory.swap_dir.empty() || node_folder,
                             .makes_parent = node_folder,
                             .file = copies ? swap_file_of_copy : swap_file_name,
                             .committed = found == nullptr                          ? Found::refuse
                                          : options.commits.mode == Mode::take_over ? Found::take_over
                                                                                    : Found::discard,
                             .found = found};
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

Result<void> Session::open_executor(StepSource& source, const SessionOptions& options) {
  const Config& config = job_.config;
  const u64 frames_end = host_->bytes().value - host_reserved().value;
  ExecutorRequest request{.source = source,
                          .host_arena = host_->memory(),
                          .staging = host_->memory().subspan(frames_end, executor_staging.value),
                          .open_disk = options.open_disk,
                          .disk_depth = config.memory.queue_depth,
                          .seed = config.train.seed,
                          .rest_patience = options.rest_patience};
  if (swap_)
    request.open_disk = [this, &config](DiskSink sink) -> Result<std::unique_ptr<Disk>> {
      return create_disk(*swap_, backend_of(config.memory.io),
                         {.queue_depth = config.memory.queue_depth, .arenas = {host_->memory()}},
                         std::move(sink));
    };
  request.transport = options.transport;
  if (commits_) request.commits = &*commits_;
  if (products_) request.products_tuned = [this] { products_->finish(); };
  TRY_ASSIGN(executor_, devices_->create_executor(request));
  if (products_) notes_.insert(notes_.end(), products_->notes().begin(), products_->notes().end());
  if (disk() != nullptr) notes_.push_back("disk: " + disk()->describe());
  return {};
}

// During an update, host frames hold the chunks that it brought from disk, besides all homes. So at rest
// there is room for one chunk of each slot, and mostly for more. If the pieces of that room are too small,
// the device's arena is used: it is host memory here.
void Session::make_state_store() {
  const std::array<Bytes, 2> one = staging_bytes(plan_, device_memory_);
  const u64 pairs = staged_pairs(one);
  std::vector<Bytes> needed;
  for (u64 pair = 0; pair < pairs; ++pair) needed.insert(needed.end(), one.begin(), one.end());
  const std::vector<StagingPlace> places = place_staging(plan_, needed, host_reserved(), device_memory_);
  StateStore::Staging staging;
  for (u32 i = 0; i < places.size(); ++i) {
    const auto& [tier, offset, bytes] = places[i];
    if (bytes.value == 0) continue;
    std::vector<std::span<std::byte>>& slot = staging[i % staging.size()];
    if (tier) {
      const std::span<std::byte> memory = *tier == Tier::host ? host_memory() : devices_->at(0).memory();
      slot.push_back(memory.subspan(offset, bytes.value));
    } else if (slot.empty()) {
      own_staging_[i].resize(bytes.value);
      ledger_.take("checkpoint staging", bytes);
      slot.push_back(own_staging_[i]);
    }
  }
  if (plan_.nodes > 1 && plan_.node == 0)
    leading_ = std::make_unique<LeadingHomes>(plan_, *executor_, *executor_->net());
  if (plan_.nodes > 1 && plan_.node > 0) {
    serving_.resize(std::max(one[0], one[1]).value);
    ledger_.take("a chunk for node 0", Bytes{serving_.size()});
  }
  StateAtRest& homes = leading_ ? static_cast<StateAtRest&>(*leading_) : *executor_;
  state_ = std::make_unique<StateStore>(plan_, graph(), homes, staging);
}

Result<void> Session::end_leading() {
  if (leading_) return leading_->end();
  return {};
}

Result<void> Session::serve() {
  if (plan_.node == 0) return {};
  return serve_at_rest(plan_, *executor_, *executor_->net(), serving_);
}

}  // namespace tidepool
