// Job is what a config asks for, derived once: the model's graph and the planner's options. Every command
// plans, checks and runs from it. A change of the config gives another job.
#pragma once

#include "config/config.h"
#include "planner/planner.h"

namespace tidepool {

struct Job {
  Config config;
  ModelGraph graph;
  // With the memory that a run needs beside frames. memory.disk=auto: no limit (disk_budget() resolves it).
  PlanOptions options;
};

// Pure function of the config. Groups of experts and pieces of sequences, where the config leaves them open,
// are made smaller than usual_sizes() until the job fits; with memory.disk=auto, on a disk without limit.
// Errors: ErrorKind::usage if the devices cannot train the model.
Result<Job> make_job(Config);
// The same, for a model that only runs forward: no window is trained. `output`: of its targets.
Result<Job> make_forward_job(Config, TargetOutput output = TargetOutput::nothing);
// RETURNS: the job with train.max_steps, which its graph and options do not depend on.
Job with_steps(Job, u64 max_steps);

// RETURNS: true if rows may hold several documents. GPT-2's positions are learned for whole rows: one
// document each.
bool packs_documents(const Config&);
// True if the norm may change updates: to clip, or in fp16 after an overflow.
bool norm_counts(const Config&);
// True if the host learns a step's loss scale too late for updates that do not wait for the norm.
bool scale_is_late(const Config&);

}  // namespace tidepool
