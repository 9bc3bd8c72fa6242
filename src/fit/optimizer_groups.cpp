#include "fit/optimizer_groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/algorithm/string/classification.hpp>
#include <boost/algorithm/string/split.hpp>
#include <boost/algorithm/string/trim.hpp>
#include <charconv>
#include <optional>
#include <set>

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
  std::optional<Optim> optim;  // none: the run's
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
  if (!number)
    return wrong(entry, fmt::format("sets {} to '{}', which is no number from 0 to a million", key, value));
  if (key == "weight_decay") {
    group.like.weight_decay = *number;
    return {};
  }
  if (train.learning_rate == 0)
    return Error{ErrorKind::usage,
                 fmt::format("train.optim_groups: \"{}\" has a learning rate, which follows the schedule of "
                             "train.learning_rate, and that is 0: set it above 0",
                             entry)};
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
  Group group;
  std::set<std::string> keys;
  const u64 colon = entry.find(':');
  if (colon == std::string::npos) return wrong(entry, "has no ':' between tensors and settings");
  for (const std::string& name : parts_of(entry.substr(0, colon)))
    if (!name.empty()) select(group.like.tensors, name);
  if (group.like.tensors == TensorSelection{}) return wrong(entry, "names no tensors");
  for (const std::string& setting : parts_of(entry.substr(colon + 1))) {
    const u64 equals = setting.find('=');
    if (equals == std::string::npos)
      return wrong(entry, fmt::format("has '{}', which is no setting", setting));
    const std::string key = boost::algorithm::trim_copy(setting.substr(0, equals));
    if (!keys.insert(key).second) return wrong(entry, fmt::format("sets {} twice", key));
    TRY(set(group, train, entry, key, boost::algorithm::trim_copy(setting.substr(equals + 1))));
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
    TRY_ASSIGN(Group group, parse(train, entry));
    group.like.group = static_cast<u32>(&entry - train.optim_groups.data()) + 1;
    for (UpdateRule& rule : update_rules(group.optim.value_or(train.optim), with_muon(train, group.like)))
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
        fmt::format("train.optim_groups: {} rules with {} kinds of state are more than a run can have, "
                    "{} with {}: have fewer groups, or fewer different optimizers",
                    rules.size(), slots, update_rules_max, state_slots_max)};
  return rules;
}

namespace {

// Calls fn(tensor) for all trained tensors.
template <class Fn>
void each_trained(const ModelGraph& graph, Fn&& fn) {
  for (const Window& window : graph.windows)
    for (const Tensor& tensor : window.tensors)
      if (window.trainable) fn(tensor);
}

// RETURNS: what is wrong with the names of a group, or "".
std::string wrong_names(const Group& group, const ModelGraph& graph) {
  for (const std::string& name : group.like.tensors.names) {
    bool found = false;
    each_trained(graph, [&](const Tensor& t) { found |= TensorSelection{.names = {name}}.has(t); });
    if (!found)
      return fmt::format(
          "names '{}', which is no tensor that trains; kinds are {}, and other words are names as in "
          "model.safetensors, in which * stands for any text",
          name, fmt::join(tensor_kind_names, ", "));
  }
  return "";
}

// RETURNS: what is wrong with the tensors that a group has got, or "". `number`: of the group, from 1.
std::string wrong_tensors(const Group& group, u32 number, const ModelGraph& graph) {
  u64 named = 0, taken = 0, by_its_optimizer = 0;
  std::string other;  // a tensor that neither an earlier group took nor this
  each_trained(graph, [&](const Tensor& t) {
    const UpdateRule& rule = graph.rules[t.rule];
    if (!group.like.tensors.has(t)) return;
    ++named, taken += rule.group == number;
    by_its_optimizer += rule.group == number && group.optim == rule.optim;
    if (rule.group != number && (rule.group == 0 || rule.group > number)) other = t.name;
  });
  if (!other.empty())
    return fmt::format(
        "names {}, but one product reads it together with others (q, k and v; gate and up), which "
        "are updated alike: name all of them",
        other);
  if (named == 0) return "is for no tensor that trains";
  if (taken == 0) return "gets no tensor, because groups before it name them all";
  if (group.optim && by_its_optimizer == 0)
    return fmt::format("has no tensor that {} is for", name(*group.optim));
  return "";
}

}  // namespace

Result<void> check_groups(const TrainConfig& train, const ModelGraph& graph) {
  for (u32 i = 0; i < train.optim_groups.size(); ++i) {
    const std::string& entry = train.optim_groups[i];
    TRY_ASSIGN(const Group group, parse(train, entry));
    if (const std::string why = wrong_names(group, graph); !why.empty()) return wrong(entry, why);
    if (const std::string why = wrong_tensors(group, i + 1, graph); !why.empty()) return wrong(entry, why);
  }
  bool taken = false;
  each_trained(graph, [&](const Tensor& t) { taken |= graph.rules[t.rule].optim == train.optim; });
  if (taken || optimizer(train.optim).place != UpdatePlace::streamed || graph.lora.on()) return {};
  return Error{
      ErrorKind::usage,
      fmt::format("train.optim: {} is for matrices of layers, and train.optim_groups leaves it none: set "
                  "train.optim to the optimizer of the rest, or name fewer tensors",
                  name(train.optim))};
}

}  // namespace tidepool
