#include "run/resume_notes.h"

#include <fmt/format.h>

#include "config/schema.h"
#include "run/assembly/assemble_report.h"
#include "run/learning_rate.h"
#include "session/session.h"

namespace tidepool {
namespace {

// RETURNS: `config` with the train settings of the checkpoint. Keys that the checkpoint does not have stay
// unchanged.
Config with_settings_of(const TrainerState& then, Config config) {
  for (const auto& [name, value] : then.settings) {
    if (!name.starts_with("train.")) continue;
    for (const Field* field : find_fields("train", name.substr(6))) {
      const Result<void> set = set_value(*field, config, value);
      static_cast<void>(set);  // a value that is no longer valid is skipped
    }
  }
  return config;
}

// RETURNS: a note on the changed learning rate; empty: the rate of the next step is unchanged.
std::string rate_note(const TrainerState& then, const Config& now) {
  const Result<LearningRate> before = make_learning_rate(with_settings_of(then, now).train);
  const Result<LearningRate> after = make_learning_rate(now.train);
  if (!before || !after) return "";
  const u64 next = then.step + 1;
  const double was = (*before)(next), is = (*after)(next);
  if (was == is) return "";
  return fmt::format("learning rate of step {}: {:.3g}; with the checkpoint's settings {:.3g}", next, is,
                     was);
}

// RETURNS: advice on how to get the checkpoint's algorithms back, if `line` says that the algorithms differ;
// else empty.
std::string algorithms_advice(const TrainerState& then, const Config& now, const std::string& line) {
  if (!line.starts_with(fmt::format("{}:", algorithms_setting))) return "";
  if (!now.machine.tune_products) return "; for the same bits set machine.tune_products=true";
  if (then.settings.at(algorithms_setting) == first_advice)
    return "; for the same bits set machine.tune_products=false";
  return fmt::format("; for the same bits restore that run's tuned-products.txt as {}", product_file(now));
}

}  // namespace

Result<void> check_labels_are_the_same(const TrainerState& then,
                                       const std::map<std::string, std::string>& settings) {
  constexpr const char* key = "objective.labels";
  const auto before = then.settings.find(key), now = settings.find(key);
  if (before == then.settings.end() || now == settings.end() || before->second == now->second) return {};
  return Error{ErrorKind::usage,
               fmt::format("{} is {}, and was {} when the run began: its head has learned those numbers; "
                           "resume with the same labels",
                           key, now->second, before->second)};
}

std::vector<std::string> resume_notes(const TrainerState& then, const Config& now,
                                      const std::map<std::string, std::string>& settings) {
  std::vector<std::string> out;
  const auto optim = then.settings.find("train.optim");
  const std::string_view optim_now = name(now.train.optim),
                         optim_then = optim == then.settings.end() ? name(Optim::adamw_torch) : optim->second;
  if (optim_then != optim_now)
    out.push_back(
        fmt::format("changed since the checkpoint: train.optim: {} then, {} now; state in another format "
                    "was converted",
                    optim_then, optim_now));
  for (const std::string& line : changed_settings(then, settings))
    if (!line.starts_with("train.optim:"))
      out.push_back("changed since the checkpoint: " + line + algorithms_advice(then, now, line));
  if (std::string rate = rate_note(then, now); !out.empty() && !rate.empty()) out.push_back(std::move(rate));
  return out;
}

}  // namespace tidepool
