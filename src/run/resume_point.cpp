#include "run/resume_point.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/path_text.h"
#include "run/directory/checkpoint_of_commit.h"
#include "run/directory/find_committed_run.h"

namespace tidepool {
namespace {

Asked asked_by(const std::string& resume, bool commit_is_named) {
  if (commit_is_named) return Asked::commit;
  if (resume.empty()) return Asked::anew;
  return resume == "auto" ? Asked::automatic : Asked::checkpoint;
}

}  // namespace

Result<void> ResumePoint::find_commit() {
  TRY_ASSIGN(FoundCommit found,
             find_committed_run(run_.job, run_.request.resume,
                                [this](const std::string& line) { run_.outputs.warn(line); }));
  committed_ = std::move(found.run);
  noted_ = std::move(found.note);
  left_at_ = found.left_at;
  remains_ = {.asked = asked_by(run_.request.resume, found.is_asked_for), .several_nodes = run_.several()};
  if (committed_) remains_.commit = committed_->state.step;
  const bool is_asked_for = remains_.asked == Asked::automatic || remains_.asked == Asked::commit;
  if (remains_.several_nodes && committed_ && is_asked_for) TRY(save_commit_for_nodes());
  return {};
}

void ResumePoint::set_commit(CommittedRun run) {
  remains_ = {.asked = Asked::automatic, .commit = run.state.step};
  committed_ = std::move(run);
  source_ = resume_source(remains_);
}

Result<void> ResumePoint::save_commit_for_nodes() {
  const std::string& dir = run_.config().output.dir;
  if (remains_.asked == Asked::commit)
    return Error{
        ErrorKind::usage,
        fmt::format("--resume {}: resume from it on one machine, without a launcher; Ctrl-C after its "
                    "first step saves a checkpoint, from which several resume with --resume auto",
                    run_.request.resume)};
  TRY_ASSIGN(const std::vector<u64> steps, checkpoint_steps(dir));
  if (!steps.empty() && steps.back() >= committed_->state.step) return {};
  TRY_ASSIGN(const SavedCheckpoint saved, make_checkpoint_of(*committed_, run_.job));
  run_.outputs.say(
      fmt::format("made {} of the state committed in {}: several machines resume from a checkpoint",
                  saved.path, committed_->found.path));
  return {};
}

Result<std::optional<FoundCheckpoint>> ResumePoint::find_checkpoint() {
  bool is_newest = remains_.asked == Asked::commit;
  if (may_be_commit() && !is_newest) {
    TRY_ASSIGN(const std::vector<u64> steps, checkpoint_steps(run_.config().output.dir));
    is_newest = steps.empty() || steps.back() <= *remains_.commit;
  }
  std::optional<FoundCheckpoint> found;
  if (!is_newest) {
    TRY_ASSIGN(found, run_.checkpoints->find(run_.request.resume));
  }
  if (found) remains_.checkpoint = found->state.step;
  source_ = resume_source(remains_);
  if (is_commit()) found.reset();
  if (!is_newest && run_.request.resume == "auto") TRY(check_reaches(found));
  return found;
}

// A commit that was named counts, whatever the run has trained since.
std::optional<u64> ResumePoint::end_of_branch() const {
  if (remains_.asked != Asked::commit) return std::nullopt;
  return std::min(*remains_.commit, left_at_.value_or(*remains_.commit));
}

// A damaged checkpoint may have been stepped over.
Result<void> ResumePoint::check_reaches(const std::optional<FoundCheckpoint>& found) const {
  ReachedSteps reached;
  if (found) reached.checkpoint = found->state.step;
  if (is_commit()) reached.commit = committed_->state.step;
  const bool torn = committed_ && committed_->found.newest_is_torn;
  std::optional<Error> left = torn ? std::nullopt : leaves_steps_behind(run_.config(), noted_, reached);
  if (left) return *std::move(left);
  return {};
}

Result<void> ResumePoint::keep_what_is_known() const {
  if (!noted_) return {};
  const std::string& dir = run_.config().output.dir;
  TRY_ASSIGN(const std::optional<BranchNote> written, read_branch_note(dir));
  if (written != noted_) TRY(BranchFile::write(dir, *noted_));
  return {};
}

std::string ResumePoint::note_branch(const std::optional<FoundCheckpoint>& found) {
  const u64 step = is_commit() ? committed_->state.step : found ? found->state.step : 0;
  if (noted_ && !run_.request.resume.empty()) run_.branch = *noted_;
  std::string left_behind;
  if (run_.branch.step > step && run_.request.resume != "auto")
    left_behind = fmt::format("steps {} to {}, which this run has committed, are left behind", step + 1,
                              run_.branch.step);
  is_commit() ? run_.branch.follow(committed_->branch, step) : run_.branch.begin(new_branch_id(), step);
  run_.branch.swap_dir =
      run_.config().memory.swap_dir.empty() ? "" : canonical_path(run_.config().memory.swap_dir);
  return left_behind;
}

}  // namespace tidepool
