#include "inference/forward_only.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/read_file.h"
#include "base/text/path_text.h"
#include "base/text/seal.h"
#include "checkpoint/checkpoint.h"
#include "config_files/load_config.h"
#include "fit/disk_budget.h"
#include "fit/executor_choice.h"
#include "fit/memory_need.h"
#include "huggingface/directory/config_difference.h"
#include "huggingface/directory/hf_config.h"
#include "huggingface/weights/adapter_files.h"
#include "huggingface/weights/load_weights.h"
#include "huggingface/weights/unused_tensors.h"
#include "model/rope.h"
#include "report/text_file.h"
#include "run/directory/run_directory.h"
#include "run/weights/base_model.h"
#include "run/weights/first_weights.h"
#include "run/weights/kept_model.h"

namespace tidepool {
namespace {

std::string one_device(Config config, const std::function<void(const std::string&)>& note) {
  const std::vector<u32> gpus = config.machine.gpus();
  if (gpus.empty()) return "cpu";
  config.machine.executor = fmt::format("cuda:{}", gpus.front());
  const Result<void> usable = check_gpus(config);
  if (usable) return config.machine.executor;
  note("computing on the cores, although the run used a GPU: " + usable.error().message);
  return "cpu";
}

// True if an override sets machine.executor. The section's name may be left out.
bool names_executor(std::string_view text) {
  return text.starts_with("machine.executor=") || text.starts_with("executor=");
}

// Checks that the config describes the same model: weights also fit models that compute something else with
// them, such as with other heads or another epsilon.
Result<void> check_is_model_of(const std::string& directory, const Config& config) {
  const std::string path = directory + "/" + model_config_file;
  const Result<std::string> text = read_text_file(path);
  if (!text) return {};  // verifying the model reports the error
  const Result<ModelConfig> there = parse_hf_config(*text, ErrorKind::corrupt_checkpoint, path);
  const std::string difference = there ? config_difference(*there, config.model) : "";
  if (difference.empty()) return {};
  return Error{
      ErrorKind::usage,
      fmt::format("{} is another model: {}. Remove these settings from the command and from {}/config.yaml",
                  directory, difference, config.output.dir)};
}

Result<Config> load_run_config(const std::string& run_dir, std::span<const std::string> overrides) {
  const std::string path = run_dir + "/config.yaml";
  if (!is_named(path))
    return Error{
        ErrorKind::usage,
        fmt::format("{}: there is no such file, which training writes; put the config of the run there",
                    path)};
  Result<Config> config = load_config(path, {overrides.begin(), overrides.end()}, KeptModel::read);
  if (config) return config;
  const Result<std::string> text = read_text_file(path);
  if (!text || comment_holds(*text)) return config.error();
  return Error{
      config.error().kind,
      fmt::format("{}. {} was cut off, damaged or changed since the run wrote this file; restore a copy",
                  config.error().message, path)};
}

// Checks that labels have the numbers that the run's head has learned.
Result<void> check_labels(const std::string& run_dir, const Config& config) {
  TRY_ASSIGN(const Config own, load_run_config(run_dir, std::array{"output.dir=" + run_dir}));
  const ScoreHead &learned = own.model.score, &given = config.model.score;
  if (learned.names.empty() || learned.names == given.names) return {};
  return Error{ErrorKind::usage,
               fmt::format("objective.labels: the head of {} has learned {} in this order; leave the key out",
                           run_dir, fmt::join(learned.names, ", "))};
}

// RETURNS: the names of tensors that the model does not use.
Result<std::vector<std::string>> load(const Job& job, const std::string& directory, StateWriter& writer) {
  const auto& [config, graph, options] = job;
  if (!graph.lora.on()) return load_weights(directory, graph, writer);
  TRY(check_weights_are_there(config));
  TRY(verify_model_if_hashed(config.model_directory, checkpoint_buffer));
  TRY(check_base_model(config.model_directory, directory));
  WriteMore adapters_follow(writer);
  std::string xxh3;
  TRY(load_weights(config.model_directory, graph, adapters_follow, WeightsOf::model, &xxh3));
  TRY(check_base_weights(config.model_directory, directory, xxh3));
  return load_weights(directory, graph, writer, WeightsOf::adapters);
}

}  // namespace

Result<Config> config_of_trained(const std::string& run_dir, const std::string& checkpoint,
                                 std::vector<std::string> overrides) {
  const bool adapters = is_named(checkpoint + "/" + adapter_config_file);
  // First, so that the command line's overrides win.
  if (!adapters) overrides.insert(overrides.begin(), "model=" + checkpoint);
  overrides.push_back("output.dir=" + run_dir);  // the run may have moved
  TRY_ASSIGN(Config config, load_run_config(run_dir, overrides));
  // With adapters, compares with the run's kept config.json: the model's directory may have changed since,
  // which open_forward() reports.
  TRY(check_is_model_of(adapters ? kept_model_directory(config) : checkpoint, config));
  if (config.model.score.on()) TRY(check_labels(run_dir, config));
  return config;
}

Result<std::vector<std::string>> changes_since_run(const std::string& run_dir,
                                                   const std::string& checkpoint) {
  std::vector<std::string> lines;
  if (std::string line = change_of_written_config(run_dir); !line.empty()) lines.push_back(std::move(line));
  TRY_ASSIGN(Config own, config_of_trained(run_dir, checkpoint, {}));
  if (!is_named(checkpoint + "/" + adapter_config_file)) own.model_directory.clear();
  std::vector<std::string> changed = changes_since_kept(own);
  lines.insert(lines.end(), changed.begin(), changed.end());
  return lines;
}

Result<void> make_forward_only(Config& config, std::span<const std::string> overrides,
                               const std::function<void(const std::string&)>& note) {
  TRY_ASSIGN(const std::string executor, resolve_executor(config));
  if (!executor.empty()) note(executor);
  if (std::ranges::any_of(overrides, names_executor)) TRY(check_gpus(config));
  config.memory.sweeps = 0;
  config.memory.home = HomePolicy::automatic;
  config.memory.chunk_size = Bytes{0};
  config.machine.file.clear();
  config.machine.executor = one_device(config, note);
  return {};
}

Result<ForwardPlan> plan_forward(const Config& config, TargetOutput output) {
  TRY(check_executor(config));
  TRY_ASSIGN(Job job, make_forward_job(config, output));
  PlanOptions options = job.options;
  TRY_ASSIGN(options.budgets.disk, disk_budget(config));
  Result<Plan> plan = make_plan(job.graph, options);
  if (!plan) return explain_disk(job, options, plan.error());
  return ForwardPlan{std::move(job), *std::move(plan)};
}

Result<std::unique_ptr<Session>> open_forward(ForwardPlan forward, StepSource& source,
                                              const std::string& weights,
                                              const std::function<void(const std::string&)>& note) {
  TRY_ASSIGN(std::unique_ptr<Session> session,
             Session::create(forward.job, std::move(forward.plan), source,
                             {.own_swap_dir = true, .loads_weights = true}));
  TRY_ASSIGN(const std::vector<std::string> unused, load(forward.job, weights, session->state()));
  const ModelGraph& graph = session->graph();
  if (const std::string angles = angles_by_length(graph.config, graph.batch.tokens); !angles.empty())
    note(angles);
  for (const std::string& line : describe_rounded(weights)) note(line);
  for (const std::string& line : describe_unused(weights, unused, graph.config, WeightsUse::reading))
    note(line);
  return session;
}

}  // namespace tidepool
