#include "tests/power/committed_job.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "planner/planner.h"
#include "tests/support/segments.h"

namespace tidepool::test {
namespace {

constexpr u64 payload_bytes = 5000;

std::string payload_of(u64 step) {
  std::string text = fmt::format("progress after step {}", step);
  text.resize(payload_bytes >> step % 4, static_cast<char>('a' + step % 26));
  return text;
}

// Notes which step the last commit counts on. With three versions, saves in the background last over one or
// two commits.
struct CommitNotes final : EngineObserver {
  CommitNotes(const SimulatedMedium& medium, HashedExecutor& executor, bool saves, Life& life)
      : medium(medium), executor(executor), saves(saves), life(life) {}
  void completed(const Issue& issue, const Completion& completion) override {
    if (issue.get().kind != OpKind::commit || completion.error != nullptr) return;
    life.committed = issue.step;
    life.committed_at[issue.step] = medium.changes();
    if (executor.saves() && issue.step % 3 != 0) lost |= !executor.end_save(medium);
    if (saves && !executor.saves()) executor.begin_save();
  }
  const SimulatedMedium& medium;
  HashedExecutor& executor;
  const bool saves;
  Life& life;
  bool lost = false;  // what a save was reading
};

std::vector<SegmentRun> runs_from(u64 done, u64 steps, u64 persist_steps, bool clipping) {
  std::vector<SegmentRun> runs;
  if (done >= steps) return runs;
  runs = {{SegmentKind::forward_backward, done + 1}};
  for (u64 step = done + 2; step <= steps; ++step) runs.push_back({SegmentKind::body, step});
  if (clipping) runs.push_back({SegmentKind::drain, steps + 1});
  for (SegmentRun& run : runs) {
    const u64 updated = clipping ? run.step - 1 : run.step;
    run.persists = updated > done && updated % persist_steps == 0;
  }
  return runs;
}

CommitRequest after(const FoundState& found) {
  return {.head = found.head,
          .writes_head = false,
          .sequence = found.commit.sequence,
          .marks = found.commit.chunks};
}

}  // namespace

std::optional<std::span<const std::byte>> Progress::payload(u64 step) {
  text_ = payload_of(step);
  return std::as_bytes(std::span(text_));
}

bool Progress::is_of(const std::string& payload, u64 step) { return payload == payload_of(step); }

std::unique_ptr<CommittedJob> CommittedJob::create(const JobShape& shape) {
  ModelGraph graph = make_graph(shape.plan.shape);
  Result<Plan> plan = make_plan(graph, shape.plan.options);
  if (!plan) return nullptr;
  return std::unique_ptr<CommittedJob>(new CommittedJob(shape, std::move(graph), *std::move(plan)));
}

CommittedJob::CommittedJob(const JobShape& shape, ModelGraph graph, Plan plan)
    : shape_(shape), graph_(std::move(graph)), plan_(std::move(plan)), memory_(plan_) {
  u64 committed = 0;
  for (u32 id = 0; id < plan_.chunks.size(); ++id) committed += plan_.is_committed(ChunkId{id});
  head_ = {.format = journal_format(plan_.versions),
           .area_bytes = round_up(commit_bytes(committed, payload_bytes), frame_alignment),
           .frames_bytes = plan_.tiers[2].planned_peak.value,
           .description = std::string(shape.description_bytes, 'd')};
  states_.push_back(0);
  for (u64 steps = 1; steps <= shape.steps; ++steps) {
    SimulatedMedium undisturbed(medium());
    const Life life = live(undisturbed, nullptr, 0, steps);
    CHECK(!life.error, life.error->message);
    states_.push_back(life.final_state);
    committed_at_ = life.committed_at;
    changes_ = undisturbed.changes();
  }
}

u64 CommittedJob::changes_to_commit(u64 done) const {
  for (u64 step = done + 1; step <= shape_.steps; ++step)
    if (committed_at_[step] > 0) return committed_at_[step] - changes_until(done);
  return changes_after(done);
}

Result<std::optional<FoundState>> CommittedJob::find(const SimulatedMedium& medium) {
  const auto read = [&](u64 begin, u64 bytes) -> Result<std::vector<std::byte>> {
    const std::span<const std::byte> range = medium.bytes().subspan(begin, bytes);
    return std::vector<std::byte>(range.begin(), range.end());
  };
  return find_state(read, medium.size(), "the medium");
}

Result<std::unique_ptr<HashedExecutor>> CommittedJob::open(SimulatedMedium& medium,
                                                           const CommitRequest& commits, u64 seed) {
  return HashedExecutor::create({.plan = plan_,
                                 .graph = graph_,
                                 .source = data_,
                                 .memory = memory_,
                                 .medium = medium,
                                 .commits = commits,
                                 .seed = seed});
}

Life CommittedJob::live(SimulatedMedium& medium, const FoundState* found, u64 seed, u64 steps) {
  Life life{.began_after = found != nullptr ? found->commit.step : 0,
            .committed_at = std::vector<u64>(steps + 1)};
  Progress progress;
  CommitRequest commits = found != nullptr ? after(*found) : CommitRequest{.head = head_};
  commits.source = &progress;
  const auto whole = [&]() -> Result<u64> {
    TRY_ASSIGN(const std::unique_ptr<HashedExecutor> executor, open(medium, commits, seed));
    if (found != nullptr)
      TRY(executor->take_over());
    else
      TRY(executor->write_first_state());
    TRY(train(*executor, medium, steps, life));
    return executor->hash_state();
  };
  const Result<u64> state = whole();
  if (state)
    life.final_state = *state;
  else
    life.error = state.error();
  return life;
}

Result<void> CommittedJob::train(HashedExecutor& executor, const SimulatedMedium& medium, u64 steps,
                                 Life& life) {
  const std::unique_ptr<Engine> engine = Engine::create(plan_, executor, {});
  SegmentList runs(runs_from(life.began_after, steps, shape_.persist_steps, plan_.clipping));
  CommitNotes notes(medium, executor, plan_.versions > 2, life);
  const Result<void> ran = engine->run(runs, notes);
  CHECK(!notes.lost, life.committed);
  return ran;
}

Result<u64> CommittedJob::committed_state(SimulatedMedium& medium, const FoundState& found) {
  const CommitRequest commits = after(found);
  TRY_ASSIGN(const std::unique_ptr<HashedExecutor> executor, open(medium, commits, 0));
  TRY(executor->take_over());
  return executor->hash_state();
}

std::vector<std::unique_ptr<CommittedJob>> committed_jobs() {
  std::vector<std::unique_ptr<CommittedJob>> jobs;
  u32 number = 0;
  for (const HomePolicy home :
       {HomePolicy::disk, HomePolicy::mixed, HomePolicy::host, HomePolicy::device, HomePolicy::automatic})
    for (const Precision precision : {Precision::bf16, Precision::fp32, Precision::fp16})
      for (const bool clipping : {true, false}) {
        ++number;
        JobShape shape{.persist_steps = 1 + number % 3 / 2,
                       .description_bytes = number % 2 == 0 ? 100u : 6000u};
        shape.plan.shape = {.layers = 1 + number % 4 / 3,
                            .layer_elements = number % 3 == 0 ? 4096u : 2048u,
                            .embedding_elements = 2048,
                            .boundary_bytes = 4096,
                            .kept_bytes = number % 2 * u64{4096},
                            .workspace_bytes = 4096,
                            .precision = precision,
                            .untied = number % 5 == 0,
                            .optim = number % 4 == 1   ? Optim::muon
                                     : number % 4 == 2 ? Optim::adamw_8bit
                                     : number % 8 == 3 ? Optim::adafactor
                                                       : Optim::adamw_torch};
        shape.plan.options = {.budgets = {Bytes{256 * kib}, Bytes{256 * kib}, Bytes{gib}},
                              .micro_batches = 1 + number % 2,
                              .clipping = clipping,
                              .home = home,
                              .chunk_bytes = Bytes{number % 3 == 0 ? 8192u : 0u},
                              .versions = number % 4 < 2 ? 3u : 2u,
                              .advise = false};
        if (std::unique_ptr<CommittedJob> job = CommittedJob::create(shape)) jobs.push_back(std::move(job));
      }
  return jobs;
}

}  // namespace tidepool::test
