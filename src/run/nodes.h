// Runs on several nodes: what each node makes of the request, and what all agree on before the first step.
// Node 0 leads: it shows the run, reads and writes its weights and checkpoints. The others keep their own
// logs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/trainer_state.h"
#include "fit/plan_run.h"
#include "net/transport.h"
#include "run/trainer.h"

namespace tidepool {

// RETURNS: the config with the settings that memory.nodes has for the node, of `nodes`.
// Errors: ErrorKind::usage, naming the entry, and the node that does not exist or the key that it sets.
Result<Config> config_of_node(const Config&, u32 node, u32 nodes);

// RETURNS: the request as this node runs it. Nodes beside node 0 are quiet, save nothing, and have a folder
// of their own in output.dir and in memory.swap_dir.
// ErrorKind::usage: several nodes cannot train the config.
Result<TrainRequest> request_of_node(const TrainRequest&);

// Clears what killed nodes of an earlier run of more nodes left in folders that no node of this run uses.
// RETURNS: lines that say so.
std::vector<std::string> clear_absent_nodes(const Config&);

// Groups of experts and pieces of sequences follow from the device's budget, and must be alike on all nodes:
// all take the smallest that any of them would.
Result<void> agree_on_sizes(Transport&, Config&);
// Errors: as agree(), for the first setting, or fact of model and data, that differs.
Result<void> agree_on_job(Transport&, const Config&, std::string_view data_fingerprint);
// Errors: ErrorKind::usage if a node's model.directory has other weights than node 0's. Only node 0 needs
// any. ErrorKind::bad_input if this node has weights that cannot be read.
Result<void> agree_on_weights(Transport&, const Config&);
// Plans until all nodes have the same chunks and sweeps, although their memory may differ: the smallest
// chunks and the most sweeps that any node chose. Their devices share a step as those of node 0 do. Then
// checks that every message has its two ends. Errors: as plan_run(), and agree().
Result<RunPlan> agree_on_plan(Transport&, const Job&, PlanFor, const PlanProgress&);
// Node 0's state for all.
Result<TrainerState> share_state(Transport&, const TrainerState&);

}  // namespace tidepool
