// Power cuts under real training on cores: a small GPT that is stopped at any moment resumes from its commits
// and ends in the weights of an undisturbed run. power_cut_test.cpp cuts far more often, without a model;
// here every lane is real and has its thread, so a seed repeats the stop, but not its exact moment.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "planner/planner.h"
#include "tests/power/dice.h"
#include "tests/support/cases.h"
#include "tests/support/cpu_rig.h"
#include "tests/support/segments.h"
#include "tests/support/small_training.h"

namespace tidepool::training_cut_test {

using test::CpuRig;
using test::Dice;
using test::SegmentList;
using enum SegmentKind;

constexpr u64 last_step = 5;
constexpr u64 payload_bytes = sizeof(LossScale);

ModelGraph graph_of(Precision precision) {
  const ModelConfig config{.vocab_size = 31,
                           .positions = 8,
                           .width = 16,
                           .layers = 2,
                           .attention = {.heads = 2},
                           .residual_dropout = 0.1};
  return build_model(config, precision, {.sequences = 1, .tokens = 8}).value();
}

// A commit has the loss scale, which is the only progress that training needs here.
class LossScaleSource final : public CommitSource {
 public:
  std::optional<std::span<const std::byte>> payload(u64 step) override {
    if (step > 0) scale = executor->result(step).next_loss_scale;
    return std::as_bytes(std::span(&scale, 1));
  }
  TrainingExecutor* executor = nullptr;
  LossScale scale;
};

struct StepNotes final : EngineObserver {
  void completed(const Issue& issue, const Completion&) override {
    if (issue.get().kind == OpKind::commit) committed = issue.step;
  }
  u64 committed = 0;
};

std::vector<SegmentRun> runs_after(u64 done, bool clipping) {
  std::vector<SegmentRun> runs;
  if (done >= last_step) return runs;
  runs.push_back({forward_backward, done + 1});
  for (u64 step = done + 2; step <= last_step; ++step) runs.push_back({body, step});
  if (clipping) runs.push_back({drain, last_step + 1});
  return runs;
}

class Training {
 public:
  Training(Precision precision, PlanOptions options)
      : graph_(graph_of(precision)),
        plan_(make_plan(graph_, options).value()),
        data_(graph_.config.vocab_size) {
    u64 committed = 0;
    for (u32 id = 0; id < plan_.chunks.size(); ++id) committed += plan_.is_committed(ChunkId{id});
    head_ = {.format = journal_format(plan_.versions),
             .area_bytes = round_up(commit_bytes(committed, payload_bytes), frame_alignment),
             .frames_bytes = plan_.tiers[2].planned_peak.value,
             .description = "a small GPT"};
    data_.step_settings.target_tokens = graph_.batch.rows() * options.micro_batches;
    if (!options.clipping) data_.step_settings.max_grad_norm = 0;
    if (precision == Precision::fp16) data_.step_settings.loss_scaling = test::scaling;
    SimulatedMedium medium(medium_options());
    whole_ = live(medium, std::nullopt, false, std::nullopt);
    EXPECT_EQ(error_, "");
    changes_ = medium.changes();
  }

  // RETURNS: what is wrong; empty: nothing.
  std::string disturb(u64 seed) {
    Dice dice(seed);
    committed_ = 0;
    std::optional<SimulatedMedium> medium(std::in_place, medium_options());
    std::optional<FoundState> found;
    const bool commits_first = dice.below(2) == 0;
    for (u64 stops_left = 1 + dice.below(3); stops_left > 0; --stops_left) {
      live(*medium, found, commits_first, dice.below(changes_));
      if (!medium->stopped() && !error_.empty()) return error_;
      dice.below(5) == 0 ? medium->end_process(dice.next()) : medium->cut_power(dice.next());
      const auto now = find_state(
          [&](u64 begin, u64 bytes) -> Result<std::vector<std::byte>> {
            const auto range = medium->bytes().subspan(begin, bytes);
            return std::vector<std::byte>(range.begin(), range.end());
          },
          medium->size(), "the medium");
      if (!now) return now.error().message;
      found.reset();
      if (*now && (*now)->commit.sequence > 0) found = **now;
      if ((found ? found->commit.step : 0) < committed_) return "a step that was committed is lost";
      if (!found) medium.emplace(medium_options());
    }
    const std::vector<std::byte> state = live(*medium, found, commits_first, std::nullopt);
    if (!error_.empty()) return error_;
    return state == whole_ ? "" : "other weights";
  }

 private:
  MediumOptions medium_options() const { return {.bytes = Bytes{head_.file_bytes()}}; }

  // Runs one process. RETURNS: the state at its end; sets error_.
  std::vector<std::byte> live(SimulatedMedium& medium, const std::optional<FoundState>& found,
                              bool commits_first, std::optional<u64> stop_after) {
    LossScaleSource source;
    CommitRequest commits{.head = head_, .source = &source};
    if (found) {
      commits.writes_head = false;
      commits.sequence = found->commit.sequence;
      commits.marks = found->commit.chunks;
    }
    CpuRig rig(plan_, graph_, data_, {.medium = &medium, .commits = &commits});
    source.executor = rig.executor.get();
    if (stop_after) medium.stop_after(*stop_after);
    StepNotes notes;
    const Result<void> ended = train(*rig.executor, source, found, commits_first, notes);
    if (notes.committed > 0) committed_ = notes.committed;
    error_ = ended ? "" : ended.error().message;
    return ended && !medium.stopped() ? test::state_of(plan_, *rig.executor) : std::vector<std::byte>();
  }

  Result<void> train(TrainingExecutor& executor, LossScaleSource& source,
                     const std::optional<FoundState>& found, bool commits_first, StepNotes& notes) {
    if (graph_.precision == Precision::fp16) source.scale = {.scale = test::first_scale};
    if (found) {
      std::memcpy(&source.scale, found->commit.payload.data(), sizeof source.scale);
      TRY(executor.take_over());
    } else {
      for (u32 id = 0; id < plan_.chunks.size(); ++id)
        if (is_persistent(plan_.chunks[id].kind))
          TRY(executor.write_home(ChunkId{id}, test::initial_chunk(plan_.chunks[id], graph_)));
      if (commits_first) TRY(executor.commit_at_rest(0));
    }
    if (graph_.precision == Precision::fp16) executor.set_loss_scale(source.scale);
    const auto engine = Engine::create(plan_, executor, {});
    SegmentList runs(runs_after(found ? found->commit.step : 0, plan_.clipping));
    return engine->run(runs, notes);
  }

  const ModelGraph graph_;
  const Plan plan_;
  test::HashedData data_;
  JournalHead head_;
  std::vector<std::byte> whole_;
  u64 changes_ = 0;
  u64 committed_ = 0;  // step of the last commit that completed, in all lives of a trial
  std::string error_;
};

class TrainingCut : public ::testing::TestWithParam<Precision> {};

TEST_P(TrainingCut, EndsInTheWeightsOfAnUndisturbedRun) {
  u64 seed = test::from_environment("TIDEPOOL_POWER_SEED", 1);
  for (const HomePolicy home : {HomePolicy::disk, HomePolicy::mixed, HomePolicy::host, HomePolicy::device})
    for (const bool clipping : {true, false}) {
      Training training(GetParam(), {.budgets = {Bytes{mib}, Bytes{mib}, Bytes{gib}},
                                     .micro_batches = 2,
                                     .clipping = clipping,
                                     .home = home,
                                     .chunk_bytes = Bytes{8 * kib},
                                     .versions = clipping ? 3u : 2u});
      for (u32 i = 0; i < test::random_cases(16); ++i, ++seed)
        ASSERT_EQ(training.disturb(seed), "")
            << "TIDEPOOL_POWER_SEED=" << seed << " " << static_cast<u32>(home) << " " << clipping;
    }
}

INSTANTIATE_TEST_SUITE_P(Precisions, TrainingCut,
                         ::testing::Values(Precision::fp32, Precision::bf16, Precision::fp16),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace tidepool::training_cut_test
