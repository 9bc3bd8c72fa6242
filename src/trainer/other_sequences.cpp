#include "trainer/other_sequences.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <initializer_list>
#include <iterator>
#include <map>
#include <string_view>
#include <system_error>
#include <vector>

#include "config/schema.h"
#include "text/path_text.h"
#include "trainer/assemble_report.h"

namespace tidepool {
namespace {

constexpr const char* batch_key = "train.per_device_train_batch_size";
constexpr const char* accumulation_key = "train.gradient_accumulation_steps";

using Changes = std::vector<std::string>;

u64 number(std::string_view text) {
  u64 value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  return read.ec == std::errc() && read.ptr == text.data() + text.size() ? value : 0;
}

// BatchSource::fingerprint(), taken apart.
struct Fingerprint {
  std::string data;
  u64 step_sequences = 0;
};

Fingerprint parts_of(const std::string& text) {
  const std::size_t dash = text.rfind('-');
  if (dash == std::string::npos) return {.data = text};
  return {.data = text.substr(0, dash), .step_sequences = number(std::string_view(text).substr(dash + 1))};
}

Changes changed_keys(const TrainerState& then, const Config& now,
                     std::initializer_list<std::string_view> keys) {
  std::map<std::string, std::string> settings = numeric_settings(now);
  std::erase_if(settings,
                [&](const auto& setting) { return std::ranges::find(keys, setting.first) == keys.end(); });
  return changed_settings(then, settings);
}

// Files may have moved, and are compared by what is in them.
Changes changed_data_keys(const FoundCheckpoint& found, const Config& now) {
  namespace fs = std::filesystem;
  const fs::path run = fs::path(absolute_path(without_slashes(found.path))).parent_path();
  const Result<Config> then =
      load_config(run / "config.yaml", {"output.dir=" + run.string()}, KeptModel::read);
  Changes out;
  if (!then) return out;
  for (const Field& field : schema()) {
    if (field.section != "data" || field.key == "train" || field.key == "cache") continue;
    const std::string was = value_yaml(field, *then), is = value_yaml(field, now);
    if (was != is) out.push_back(fmt::format("data.{}: {} then, {} now", field.key, was, is));
  }
  return out;
}

// 0: not known.
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

// What makes a step of so many sequences again.
std::string way_to_keep_step(u64 sequences, const Config& now) {
  const u64 devices = now.machine.devices();
  const u64 of_batches = devices * now.train.per_device_train_batch_size,
            of_accumulation = devices * now.train.gradient_accumulation_steps;
  if (sequences % of_batches == 0)
    return fmt::format("Set {}={}, which keeps the step", accumulation_key, sequences / of_batches);
  if (sequences % of_accumulation == 0)
    return fmt::format("Set {}={}, which keeps the step", batch_key, sequences / of_accumulation);
  return "Set that as it was then";
}

Error other_steps(const FoundCheckpoint& found, u64 then, u64 here, const Config& now) {
  const Changes changes = changes_of_step(found.state, then, now);
  return {ErrorKind::usage,
          fmt::format("{} was trained in steps of {} sequences, now they would be of {}{}{}. {}, or start "
                      "anew in another output.dir",
                      found.path, then, here, changes.empty() ? "" : ": ", fmt::join(changes, "; "),
                      way_to_keep_step(then, now))};
}

Error other_files(const FoundCheckpoint& found) {
  return {ErrorKind::usage,
          fmt::format("{} was trained on other data or another split: resume with the files, data.shuffle "
                      "and what is held out as they were, or start anew in another output.dir",
                      found.path)};
}

}  // namespace

Error other_sequences(const FoundCheckpoint& found, const std::string& fingerprint, const Config& now) {
  const Fingerprint then = parts_of(found.state.data_fingerprint), here = parts_of(fingerprint);
  const bool same_step = then.step_sequences == here.step_sequences;
  if (then.data == here.data && then.step_sequences != 0)
    return other_steps(found, then.step_sequences, here.step_sequences, now);
  Changes changes = changed_keys(found.state, now, {"train.seed", "train.sequence_length"});
  std::ranges::move(changed_data_keys(found, now), std::back_inserter(changes));
  if (changes.empty()) return other_files(found);
  if (!same_step)
    std::ranges::move(changes_of_step(found.state, then.step_sequences, now), std::back_inserter(changes));
  return {ErrorKind::usage,
          fmt::format("{} was trained on other data or in another order: {}. Set that as it was then, or "
                      "start anew in another output.dir",
                      found.path, fmt::join(changes, "; "))};
}

}  // namespace tidepool
