#include "tests/power/recorded_job.h"

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

// Notes which step the last record counts on. With three versions, saves in the background go on over one or
// two records.
struct RecordNotes final : EngineObserver {
  RecordNotes(const SimulatedMedium& medium, HashedExecutor& executor, bool saves, Life& life)
      : medium(medium), executor(executor), saves(saves), life(life) {}
  void completed(const Issue& issue, const Completion& completion) override {
    if (issue.get().kind != OpKind::record || completion.error != nullptr) return;
    life.recorded = issue.step;
    life.recorded_at[issue.step] = medium.changes();
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

RecordRequest after(const FoundState& found) {
  return {.head = found.head,
          .writes_head = false,
          .sequence = found.record.sequence,
          .marks = found.record.chunks};
}

}  // namespace

std::optional<std::span<const std::byte>> Progress::payload(u64 step) {
  text_ = payload_of(step);
  return std::as_bytes(std::span(text_));
}

bool Progress::is_of(const std::string& payload, u64 step) { return payload == payload_of(step); }

std::unique_ptr<RecordedJob> RecordedJob::create(const JobShape& shape) {
  ModelGraph graph = make_graph(shape.plan.shape);
  Result<Plan> plan = make_plan(graph, shape.plan.options);
  if (!plan) return nullptr;
  return std::unique_ptr<RecordedJob>(new RecordedJob(shape, std::move(graph), *std::move(plan)));
}

RecordedJob::RecordedJob(const JobShape& shape, ModelGraph graph, Plan plan)
    : shape_(shape), graph_(std::move(graph)), plan_(std::move(plan)), memory_(plan_) {
  u64 recorded = 0;
  for (u32 id = 0; id < plan_.chunks.size(); ++id) recorded += plan_.is_recorded(ChunkId{id});
  head_ = {.format = journal_format(plan_.versions),
           .area_bytes = round_up(record_bytes(recorded, payload_bytes), frame_alignment),
           .frames_bytes = plan_.tiers[2].planned_peak.value,
           .description = std::string(shape.description_bytes, 'd')};
  states_.push_back(0);
  for (u64 steps = 1; steps <= shape.steps; ++steps) {
    SimulatedMedium undisturbed(medium());
    const Life life = live(undisturbed, nullptr, 0, steps);
    CHECK(!life.error, life.error->message);
    states_.push_back(life.final_state);
    recorded_at_ = life.recorded_at;
    changes_ = undisturbed.changes();
  }
}

u64 RecordedJob::changes_to_record(u64 done) const {
  for (u64 step = done + 1; step <= shape_.steps; ++step)
    if (recorded_at_[step] > 0) return recorded_at_[step] - changes_until(done);
  return changes_after(done);
}

Result<std::optional<FoundState>> RecordedJob::find(const SimulatedMedium& medium) {
  const auto read = [&](u64 begin, u64 bytes) -> Result<std::vector<std::byte>> {
    const std::span<const std::byte> range = medium.bytes().subspan(begin, bytes);
    return std::vector<std::byte>(range.begin(), range.end());
  };
  return find_state(read, medium.size(), "the medium");
}

Result<std::unique_ptr<HashedExecutor>> RecordedJob::open(SimulatedMedium& medium,
                                                          const RecordRequest& records, u64 seed) {
  return HashedExecutor::create({.plan = plan_,
                                 .graph = graph_,
                                 .source = data_,
                                 .memory = memory_,
                                 .medium = medium,
                                 .records = records,
                                 .seed = seed});
}

Life RecordedJob::live(SimulatedMedium& medium, const FoundState* found, u64 seed, u64 steps) {
  Life life{.began_after = found != nullptr ? found->record.step : 0,
            .recorded_at = std::vector<u64>(steps + 1)};
  Progress progress;
  RecordRequest records = found != nullptr ? after(*found) : RecordRequest{.head = head_};
  records.source = &progress;
  const auto whole = [&]() -> Result<u64> {
    TRY_ASSIGN(const std::unique_ptr<HashedExecutor> executor, open(medium, records, seed));
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

Result<void> RecordedJob::train(HashedExecutor& executor, const SimulatedMedium& medium, u64 steps,
                                Life& life) {
  const std::unique_ptr<Engine> engine = Engine::create(plan_, executor, {});
  SegmentList runs(runs_from(life.began_after, steps, shape_.persist_steps, plan_.clipping));
  RecordNotes notes(medium, executor, plan_.versions > 2, life);
  const Result<void> ran = engine->run(runs, notes);
  CHECK(!notes.lost, life.recorded);
  return ran;
}

Result<u64> RecordedJob::recorded_state(SimulatedMedium& medium, const FoundState& found) {
  const RecordRequest records = after(found);
  TRY_ASSIGN(const std::unique_ptr<HashedExecutor> executor, open(medium, records, 0));
  TRY(executor->take_over());
  return executor->hash_state();
}

std::vector<std::unique_ptr<RecordedJob>> recorded_jobs() {
  std::vector<std::unique_ptr<RecordedJob>> jobs;
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
                            .untied = number % 5 == 0};
        shape.plan.options = {.budgets = {Bytes{256 * kib}, Bytes{256 * kib}, Bytes{gib}},
                              .micro_batches = 1 + number % 2,
                              .clipping = clipping,
                              .home = home,
                              .chunk_bytes = Bytes{number % 3 == 0 ? 8192u : 0u},
                              .versions = number % 4 < 2 ? 3u : 2u,
                              .advise = false};
        if (std::unique_ptr<RecordedJob> job = RecordedJob::create(shape)) jobs.push_back(std::move(job));
      }
  return jobs;
}

}  // namespace tidepool::test
