// Commits keep the trainer's progress after their step, beside the chunks.
#include "run/commits/commit_progress.h"

#include <gmock/gmock.h>

#include <cmath>

namespace tidepool::commit_progress_test {

TrainerState state_after(u64 step) {
  TrainerState s{
      .step = step, .seed = 7, .data_fingerprint = "data", .base_fingerprint = {}, .base_xxh3 = {}};
  for (u64 i = 1; i <= step; ++i) s.losses.push_back(1.0 / static_cast<double>(i));
  s.eval_losses = {{.step = 2, .loss = 0.1, .tokens = 10}};
  s.tokens = 100 * step;
  s.seconds = 0.5 * static_cast<double>(step);
  s.best_step = 2;
  s.settings = {{"train.seed", "7"}};
  return s;
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Takes the steps' numbers as a run does: the next step may be done before this one is committed.
struct Trained {
  explicit Trained(u64 last, u64 bytes_max = CommitProgress::bytes_max(100, 10)) {
    durability.begin(durability_at({.versions = 2}, last, std::nullopt));
    progress.begin(bytes_max);
    progress.rested(state_after(0));
    for (u64 step = 1; step <= last; ++step) {
      state.losses.push_back(1.0 / static_cast<double>(step));
      state.tokens = 100 * step;
      progress.step_done(state, step, 0.5 * static_cast<double>(step));
    }
  }
  // RETURNS: the payload of a commit that is then durable.
  std::optional<std::span<const std::byte>> commit(u64 step) {
    const auto payload = progress.payload(step);
    if (payload) durability.tell(Event::commit_is_durable, step);
    return payload;
  }

  TrainerState state;
  RunDurability durability;
  CommitProgress progress{durability};
};

TEST(CommitProgress, ComesBackAsTheStateAfterItsStepAndNotALaterOne) {
  Trained trained(6);
  for (const u64 step : {5, 6}) {
    const auto payload = trained.commit(step);
    ASSERT_TRUE(payload);
    const Result<TrainerState> back = progress_of_commit(text_of(*payload), "FILE");
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(*back, state_after(step));
  }
}

TEST(CommitProgress, KeepsTheLatestLossesIfNotAllFit) {
  const u64 text = to_text(state_after(0)).size();
  Trained trained(6, 64 + text + 3 * sizeof(double));
  const Result<TrainerState> back = progress_of_commit(text_of(*trained.commit(6)), "FILE");
  ASSERT_TRUE(back);
  ASSERT_EQ(back->losses.size(), 6u);
  for (u64 i = 0; i < 6; ++i)
    EXPECT_TRUE(i < 3 ? std::isnan(back->losses[i]) : back->losses[i] == 1.0 / static_cast<double>(i + 1))
        << i;
}

TEST(CommitProgress, SuppliesNothingWhileASaveReadsTheOnlyOtherSlot) {
  Trained trained(6);
  EXPECT_TRUE(trained.commit(6));
  trained.durability.tell(Event::save_begins_in_background);
  EXPECT_FALSE(trained.commit(6));
  trained.durability.tell(Event::save_fails);
  EXPECT_TRUE(trained.commit(6));
}

TEST(CommitProgress, SuppliesNothingFromABadStepOn) {
  Trained trained(6);
  trained.durability.tell(Event::run_continues);
  trained.durability.tell(Event::step_counts, 7);
  trained.durability.tell(Event::step_is_bad, 7);
  EXPECT_FALSE(trained.commit(7));
  EXPECT_TRUE(trained.commit(6));
}

TEST(CommitProgress, OfAnotherShapeIsRefused) {
  Trained trained(3);
  const std::string whole(text_of(*trained.commit(3)));
  for (u64 bytes = 0; bytes < whole.size(); bytes += 7)
    EXPECT_FALSE(progress_of_commit(whole.substr(0, bytes), "FILE")) << bytes;
  EXPECT_TRUE(progress_of_commit(whole, "FILE"));
}

}  // namespace tidepool::commit_progress_test
