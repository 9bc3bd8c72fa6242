#include "inference/evaluation_place.h"

#include <fmt/format.h>

#include <filesystem>

#include "checkpoint/checkpoint.h"
#include "config_files/load_config.h"
#include "data/files/find_files.h"
#include "inference/committed_checkpoint.h"
#include "inference/forward_only.h"
#include "inference/generate_place.h"
#include "inference/model_directory.h"
#include "run/weights/first_weights.h"

namespace tidepool {
namespace {

namespace fs = std::filesystem;

Error usage(std::string text) { return {ErrorKind::usage, std::move(text)}; }

// Writes names as one value of an override; quotes them, because they may hold any character.
std::string list_text(const std::vector<std::string>& entries) {
  std::string out = "[";
  for (const std::string& entry : entries) {
    out += out.size() > 1 ? ", '" : "'";
    for (const char c : entry) out += c == '\'' ? "''" : std::string(1, c);
    out += "'";
  }
  return out + "]";
}

std::vector<std::string> overrides_of(const EvaluateRequest& request) {
  std::vector<std::string> out = {"train.eval_batches=0"};
  if (!request.data.empty()) out.push_back("data.validation=" + list_text(request.data));
  out.insert(out.end(), request.overrides.begin(), request.overrides.end());
  return out;
}

Result<EvaluationPlace> of_run(const std::string& path, const EvaluateRequest& request,
                               std::string& reading) {
  TRY_ASSIGN(GeneratePlace found, find_generate_place(path));
  if (found.newest) reading = found.checkpoint;
  for (const std::string& note : found.notes) request.note(note);
  EvaluationPlace out{.config = {},
                      .weights = std::move(found.checkpoint),
                      .swap_dir = found.run_dir + "/eval-swap",
                      .of_run = true};
  TRY_ASSIGN(out.config, config_of_trained(found.run_dir, out.weights, overrides_of(request)));
  TRY_ASSIGN(const std::vector<std::string> changed, changes_since_run(found.run_dir, out.weights));
  for (const std::string& line : changed) request.note(line);
  return out;
}

// RETURNS: the value that overrides set for a key of section data, given with or without the section's name;
// empty: none.
std::string data_override(const std::vector<std::string>& overrides, std::string_view key) {
  const std::string alone = fmt::format("{}=", key), whole = "data." + alone;
  std::string out;
  for (const std::string& text : overrides)
    for (const std::string& start : {alone, whole})
      if (text.starts_with(start)) out = text.substr(start.size());
  return out;
}

// A model directory gives the weights only: the overrides must give everything else.
Result<EvaluationPlace> of_model_directory(const EvaluateRequest& request) {
  const std::string held_out =
      request.data.empty() ? data_override(request.overrides, "validation") : list_text(request.data);
  if (held_out.empty() && data_override(request.overrides, "train").empty())
    return usage(
        fmt::format("{} is a model directory, which holds no data: name files to evaluate on with data=FILE",
                    request.source));
  std::vector<std::string> overrides = overrides_of(request);
  // A config must name data.train, which is not read where files to evaluate on are named.
  if (!held_out.empty()) overrides.insert(overrides.begin(), "data.train=" + held_out);
  EvaluationPlace out{.config = {}, .weights = request.source, .swap_dir = {}};
  TRY_ASSIGN(out.config,
             config_of_model_directory(request.source, "evaluating " + request.source, std::move(overrides)));
  out.swap_dir = swap_directory(out.config);
  return out;
}

Result<EvaluationPlace> of_config(const EvaluateRequest& request, std::string& reading) {
  EvaluationPlace out;
  TRY_ASSIGN(out.config, load_config(request.source, overrides_of(request), KeptModel::read));
  const std::string& dir = out.config.output.dir;
  TRY_ASSIGN(const std::vector<std::string> committed, save_committed_state(dir));
  for (const std::string& line : committed) request.note(line);
  TRY_ASSIGN(const std::vector<u64> steps, checkpoint_steps(dir));
  if (!steps.empty()) return of_run(dir, request, reading);
  if (out.config.model_directory.empty())
    return usage(fmt::format(
        "{}: {} holds no checkpoint, and the config names no model directory: train first, or name "
        "a checkpoint or a model directory",
        request.source, dir));
  request.note(fmt::format("{} holds no checkpoint yet: evaluating {}", dir, out.config.model_directory));
  out.config.lora = {};  // no adapters are trained yet
  TRY(check_weights_are_there(out.config));
  out.weights = out.config.model_directory;
  out.swap_dir = swap_directory(out.config);
  return out;
}

}  // namespace

Result<EvaluationPlace> find_evaluation_place(const EvaluateRequest& request, std::string& reading) {
  std::error_code unused;
  if (!fs::exists(request.source, unused))
    return usage(
        fmt::format("{} does not exist: name a run directory, a checkpoint, a model directory or a config",
                    request.source));
  // Checked here, where errors can name the argument data=; later errors would name data.validation.
  for (const std::string& entry : request.data) TRY(find_files({entry}, "data=" + entry));
  if (!fs::is_directory(request.source, unused)) return of_config(request, reading);
  return is_model_directory(request.source) ? of_model_directory(request)
                                            : of_run(request.source, request, reading);
}

}  // namespace tidepool
