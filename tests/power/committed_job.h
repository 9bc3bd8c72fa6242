// CommittedJob is a training job that is stopped at any moment and resumes from its swap file, on a simulated
// medium: what RunPreparation and the trainer do in a run, without a model.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "engine/engine.h"
#include "io/simulated_medium.h"
#include "io/state_journal.h"
#include "tests/power/hashed_executor.h"
#include "tests/support/random_case.h"

namespace tidepool::test {

// Progress supplies the payload of a commit, which says its step.
class Progress final : public CommitSource {
 public:
  std::optional<std::span<const std::byte>> payload(u64 step) override;
  static bool is_of(const std::string& payload, u64 step);

 private:
  std::string text_;
};

struct JobShape {
  RandomCase plan;
  u64 steps = 5;
  u64 persist_steps = 1;
  u64 description_bytes = 100;  // of the journal's head
};

// Life is one process of the job.
struct Life {
  u64 began_after = 0;            // step; 0: from nothing
  u64 committed = 0;              // step of the last commit that completed; 0: none
  std::vector<u64> committed_at;  // by step: changes of the medium until its commit completed; 0: none
  std::optional<Error> error;
  u64 final_state = 0;  // hash; if there was no error
};

class CommittedJob {
 public:
  // RETURNS: null if the job does not fit.
  static std::unique_ptr<CommittedJob> create(const JobShape&);

  const JournalHead& head() const { return head_; }
  // Hash of the state after a step, in a run that nothing disturbs.
  u64 state_after(u64 step) const { return states_[step]; }
  u64 steps() const { return shape_.steps; }
  // Changes of the medium from a commit to the next one, in such a run. `done`: 0: from the beginning.
  u64 changes_to_commit(u64 done) const;
  u64 changes_after(u64 done) const { return changes_ - changes_until(done); }  // to the end
  MediumOptions medium() const { return {.bytes = Bytes{head_.file_bytes()}}; }

  // RETURNS: as a new process finds it.
  static Result<std::optional<FoundState>> find(const SimulatedMedium&);
  // Runs a process to the end of the training, or until the medium stops. `found`: null: it begins anew.
  Life live(SimulatedMedium& medium, const FoundState* found, u64 seed) {
    return live(medium, found, seed, steps());
  }
  // RETURNS: hash of the committed state, as a process finds it that resumes from there.
  Result<u64> committed_state(SimulatedMedium&, const FoundState&);

 private:
  CommittedJob(const JobShape&, ModelGraph, Plan);
  Life live(SimulatedMedium&, const FoundState* found, u64 seed, u64 steps);
  Result<std::unique_ptr<HashedExecutor>> open(SimulatedMedium&, const CommitRequest&, u64 seed);
  Result<void> train(HashedExecutor&, const SimulatedMedium&, u64 steps, Life&);
  u64 changes_until(u64 done) const { return done == 0 ? 0 : committed_at_[done]; }

  const JobShape shape_;
  const ModelGraph graph_;
  const Plan plan_;
  JournalHead head_;
  HashedMemory memory_;
  HashedData data_{100};
  // A run that nothing disturbs.
  std::vector<u64> states_;
  u64 changes_ = 0;
  std::vector<u64> committed_at_;  // by step: changes until its commit; 0: none
};

// The jobs of all campaigns: homes, precisions, clipping, cuts, sizes of the head.
std::vector<std::unique_ptr<CommittedJob>> committed_jobs();

}  // namespace tidepool::test
