// Plans of a trained model that is only run forward, through the budgets of its training: parameters are all
// its state.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "config/config.h"
#include "tidepool/model_graph.h"
#include "tidepool/plan.h"
#include "tidepool/state_stream.h"

namespace tidepool {

// Of a run, with the model as its checkpoint has it: the directory that it came from may be gone. Adapters
// are for a model that stays where it is. ErrorKind::usage where the model would compute something else than
// the one that was trained.
Result<Config> config_of_trained(const std::string& run_dir, const std::string& checkpoint,
                                 std::vector<std::string> overrides);

// A line for each file that stands outside of the checkpoint, is used with it, and is no longer what the run
// wrote or kept: config.yaml, data.tokenizer, data.chat_template, and of adapters the model's directory.
Result<std::vector<std::string>> changes_since_run(const std::string& run_dir, const std::string& checkpoint);

// Takes back what was chosen for training (homes, chunks, sweeps, a machine's rates), and computes on one
// device of those that the run had, on the cores where that is not here, which is noted. `overrides`: what
// the config was read with. Error: they name GPUs, which are not here, as of check_gpus.
Result<void> make_forward_only(Config&, std::span<const std::string> overrides,
                               const std::function<void(const std::string&)>& note);

struct ForwardPlan {
  ModelGraph graph;
  Plan plan;
};
// Errors: as check_executor and make_plan, and of a disk that is short.
Result<ForwardPlan> plan_forward(const Config&);

// Of a checkpoint or a model directory. Returns the names of tensors that the model has no use for; errors as
// of load_weights.
Result<std::vector<std::string>> load_forward_weights(const Config&, const std::string& directory,
                                                      const ModelGraph&, StateWriter&);

}  // namespace tidepool
