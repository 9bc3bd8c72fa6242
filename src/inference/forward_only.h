// forward_only plans and loads a trained model that only runs forward, within the budgets of its training.
// Its only state is parameters.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "session/session.h"

namespace tidepool {

// RETURNS: the run's config, with the checkpoint as its model, because the model directory may be gone. With
// adapters the config's model stays.
// ErrorKind::usage if the config describes a model that would compute something else than the trained one.
Result<Config> config_of_trained(const std::string& run_dir, const std::string& checkpoint,
                                 std::vector<std::string> overrides);

// RETURNS: a line for each file outside of the checkpoint that is used with it and differs from what the run
// wrote or kept: config.yaml, data.tokenizer, data.chat_template, and with adapters the model's directory.
Result<std::vector<std::string>> changes_since_run(const std::string& run_dir, const std::string& checkpoint);

// Resets the settings chosen for training (homes, chunks, sweeps, a machine's rates), and selects one of the
// run's devices; if that is not available, selects the CPU and notes it. `overrides`: those that the config
// was read with.
// Error: as check_gpus(), if the overrides name GPUs that are not available.
Result<void> make_forward_only(Config&, std::span<const std::string> overrides,
                               const std::function<void(const std::string&)>& note);

struct ForwardPlan {
  Job job;
  Plan plan;
};
// Errors: as check_executor() and make_plan(), and if the disk is too small.
Result<ForwardPlan> plan_forward(const Config&, TargetOutput output = TargetOutput::nothing);

// Takes memory for the plan, and loads the weights of a checkpoint or a model directory. `note`: lines about
// tensors that are rounded, or that the model does not use.
// Errors: as Session::create() and load_weights().
Result<std::unique_ptr<Session>> open_forward(ForwardPlan, StepSource&, const std::string& weights,
                                              const std::function<void(const std::string&)>& note);

}  // namespace tidepool
