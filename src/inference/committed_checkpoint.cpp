#include "inference/committed_checkpoint.h"

#include <fmt/format.h>

#include "base/text/path_text.h"
#include "checkpoint/checkpoint.h"
#include "config_files/load_config.h"
#include "fit/memory_need.h"
#include "io/directory_lock.h"
#include "run/directory/checkpoint_of_commit.h"
#include "run/directory/find_committed_run.h"
#include "run/directory/run_directory.h"

namespace tidepool {
namespace {

// RETURNS: the step of the newest checkpoint whose model verifies; 0: there is none.
u64 newest_good_step(const std::string& run_dir) {
  const Result<FoundWeights> found = find_weights(run_dir, checkpoint_buffer);
  if (!found || !found->path) return 0;
  const Result<TrainerState> state = read_trainer_state(*found->path);
  return state ? state->step : 0;
}

}  // namespace

Result<std::vector<std::string>> save_committed_state(const std::string& path) {
  std::vector<std::string> lines;
  const std::string run_dir = without_slashes(path);
  if (!is_named(run_dir + "/config.yaml") || !is_named(run_dir + "/plan.txt")) return lines;
  if (lock_holder(run_dir, run_lock_name)) return lines;
  const Result<Config> loaded =
      load_config(run_dir + "/config.yaml", {"output.dir=" + run_dir}, KeptModel::read);
  const Result<Job> job = loaded ? make_job(*loaded) : Result<Job>(loaded.error());
  TRY_ASSIGN(const std::vector<u64> steps, checkpoint_steps(run_dir));
  if (!loaded && steps.empty()) return loaded.error();
  if (!loaded) lines.push_back("no committed state is looked for: " + loaded.error().message);
  if (!job) return lines;  // named by whoever needs the model next
  const Result<FoundCommit> found =
      find_committed_run(*job, "auto", [&](const std::string& line) { lines.push_back(line); });
  if (!found && steps.empty())
    return Error{found.error().kind, fmt::format("{} has no checkpoint to read. To train on: {}", run_dir,
                                                 found.error().message)};
  if (!found) lines.push_back("no committed state is used: " + found.error().message);
  if (!found || !found->run) return lines;
  const std::optional<CommittedRun>& run = found->run;
  // A name is not enough: a newer checkpoint that is damaged is stepped over.
  const u64 newest = steps.empty() || steps.back() < run->state.step ? 0 : newest_good_step(run_dir);
  if (newest >= run->state.step) return lines;
  const bool in_the_way = is_named(fmt::format("{}/checkpoint-{}", run_dir, run->state.step));
  const Result<RunDirectory> locked = RunDirectory::open(run_dir);
  const Result<SavedCheckpoint> saved =
      locked ? make_checkpoint_of(*run, *job) : Result<SavedCheckpoint>(locked.error());
  if (saved)
    lines.push_back(fmt::format("made {} of the state that the killed run has committed{}", saved->path,
                                in_the_way ? ", in the place of one that was not whole" : ""));
  else if (steps.empty())
    return saved.error();
  else
    lines.push_back(fmt::format("the state committed after step {} is not used: {}", run->state.step,
                                saved.error().message));
  return lines;
}

}  // namespace tidepool
