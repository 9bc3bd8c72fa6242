#include "checkpoint/trained_by.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "optimizers/optimizer.h"

namespace tidepool {
namespace {

struct TrainedTensor {
  std::string_view name;
  Optim optim;  // in fp32
};

// Trained tensors by window and number, an order that no rule changes.
std::vector<TrainedTensor> trained_tensors(const ModelGraph& graph) {
  std::vector<TrainedTensor> out;
  for (const Window& window : graph.windows) {
    std::vector<const Tensor*> tensors;
    for (const Tensor& tensor : window.tensors)
      if (window.trainable) tensors.push_back(&tensor);
    std::ranges::stable_sort(tensors, {}, &Tensor::number);
    for (const Tensor* tensor : tensors)
      out.push_back({tensor->name, optimizer(graph.rules[tensor->rule].optim).base});
  }
  return out;
}

std::optional<Optim> base_of(std::string_view optim) {
  const auto at = std::ranges::find(optim_names, optim);
  if (at == optim_names.end()) return std::nullopt;
  return optimizer(static_cast<Optim>(at - optim_names.begin())).base;
}

// RETURNS: the optimizers of `count` tensors; empty: the text has others, or other counts.
std::vector<Optim> parse(std::string_view text, u64 count) {
  std::vector<Optim> out;
  while (!text.empty()) {
    u64 run = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), run);
    text.remove_prefix(static_cast<u64>(end - text.data()));
    const u64 comma = std::min(text.find(','), text.size());
    const std::optional<Optim> base =
        text.starts_with(' ') ? base_of(text.substr(1, comma - 1)) : std::nullopt;
    if (error != std::errc() || !base || run > count - out.size()) return {};
    out.insert(out.end(), run, *base);
    text.remove_prefix(std::min(comma + 2, text.size()));
  }
  return out.size() == count ? out : std::vector<Optim>();
}

}  // namespace

std::string optimizers_text(const ModelGraph& graph) {
  std::string text;
  const std::vector<TrainedTensor> tensors = trained_tensors(graph);
  if (std::ranges::all_of(tensors, [](const auto& t) { return t.optim == Optim::adamw_torch; })) return text;
  for (auto begin = tensors.begin(); begin != tensors.end();) {
    const auto end =
        std::find_if(begin, tensors.end(), [&](const TrainedTensor& t) { return t.optim != begin->optim; });
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", end - begin, name(begin->optim));
    begin = end;
  }
  return text;
}

std::string difference_of_optimizers(const TrainerState& then, const ModelGraph& graph) {
  const std::vector<TrainedTensor> now = trained_tensors(graph);
  const auto setting = then.settings.find("train.optim");
  const std::string_view of_run = setting == then.settings.end() ? name(Optim::adamw_torch) : setting->second;
  std::vector<Optim> before = parse(then.optimizers, now.size());
  if (then.optimizers.empty()) before.assign(now.size(), base_of(of_run).value_or(Optim::adamw_torch));
  if (before.size() != now.size()) return "";
  for (u64 i = 0; i < now.size(); ++i) {
    if (before[i] == now[i].optim) continue;
    const auto is_of_group = [](const UpdateRule& rule) { return rule.tensors != TensorSelection{}; };
    if (of_run != name(graph.optim()) && std::ranges::none_of(graph.rules, is_of_group))
      return fmt::format("train.optim is {} there and {} here", of_run, name(graph.optim()));
    return fmt::format("{} is trained by {} there and by {} here (train.optim, train.optim_groups)",
                       now[i].name, name(before[i]), name(now[i].optim));
  }
  return "";
}

}  // namespace tidepool
