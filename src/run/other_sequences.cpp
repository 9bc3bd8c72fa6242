#include "run/other_sequences.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <initializer_list>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/text/path_text.h"
#include "config/schema.h"
#include "config_files/load_config.h"
#include "data/batches/batch_source.h"
#include "run/assembly/assemble_report.h"
#include "run/directory/run_directory.h"

namespace tidepool {
namespace {

constexpr const char* batch_key = "train.per_device_train_batch_size";
constexpr const char* accumulation_key = "train.gradient_accumulation_steps";

using Changes = std::vector<std::string>;

u64 number(const std::string& text) {
  u64 value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  return read.ec == std::errc() && read.ptr == text.data() + text.size() ? value : 0;
}

Changes changed_keys(const TrainerState& then, const Config& now,
                     std::initializer_list<std::string_view> keys) {
  std::map<std::string, std::string> settings = numeric_settings(now);
  std::erase_if(settings,
                [&](const auto& setting) { return std::ranges::find(keys, setting.first) == keys.end(); });
  return changed_settings(then, settings);
}

// RETURNS: config.yaml of the run that wrote the checkpoint; nullopt: there is no readable config.yaml.
std::optional<Config> config_then(const EarlierPart& found) {
  const std::string& run = found.run;
  if (run.empty()) return std::nullopt;
  Result<Config> then = load_config(run + "/config.yaml", {"output.dir=" + run}, KeptModel::read);
  if (!then) return std::nullopt;
  return *std::move(then);
}

// RETURNS: true if the key can change which sequences a step takes. Excludes data.train and data.cache: files
// may have moved, and the fingerprint compares their content.
bool counts(const Field& field, const Config& then, const Config& now) {
  if (field.section != "data" || field.key == "train" || field.key == "cache") return false;
  if (field.key == "weights") return then.data.train.size() == now.data.train.size();
  return field.key != "packing" || can_pack(now.model.family);
}

// Shortens paths to file names: the same file may be given by another path, such as relative to another
// directory.
Config with_names_of_files(Config config) {
  const auto shorten = [](std::string& path) {
    path = std::filesystem::path(without_slashes(path)).filename();
  };
  std::ranges::for_each(config.data.validation, shorten);
  shorten(config.data.tokenizer);
  shorten(config.data.chat_template);
  return config;
}

Changes changed_data_keys(const Config& then, const Config& now) {
  const Config named_then = with_names_of_files(then), named_now = with_names_of_files(now);
  Changes out;
  if (then.data.train.size() != now.data.train.size())
    out.push_back(
        fmt::format("data.train: {} entries then, {} now", then.data.train.size(), now.data.train.size()));
  for (const Field& field : schema()) {
    if (!counts(field, then, now)) continue;
    if (value_yaml(field, named_then) == value_yaml(field, named_now)) continue;
    out.push_back(
        fmt::format("data.{}: {} then, {} now", field.key, value_yaml(field, then), value_yaml(field, now)));
  }
  return out;
}

Changes changes_of_data(const EarlierPart& found, const Config& now) {
  const std::optional<Config> then = config_then(found);
  const bool shuffled = now.data.shuffle || !then || then->data.shuffle;
  Changes out = shuffled ? changed_keys(found.state, now, {"train.seed", "train.sequence_length"})
                         : changed_keys(found.state, now, {"train.sequence_length"});
  if (then) std::ranges::move(changed_data_keys(*then, now), std::back_inserter(out));
  return out;
}

// RETURNS: the number of devices that the checkpoint was trained on; 0: unknown.
u64 devices_then(const TrainerState& state, u64 step_sequences) {
  const auto setting = [&](const char* key) {
    const auto at = state.settings.find(key);
    return at == state.settings.end() ? 0 : number(at->second);
  };
  const u64 of_one = setting(batch_key) * setting(accumulation_key);
  return of_one == 0 ? 0 : step_sequences / of_one;
}

Changes changes_of_step(const TrainerState& state, u64 step_sequences, const Config& now) {
  Changes out = changed_keys(state, now, {batch_key, accumulation_key});
  const u64 then = devices_then(state, step_sequences), here = now.machine.devices();
  if (then != 0 && then != here)
    out.push_back(fmt::format("devices (machine.executor): {} then, {} now", then, here));
  return out;
}

// RETURNS: advice for people on how to get steps of `sequences` sequences again.
std::string way_to_keep_step(u64 sequences, const Config& now) {
  const u64 devices = now.machine.devices();
  const u64 of_batches = devices * now.train.per_device_train_batch_size,
            of_accumulation = devices * now.train.gradient_accumulation_steps;
  if (sequences % of_batches == 0)
    return fmt::format("Set {}={}, which keeps the size of the step", accumulation_key,
                       sequences / of_batches);
  if (sequences % of_accumulation == 0)
    return fmt::format("Set {}={}, which keeps the size of the step", batch_key, sequences / of_accumulation);
  return fmt::format("Choose {}, {} and devices whose product is {}", batch_key, accumulation_key, sequences);
}

Error other_steps(const EarlierPart& found, u64 then, u64 here, const Config& now) {
  const Changes changes = changes_of_step(found.state, then, now);
  return {ErrorKind::usage,
          fmt::format("{} was trained in steps of {} sequences, but this config has steps of {}{}{}. {}, or "
                      "start again in another output.dir",
                      found.name, then, here, changes.empty() ? "" : ": ", fmt::join(changes, "; "),
                      way_to_keep_step(then, now))};
}

Error other_files(const EarlierPart& found, const Config& now) {
  return {ErrorKind::usage,
          fmt::format("{} was trained on other data or another split: resume with the same files, tokenizer, "
                      "data.shuffle{} and held-out data, or start again in another output.dir",
                      found.name, now.data.units.on() ? ", objective.share_prompts" : "")};
}

}  // namespace

Error other_sequences(const EarlierPart& found, const std::string& fingerprint, const Config& now) {
  const StepFingerprint then = step_fingerprint(found.state.data_fingerprint),
                        here = step_fingerprint(fingerprint);
  const bool taught = !now.objective.teacher.empty();
  const bool same_step = then.sequences_per_step == here.sequences_per_step;
  if (then.data == here.data && then.reference != here.reference)
    return {ErrorKind::usage,
            fmt::format(
                "{} was trained beside another {}: {} now; restore it, or start again in another output.dir",
                found.name,
                taught ? "teacher, or with other weights, top_k or temperature"
                       : "reference model, or with other weights of it",
                taught ? fmt::format("objective.teacher is {}, top_k {} and temperature {:g}",
                                     now.objective.teacher, now.objective.top_k, now.objective.temperature)
                       : fmt::format("objective.reference is {}", now.objective.reference))};
  if (then.data == here.data && then.sequences_per_step != 0)
    return other_steps(found, then.sequences_per_step, here.sequences_per_step, now);
  Changes changes = changes_of_data(found, now);
  if (changes.empty()) return other_files(found, now);
  if (!same_step)
    std::ranges::move(changes_of_step(found.state, then.sequences_per_step, now),
                      std::back_inserter(changes));
  return {ErrorKind::usage,
          fmt::format("{} was trained on other data or in another order: {}. Restore these settings, "
                      "with the same files, or start again in another output.dir",
                      found.name, fmt::join(changes, "; "))};
}

}  // namespace tidepool
