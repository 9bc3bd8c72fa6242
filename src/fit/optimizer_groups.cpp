#include "fit/optimizer_groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/algorithm/string/classification.hpp>
#include <boost/algorithm/string/split.hpp>
#include <boost/algorithm/string/trim.hpp>
#include <charconv>

#include "optimizers/optimizer.h"

namespace tidepool {
namespace {

constexpr std::string_view example = "embedding, head: learning_rate=3e-4, optim=adamw_8bit";

Error wrong(const std::string& entry, const std::string& why) {
  return {ErrorKind::usage,
          fmt::format("train.optim_groups: \"{}\" {}; write for example \"{}\"", entry, why, example)};
}

struct Group {
  UpdateRule like;
  Optim optim{};
};

// RETURNS: the parts between commas, without spaces around them.
std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  boost::algorithm::split(parts, text, boost::algorithm::is_any_of(","));
  for (std::string& part : parts) boost::algorithm::trim(part);
  return parts;
}

std::optional<double> number_of(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && number >= 0 && number < 1e6 ? std::optional(number) : std::nullopt;
}

std::optional<Optim> optim_of(std::string_view text) {
  for (const auto& [alias, meant] : optim_aliases)
    if (alias == text) text = meant;
  const auto at = std::ranges::find(optim_names, text);
  if (at == optim_names.end()) return std::nullopt;
  return static_cast<Optim>(at - optim_names.begin());
}

Result<void> set(Group& group, const TrainConfig& train, const std::string& entry, std::string_view key,
                 std::string_view value) {
  if (key == "optim") {
    const std::optional<Optim> optim = optim_of(value);
    if (!optim) return wrong(entry, fmt::format("has no optimizer of the name '{}'", value));
    group.optim = *optim;
    return {};
  }
  const std::optional<double> number = number_of(value);
  if (key != "learning_rate" && key != "weight_decay")
    return wrong(entry, fmt::format("sets '{}', and a group has learning_rate, weight_decay and optim", key));
  if (!number) return wrong(entry, fmt::format("sets {} to '{}'", key, value));
  if (key == "weight_decay") {
    group.like.weight_decay = *number;
    return {};
  }
  if (train.learning_rate == 0)
    return wrong(entry, "has a learning rate, which follows train.learning_rate, and that is 0");
  group.like.rate = *number / train.learning_rate;
  return {};
}

void select(TensorSelection& tensors, std::string_view name) {
  const auto kind = std::ranges::find(tensor_kind_names, name);
  if (kind == tensor_kind_names.end())
    tensors.names.emplace_back(name);
  else
    tensors.kinds |= 1u << (kind - tensor_kind_names.begin());
}

Result<Group> parse(const TrainConfig& train, const std::string& entry) {
  Group group{.like = {}, .optim = train.optim};
  const u64 colon = entry.find(':');
  if (colon == std::string::npos) return wrong(entry, "has no ':' between tensors and settings");
  for (const std::string& name : parts_of(entry.substr(0, colon)))
    if (!name.empty()) select(group.like.tensors, name);
  if (group.like.tensors == TensorSelection{}) return wrong(entry, "names no tensors");
  for (const std::string& setting : parts_of(entry.substr(colon + 1))) {
    const u64 equals = setting.find('=');
    if (equals == std::string::npos)
      return wrong(entry, fmt::format("has '{}', which is no setting", setting));
    TRY(set(group, train, entry, boost::algorithm::trim_copy(setting.substr(0, equals)),
            boost::algorithm::trim_copy(setting.substr(equals + 1))));
  }
  return group;
}

UpdateRule with_muon(const TrainConfig& train, UpdateRule rule) {
  rule.orthogonalization = {.steps = train.muon_ns_steps, .adjust = train.muon_adjust_lr_fn};
  return rule;
}

}  // namespace

Result<std::vector<UpdateRule>> rules_of(const TrainConfig& train) {
  std::vector<UpdateRule> rules;
  for (const std::string& entry : train.optim_groups) {
    TRY_ASSIGN(const Group group, parse(train, entry));
    for (UpdateRule& rule : update_rules(group.optim, with_muon(train, group.like)))
      rules.push_back(std::move(rule));
  }
  for (UpdateRule& rule : update_rules(train.optim, with_muon(train, {}))) rules.push_back(std::move(rule));
  u64 slots = train.precision == Precision::fp32 ? 0 : 1;
  std::vector<std::span<const StateSlot>> seen;
  for (const UpdateRule& rule : rules) {
    const std::span<const StateSlot> of_rule = optimizer(rule.optim).slots;
    const auto same = [&](std::span<const StateSlot> s) { return std::ranges::equal(s, of_rule); };
    if (std::ranges::none_of(seen, same)) seen.push_back(of_rule), slots += of_rule.size();
  }
  if (rules.size() > update_rules_max || slots > state_slots_max)
    return Error{
        ErrorKind::usage,
        fmt::format("train.optim_groups: {} groups with {} kinds of state are more than a run can have; "
                    "name fewer optimizers",
                    train.optim_groups.size(), slots)};
  return rules;
}

Result<void> check_groups(const TrainConfig& train, const ModelGraph& graph) {
  const auto any = [&](auto&& of_tensor) {
    return std::ranges::any_of(graph.windows, [&](const Window& window) {
      return window.trainable && std::ranges::any_of(window.tensors, of_tensor);
    });
  };
  for (const std::string& entry : train.optim_groups) {
    TRY_ASSIGN(const Group group, parse(train, entry));
    if (!any([&](const Tensor& t) { return group.like.tensors.has(t); }))
      return wrong(entry,
                   fmt::format("is for no tensor that trains; kinds are {}, and other words are names, "
                               "in which * stands for any text",
                               fmt::join(tensor_kind_names, ", ")));
  }
  if (optimizer(train.optim).place != UpdatePlace::streamed || graph.lora.on()) return {};
  if (!any([&](const Tensor& t) { return graph.rules[t.rule].place == UpdatePlace::streamed; }))
    return Error{
        ErrorKind::usage,
        fmt::format("train.optim: {} is for matrices of layers, and train.optim_groups leaves it none",
                    name(train.optim))};
  return {};
}

}  // namespace tidepool
