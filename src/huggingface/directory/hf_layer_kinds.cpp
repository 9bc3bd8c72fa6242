#include "huggingface/directory/hf_layer_kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <limits>
#include <utility>

#include "base/json/text.h"

namespace tidepool {
namespace json = boost::json;
namespace {

constexpr std::string_view pattern_key = "hybrid_override_pattern", limits_key = "time_step_limit",
                           head_key = "mamba_d_head", expand_key = "mamba_expand",
                           count_key = "num_hidden_layers";

// The list has one of two names: Nemotron-H's files the first, Granite 4's the second. transformers reads
// both.
constexpr std::array<std::string_view, 2> list_keys = {"layers_block_type", "layer_types"};

struct KindName {
  std::string_view name;
  LayerKind kind;
};
// The first of a kind is written; the others are of files of earlier versions.
constexpr std::array<KindName, 7> kind_names = {{{"linear_attention", LayerKind::mamba},
                                                 {"full_attention", LayerKind::attention},
                                                 {"mlp", LayerKind::mlp},
                                                 {"moe", LayerKind::experts},
                                                 {"mamba", LayerKind::mamba},
                                                 {"mamba2", LayerKind::mamba},
                                                 {"attention", LayerKind::attention}}};

std::string text(const json::value& value) { return json_text(value, JsonStyle::line); }

std::string_view name_of(LayerKind kind) {
  for (const KindName& known : kind_names)
    if (known.kind == kind) return known.name;
  return "";
}

std::optional<ModelFault> read_list(std::string_view key, const json::value& value, std::string& kinds) {
  if (!value.is_array())
    return ModelFault{key, fmt::format("{} must be a list, with one item a layer", text(value))};
  kinds.clear();
  for (const json::value& item : value.get_array()) {
    const std::string_view given = item.is_string() ? std::string_view(item.get_string()) : "";
    const auto* found = std::ranges::find(kind_names, given, &KindName::name);
    if (found == kind_names.end())
      return ModelFault{key, fmt::format("{} is not supported; layers may be linear_attention, "
                                         "full_attention, and in nemotron_h models mlp and moe",
                                         text(item))};
    kinds += static_cast<char>(found->kind);
  }
  return std::nullopt;
}

// The list counts before the pattern.
std::optional<ModelFault> read_kinds(const json::object& file, ModelConfig& c) {
  for (const std::string_view key : list_keys)
    if (const json::value* list = file.if_contains(key); list != nullptr && !list->is_null()) {
      if (auto fault = read_list(key, *list, c.layer_kinds)) return fault;
      if (file.contains(count_key) && c.layer_kinds.size() != c.layers)
        return ModelFault{key, fmt::format("has {} items, and {} is {}; make them agree",
                                           c.layer_kinds.size(), count_key, c.layers)};
      return std::nullopt;
    }
  const json::value* pattern = file.if_contains(pattern_key);
  if (pattern == nullptr || pattern->is_null()) return std::nullopt;
  if (!pattern->is_string()) return ModelFault{pattern_key, fmt::format("{} must be a text", text(*pattern))};
  c.layer_kinds = std::string_view(pattern->get_string());
  return std::nullopt;
}

// transformers counts the list's items, and num_hidden_layers may be absent.
std::optional<ModelFault> count_layers(const json::object& file, ModelConfig& c) {
  if (style(c.family).one_part && !file.contains(count_key)) {
    const std::string_view rule = traits(c.family).layer_kinds;
    c.layers = static_cast<u32>(c.layer_kinds.empty() ? rule.size() : c.layer_kinds.size());
  }
  // A dense model's files may have a number of experts that no layer has.
  bool experts = !style(c.family).one_part;
  for (u32 layer = 0; layer < c.layers && !experts; ++layer)
    experts = c.layer_kind(layer) == LayerKind::experts;
  if (!experts) c.experts.count = 0;
  return std::nullopt;
}

// Sizes that a file with such layers must name: transformers has defaults for them, but nobody wants those.
std::optional<ModelFault> check_sizes(const json::object& file, ModelConfig& c) {
  constexpr std::array<const char*, 4> of_experts = {"n_routed_experts", "num_experts_per_tok",
                                                     "moe_intermediate_size",
                                                     "moe_shared_expert_intermediate_size"};
  if (!style(c.family).one_part) return std::nullopt;
  for (u32 layer = 0; layer < c.layers; ++layer) {
    if (c.layer_kind(layer) == LayerKind::mlp && !file.contains("intermediate_size"))
      return ModelFault{"intermediate_size",
                        fmt::format("is missing, which the MLP of layer {} needs", layer)};
    for (const char* key : of_experts)
      if (c.layer_kind(layer) == LayerKind::experts && !file.contains(key))
        return ModelFault{key, fmt::format("is missing, which the experts of layer {} need", layer)};
  }
  return std::nullopt;
}

// A bound, which JSON writes as a number, and transformers 5 as an object if it is infinite.
std::optional<double> bound_of(const json::value& value) {
  if (value.is_number()) return value.to_number<double>();
  const json::value* inner = value.is_object() ? value.get_object().if_contains("__float__") : nullptr;
  if (inner != nullptr && *inner == json::value("Infinity")) return std::numeric_limits<double>::infinity();
  return std::nullopt;
}

std::optional<ModelFault> read_limits(const json::object& file, ModelConfig& c) {
  const json::value* value = file.if_contains(limits_key);
  if (!traits(c.family).step_limits_key || value == nullptr || value->is_null()) return std::nullopt;
  const ModelFault wrong = {limits_key,
                            fmt::format("{} must be the least and the most of a step", text(*value))};
  if (!value->is_array() || value->get_array().size() != 2) return wrong;
  const auto least = bound_of(value->get_array()[0]), most = bound_of(value->get_array()[1]);
  if (!least || !most) return wrong;
  c.mamba.step_limits.clear();
  if (*least != 0 || *most != std::numeric_limits<double>::infinity()) c.mamba.step_limits = {*least, *most};
  return std::nullopt;
}

// Granite 4: heads are mamba_expand times as wide as the residual stream together.
std::optional<ModelFault> read_head_size(const json::object& file, ModelConfig& c) {
  if (!traits(c.family).step_limits_key) return std::nullopt;
  const json::value *expand = file.if_contains(expand_key), *head = file.if_contains(head_key);
  if (expand != nullptr && !expand->is_null() && !expand->is_int64())
    return ModelFault{expand_key, fmt::format("{} must be an integer", text(*expand))};
  const u64 times = expand != nullptr && expand->is_int64() ? static_cast<u64>(expand->get_int64()) : 2;
  const u64 inner = times * c.width;
  const bool by_rule = head == nullptr || head->is_null() || *head == json::value("auto");
  if (!by_rule && (!head->is_int64() || head->get_int64() < 1 || head->get_int64() > 65536))
    return ModelFault{head_key, fmt::format("{} must be a number of columns, or auto", text(*head))};
  if (c.mamba.heads == 0) return std::nullopt;  // check_model() says so
  c.mamba.head_dim = static_cast<u32>(by_rule ? inner / c.mamba.heads : head->to_number<u64>());
  if (u64{c.mamba.heads} * c.mamba.head_dim != inner)
    return ModelFault{expand_key, fmt::format("{} of hidden_size {} is not mamba_n_heads {} of {} columns",
                                              times, c.width, c.mamba.heads, c.mamba.head_dim)};
  return std::nullopt;
}

}  // namespace

std::optional<ModelFault> rename_mamba_keys(Family family, json::object& file) {
  constexpr std::array<std::pair<const char*, const char*>, 9> renamed = {
      {{"mamba_n_groups", "n_groups"},
       {"mamba_d_conv", "conv_kernel"},
       {"mamba_expand", "expand"},
       {"mamba_dt_min", "time_step_min"},
       {"mamba_dt_max", "time_step_max"},
       {"mamba_dt_limit", limits_key.data()},
       {"mamba_dt_init_floor", "time_step_floor"},
       {"mamba_conv_bias", "use_conv_bias"},
       {"mamba_chunk_size", "chunk_size"}}};
  if (!style(family).one_part) return std::nullopt;
  for (const auto& [before, now] : renamed) {
    const json::value* old = file.if_contains(before);
    if (old == nullptr) continue;
    if (const json::value* own = file.if_contains(now); own != nullptr && *own != *old)
      return ModelFault{before, fmt::format("is {}, but {} beside it is {}; keep the one that was trained",
                                            text(*old), now, text(*own))};
    const json::value value = *old;
    file[now] = value;
    file.erase(before);
  }
  return std::nullopt;
}

bool is_layer_kind_key(Family family, std::string_view key) {
  if (traits(family).layer_kinds.empty()) return false;
  const bool of_limits =
      traits(family).step_limits_key && (key == limits_key || key == head_key || key == expand_key);
  return of_limits || key == pattern_key || std::ranges::find(list_keys, key) != list_keys.end();
}

std::optional<ModelFault> read_layer_kinds(const json::object& file, ModelConfig& c) {
  for (const auto read : {read_kinds, count_layers, check_sizes, read_limits, read_head_size})
    if (auto fault = read(file, c)) return fault;
  return std::nullopt;
}

void write_layer_kinds(const ModelConfig& c, json::object& o) {
  json::array kinds;
  for (u32 layer = 0; layer < c.layers; ++layer)
    kinds.push_back(json::string_view(name_of(c.layer_kind(layer))));
  o[list_keys[style(c.family).one_part ? 0 : 1]] = std::move(kinds);
  if (style(c.family).one_part) {
    std::string pattern;
    for (u32 layer = 0; layer < c.layers; ++layer) pattern += static_cast<char>(c.layer_kind(layer));
    o[pattern_key] = pattern;
  }
  if (!traits(c.family).step_limits_key) return;
  o[expand_key] = c.mamba.inner() / c.width;
  if (!c.mamba.step_limits.empty()) o[limits_key] = {c.mamba.step_limits[0], c.mamba.step_limits[1]};
}

}  // namespace tidepool
