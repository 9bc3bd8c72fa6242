// Names are parsed into layer, expert and matrix; the form of the adapter decides which of its tensors apply.
#include "huggingface/adapters/expert_merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text/cut_text.h"

namespace tidepool {
namespace {

constexpr std::string_view adapter_prefix = "base_model.model.", dot_weight = ".weight";

}  // namespace

ExpertMerge::ExpertMerge(const ModelConfig& config, const AdapterConfig& adapter)
    : config_(config),
      adapter_(adapter),
      layers_(layer_adapters(config, lora_of_adapter(adapter, {}))),
      names_(traits(config.family).experts->tensors) {
  for (const LayerAdapters& layer : layers_) joined_ |= layer.experts.form == AdapterForm::joined;
}

// Takes the path of layers from a name in files or in transformers.
bool ExpertMerge::take_layers(std::string_view& path) const {
  const LayerStyle& s = style(config_.family);
  return (take_prefix(path, s.layers_path) || take_prefix(path, s.tensors_path)) && take_prefix(path, ".");
}

std::optional<ExpertMerge::Place> ExpertMerge::place_of(std::string_view path) const {
  if (!take_layers(path)) return std::nullopt;
  const std::optional<u32> layer = take_number(path);
  if (!layer || *layer >= config_.layers || !config_.has_experts(*layer)) return std::nullopt;
  return Place{*layer, path};
}

bool ExpertMerge::is_extra_layer(std::string_view tensor) const {
  if (!take_layers(tensor)) return false;
  const std::optional<u32> layer = take_number(tensor);
  return layer && *layer >= config_.layers;
}

std::string ExpertMerge::stem(u32 layer, std::string_view rest) const {
  return fmt::format("{}{}.{}.{}", adapter_prefix, style(config_.family).layers_path, layer, rest);
}

const ExpertAdapter* ExpertMerge::joined_adapter(u32 layer, bool down) const {
  const ExpertAdapters& adapters = layers_[layer].experts;
  if (adapters.form != AdapterForm::joined) return nullptr;
  for (const ExpertAdapter& adapter : adapters)
    if (adapter.down == down) return &adapter;
  return nullptr;
}

MergeBlock ExpertMerge::joined_block(const ExpertAdapter& adapter, u32 layer, u32 expert) const {
  return {.rows = names_.joined_in_out ? adapter.in : adapter.out,
          .stem = stem(layer, adapter.in_file),
          .experts = config_.experts.count,
          .expert = expert,
          .r = adapter.r,
          .scale = adapter.scale,
          .in_out = names_.joined_in_out};
}

MergeBlock ExpertMerge::single_block(u32 layer, u32 expert, std::string_view matrix) const {
  MergeBlock out = {.rows = matrix == names_.down ? config_.width : config_.expert_inner()};
  if (joined_) return out;
  out.stem = stem(layer, fmt::format("{}.{}.{}", names_.single, expert, matrix));
  const std::string_view module = std::string_view(out.stem).substr(adapter_prefix.size());
  out.r = adapter_.rank_of(module), out.scale = adapter_.scale_of(module);
  return out;
}

// `matrix`: "gate_up_proj" or "down_proj", or the family's name of one matrix.
std::vector<MergeBlock> ExpertMerge::expert_blocks(u32 layer, u32 expert, std::string_view matrix) const {
  const bool joined = names_.has_gate() && matrix == "gate_up_proj",
             down = matrix == "down_proj" || matrix == names_.down;
  if (const ExpertAdapter* adapter = joined_adapter(layer, down)) {
    MergeBlock block = joined_block(*adapter, layer, expert);
    if (joined || down) return {block};
    block.rows = config_.expert_inner();
    if (matrix == names_.up && names_.has_gate()) block.b_row = block.rows;
    return {block};
  }
  if (names_.single.empty()) return {{.rows = joined ? config_.width : config_.expert_inner()}};
  if (joined) return {single_block(layer, expert, names_.gate), single_block(layer, expert, names_.up)};
  return {single_block(layer, expert, down ? names_.down : matrix)};
}

// RETURNS: the parameter of all experts that a tensor of a file is, by its name after the layer's; or "".
std::string_view ExpertMerge::joined_parameter(std::string_view rest) const {
  if (!names_.joined_gate_up.empty())
    return rest == names_.joined_gate_up ? "gate_up_proj" : rest == names_.joined_down ? "down_proj" : "";
  if (!take_prefix(rest, names_.joined) || !take_prefix(rest, ".")) return "";
  return rest == names_.first_parameter() || rest == "down_proj" ? rest : std::string_view();
}

std::optional<std::vector<MergeBlock>> ExpertMerge::blocks_of(std::string_view tensor) const {
  const std::optional<Place> place = place_of(tensor);
  if (!place) return std::nullopt;
  std::string_view rest = place->rest;
  if (rest == names_.router || rest == names_.joined_router) {
    std::string_view path = layers_[place->layer].router;
    if (path.empty() && names_.has_single_files())
      path = without_end(names_.router, dot_weight);  // named by a pattern
    MergeBlock block = {.rows = config_.experts.count};
    if (!path.empty()) block.stem = stem(place->layer, path);
    if (!path.empty()) {
      const std::string_view module = std::string_view(block.stem).substr(adapter_prefix.size());
      block.r = adapter_.rank_of(module), block.scale = adapter_.scale_of(module);
    }
    return std::vector{block};
  }
  std::vector<MergeBlock> out;
  if (const std::string_view joined = joined_parameter(rest); !joined.empty()) {
    for (u32 expert = 0; expert < config_.experts.count; ++expert)
      for (MergeBlock& block : expert_blocks(place->layer, expert, joined)) out.push_back(std::move(block));
  } else {
    rest = place->rest;
    if (!names_.has_single_files() || !take_prefix(rest, names_.single) || !take_prefix(rest, "."))
      return std::nullopt;
    const std::optional<u32> expert = take_number(rest);
    rest = without_end(rest, dot_weight);
    if (!expert || *expert >= config_.experts.count ||
        (rest != names_.gate && rest != names_.up && rest != names_.down))
      return std::nullopt;
    out = expert_blocks(place->layer, *expert, rest);
  }
  u64 row = 0;
  for (MergeBlock& block : out) block.row = std::exchange(row, row + block.rows);
  return out;
}

// `path`: of the stem, without PEFT's prefix.
std::optional<ExpertStem> ExpertMerge::find_router(const Place& place, std::string_view path) const {
  const RouterNames router = router_names(config_, place.layer);
  if (path != without_end(router.parameter, dot_weight) && path != router.module) return std::nullopt;
  const bool by_parameter =
      router.module.empty() || names_path(adapter_.targets.parameters, router.parameter);
  return ExpertStem{.r = adapter_.rank_of(path),
                    .in = config_.width,
                    .out = config_.experts.count,
                    .parameter = by_parameter ? router.parameter : std::string()};
}

std::optional<ExpertStem> ExpertMerge::find_joined(const Place& place) const {
  std::string_view rest = place.rest;
  if (!take_prefix(rest, names_.joined) || (!rest.empty() && rest != ".base_layer")) return std::nullopt;
  const std::string experts =
      fmt::format("{}.{}.{}", style(config_.family).layers_path, place.layer, names_.joined);
  for (const ExpertAdapter& adapter : layers_[place.layer].experts)
    if (adapter.in_file == place.rest)
      return ExpertStem{.r = adapter.r * config_.experts.count,
                        .in = adapter.in,
                        .out = adapter.out,
                        .parameter = fmt::format("{}.{}", experts, adapter.name)};
  const std::string_view parameter = rest.empty() ? "down_proj" : names_.first_parameter();
  return ExpertStem{.parameter = fmt::format("{}.{}", experts, parameter)};
}

std::optional<ExpertStem> ExpertMerge::find_single(const Place& place) const {
  std::string_view rest = place.rest;
  if (!names_.has_single_files() || !take_prefix(rest, names_.single) || !take_prefix(rest, "."))
    return std::nullopt;
  const std::optional<u32> expert = take_number(rest);
  if (!expert) return std::nullopt;
  const u32 experts = config_.experts.count, inner = config_.expert_inner();
  const bool down = rest == names_.down;
  const std::string path =
      fmt::format("{}.{}.{}", style(config_.family).layers_path, place.layer, place.rest);
  ExpertStem out = {
      .r = adapter_.rank_of(path), .in = down ? inner : config_.width, .out = down ? config_.width : inner};
  if (*expert >= experts)
    out.fault = fmt::format(
        "is of expert {}, but the model has {} experts, from 0 to {}: this may be another "
        "model's adapter",
        *expert, experts, experts - 1);
  else if (!down && rest != names_.gate && rest != names_.up)
    out.fault = fmt::format("is of no matrix of an expert, which has {}, {} and {}", names_.gate, names_.up,
                            names_.down);
  else if (joined_)
    out.fault =
        "is of one expert, but target_parameters names the parameters of all: PEFT would ignore the tensor";
  return out;
}

std::optional<ExpertStem> ExpertMerge::find(std::string_view path) const {
  if (!take_prefix(path, adapter_prefix)) return std::nullopt;
  const std::optional<Place> place = place_of(path);
  if (!place) return std::nullopt;
  if (auto router = find_router(*place, path)) return router;
  if (auto joined = find_joined(*place)) return joined;
  return find_single(*place);
}

Result<bool> ExpertMerge::is_wanted(const MergeBlock& block) const {
  if (block.stem.empty()) return false;
  const std::optional<ExpertStem> known = find(block.stem);
  if (known && !known->parameter.empty()) return names_path(adapter_.targets.parameters, known->parameter);
  if (adapter_.targets.all_linear()) return false;  // experts are no linear layers in transformers 5
  return adapter_.targets.hold(std::string_view(block.stem).substr(adapter_prefix.size()));
}

}  // namespace tidepool
