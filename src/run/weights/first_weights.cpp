#include "run/weights/first_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/steady_seconds.h"
#include "base/text/path_text.h"
#include "base/text/units.h"
#include "checkpoint/checkpoint.h"
#include "fit/memory_need.h"
#include "huggingface/directory/hf_config.h"
#include "huggingface/weights/load_weights.h"
#include "huggingface/weights/other_weights.h"
#include "huggingface/weights/shards.h"
#include "huggingface/weights/unused_tensors.h"
#include "run/weights/first_adapter.h"
#include "run/weights/init_weights.h"

namespace tidepool {
namespace {

constexpr u64 parameters_worth_progress = 200'000'000;

// RETURNS: the names of tensors that the model does not use.
Result<std::vector<std::string>> load(const Job& job, StateWriter& state, RunOutputs& outputs,
                                      WeightsOf which = WeightsOf::model, std::string* xxh3 = nullptr) {
  const auto& [config, graph, options] = job;
  const std::string& directory = config.model_directory;
  outputs.say("loading weights from " + directory);
  const double began = steady_seconds();
  TRY(verify_model_if_hashed(directory, checkpoint_buffer));
  TRY_ASSIGN(std::vector<std::string> unused, load_weights(directory, graph, state, which, xxh3));
  for (const std::string& line : describe_rounded(directory)) outputs.say(line);
  for (const std::string& line : describe_unused(directory, unused, graph.config, WeightsUse::training))
    outputs.say(line);
  outputs.say("loaded weights in " + seconds_text(steady_seconds() - began));
  return unused;
}

// RETURNS: true if a classifier is to be made of the directory's model, whose head predicts tokens.
Result<bool> lacks_score(const Job& job, RunOutputs& outputs) {
  const auto& [config, graph, options] = job;
  const std::string& directory = config.model_directory;
  if (!graph.config.score.on() || directory.empty()) return false;
  TRY_ASSIGN(const bool has_score, has_score_head(directory, graph.config));
  if (!has_score && config.lora.adapter.empty())
    outputs.say(fmt::format("{} has no score head: one with {} labels is drawn at random", directory,
                            graph.config.score.labels));
  if (has_score && graph.lora.on())
    return Error{
        ErrorKind::usage,
        fmt::format("{}: has a score head already, beside which no adapters are trained; name the model that "
                    "it was made from, or set lora.r=0",
                    directory)};
  return !has_score;
}

}  // namespace

Result<void> check_weights_are_there(const Config& config) {
  const std::string& directory = config.model_directory;
  if (has_weights(directory)) return {};
  if (std::string other = other_weights(directory); !other.empty())
    return Error{ErrorKind::bad_input, std::move(other)};
  if (is_named(directory + "/" + adapter_config_file)) return adapters_are_no_model(directory);
  if (config.lora.on())
    return Error{ErrorKind::usage,
                 fmt::format("{} holds no {}: the base model of the adapters has moved; name its directory "
                             "with model=DIR, or as `model` in the run's config.yaml",
                             absolute_path(directory), weights_file)};
  return Error{ErrorKind::bad_input,
               fmt::format("{} holds neither {} nor {}", directory, weights_file, weights_index_file)};
}

Result<std::string> load_frozen_model(Session& session, RunOutputs& outputs) {
  TRY(check_weights_are_there(session.job().config));
  WriteMore adapters_follow(session.state());
  std::string xxh3;
  TRY(load(session.job(), adapters_follow, outputs, WeightsOf::model, &xxh3));
  return xxh3;
}

Result<void> make_first_weights(Session& session, RunOutputs& outputs, TrainerState& state) {
  const Job& job = session.job();
  const auto& [config, graph, options] = job;
  TRY_ASSIGN(const bool draws_score, lacks_score(job, outputs));
  const bool score_alone = draws_score && !graph.lora.on();
  if (graph.lora.on()) {
    TRY_ASSIGN(state.base_xxh3, load_frozen_model(session, outputs));
  } else if (score_alone) {
    WriteMore score_follows(session.state());
    TRY(load(job, score_follows, outputs, WeightsOf::without_score));
  } else if (!config.model_directory.empty()) {
    TRY_ASSIGN(const std::vector<std::string> unused, load(job, session.state(), outputs));
    // A classifier is another model than the directory's.
    if (graph.config.score.on()) return {};
    TRY_ASSIGN(state.origin, origin_of(config.model_directory, unused));
    return {};
  }
  if (!config.lora.adapter.empty()) return load_first_adapter(job, session.state(), outputs);
  std::vector<std::byte> buffer(init_buffer(session.pool()).value);
  return init_weights(graph, config.train.seed, score_alone, session.state(), buffer, session.pool(),
                      [&, last = -1](double share) mutable {
                        const int tenth = static_cast<int>(share * 10);
                        if (graph.parameters > parameters_worth_progress && tenth > last)
                          outputs.say(fmt::format("initialising weights: {} %", tenth * 10));
                        last = std::max(last, tenth);
                      });
}

}  // namespace tidepool
