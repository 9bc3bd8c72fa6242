// load_state() brings the state of a run into its session: from a commit, a checkpoint or the first weights.
#pragma once

#include <optional>

#include "run/resume_point.h"

namespace tidepool {

// Resumes from the commit if that is the point, else from `found`, or begins anew. Several nodes: node 0
// loads for all. REQUIRES: the session is open, and nothing was trained.
Result<void> load_state(PreparedRun&, const ResumePoint&, std::optional<FoundCheckpoint> found);
// The plan has changed: loads the run's own last commit.
Result<void> load_own_commit(PreparedRun&, const ResumePoint&);

}  // namespace tidepool
