// prepare_run() does everything before the first step of a run: chooses a plan, takes memory and disk, and
// brings the state in (load_state.h).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/trainer_state.h"
#include "data/batches/batch_source.h"
#include "data/batches/dataset.h"
#include "fit/plan_run.h"
#include "probe/step/predict.h"
#include "run/commits/branch_file.h"
#include "run/commits/run_commits.h"
#include "run/directory/run_directory.h"
#include "run/learning_rate.h"
#include "run/outputs/run_outputs.h"
#include "run/saves/run_checkpoints.h"
#include "run/train_source.h"
#include "run/trainer.h"
#include "session/session.h"

namespace tidepool {

// PreparedRun holds the parts of a run. Members are created in this order; later ones refer to earlier ones.
struct PreparedRun {
  PreparedRun(const TrainRequest& request, Job of_run)
      : request(request), job(std::move(of_run)), outputs(config(), request.quiet), commits(durability) {}
  PreparedRun(const PreparedRun&) = delete;

  const Config& config() const { return job.config; }
  bool several() const { return config().machine.nodes > 1; }
  bool leads() const { return config().machine.node == 0; }
  bool is_fp16() const { return config().train.precision == Precision::fp16; }
  Sampling sampling() const { return request.sampling.value_or(Sampling{}); }

  Policy policy() const;  // REQUIRES: there is a session

  const TrainRequest& request;
  Job job;  // with epochs converted to steps once the data is known; a change of plan gives another one
  RunOutputs outputs;
  RunPlan chosen;  // its plan moves into the session
  std::vector<std::string> choice_notes;
  std::unique_ptr<Dataset> data;
  std::unique_ptr<BatchSource> batches;
  LearningRate learning_rate;
  std::unique_ptr<TrainSource> source;
  RunDirectory directory;
  std::unique_ptr<Session> session;
  std::unique_ptr<RunCheckpoints> checkpoints;
  Prediction prediction;
  BranchNote branch;       // what the run directory is to remember of its commits
  BranchFile branch_file;  // where it does, once the run is described
  RunDurability durability;
  RunCommits commits;
  TrainerState state;  // of the checkpoint that the run resumes from, or fresh
};

// Checks the config before anything is opened. Several nodes agree on what their graphs depend on.
// RETURNS: the job of the request, with choices made.
Result<Job> job_of_run(const TrainRequest&);

// Fills all other members.
// RETURNS: nullopt, or, if the run has reached its last step before, its report; there is then nothing to
// train.
Result<std::optional<RunReport>> prepare_run(PreparedRun&);

// Replaces plan and session by those of the other policy of updates, which begin from the commit of this
// step. At rest. REQUIRES: the durability's state may tell plan_changes. Nobody uses the session, its plan or
// `source`. Errors: those of preparing a resume. The run can be resumed after them.
Result<void> change_plan(PreparedRun&, bool speculates);

// Writes config.yaml and plan.txt of the run directory, as they are now.
Result<void> describe_plan(const PreparedRun&);
// The same. On a resume, prints how the plan has changed since
// the last plan.txt.
Result<void> describe_run(PreparedRun&);

// All is saved elsewhere: the last commit is not needed any more.
void forget_commit(PreparedRun&);

// Micro-batches of one evaluation.
u64 evaluation_batches(const PreparedRun&);

// RETURNS: all settings that the run's numbers depend on and that a resume may change.
std::map<std::string, std::string> settings_now(const PreparedRun&);

}  // namespace tidepool
