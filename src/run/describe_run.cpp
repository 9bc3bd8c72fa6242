// Description that a run directory keeps of its run: config, plan, and what of it was committed where.
#include "base/text/path_text.h"
#include "run/prepare_run.h"

namespace tidepool {

Result<void> describe_plan(const PreparedRun& run) {
  Config described = run.config();
  described.train.speculate = run.request.config.train.speculate;
  described.machine.parallel = run.request.config.machine.parallel;
  described.train.max_steps = run.request.config.train.max_steps;  // auto stays auto
  // Absolute paths: readers of the run run from other working directories.
  if (run.job.graph.lora.on()) described.model_directory = absolute_path(run.config().model_directory);
  if (!run.config().memory.swap_dir.empty())
    described.memory.swap_dir = absolute_path(run.config().memory.swap_dir);
  if (!run.config().lora.adapter.empty()) described.lora.adapter = absolute_path(run.config().lora.adapter);
  return run.directory.describe_run(to_yaml(described), plan_text(run.config(), run.session->plan()));
}

// A changed plan is no error on a resume, but it is printed with its effect on the numbers.
Result<void> describe_run(PreparedRun& run) {
  if (!run.request.resume.empty()) {
    const std::string change = run.directory.change_of_plan(plan_text(run.config(), run.session->plan()));
    if (!change.empty()) run.outputs.say(change);
  }
  TRY(describe_plan(run));
  // A run that commits nothing remembers only that it has left what another process has committed.
  const bool commits = run.session->plan().versions > 1;
  if (run.config().machine.node > 0 ||
      (!commits && !is_named(run.config().output.dir + "/" + branch_file_name)))
    return {};
  TRY_ASSIGN(run.branch_file, BranchFile::write(run.config().output.dir, run.branch));
  run.commits.remember_in(run.branch_file);
  return {};
}

void forget_commit(PreparedRun& run) {
  run.session->discard_commit();
  run.branch_file.forget();
}

}  // namespace tidepool
