#include "huggingface/directory/hf_mixers.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "base/json/text.h"
#include "huggingface/directory/hf_layer_kinds.h"

namespace tidepool {
namespace json = boost::json;
namespace {

constexpr std::string_view list_key = "layer_types", with_attention = "full_attention",
                           with_delta_rule = "linear_attention";

std::string_view kind_name(const ModelConfig& c, u32 layer) {
  return c.mixer_kind(layer) == MixerKind::gated_delta ? with_delta_rule : with_attention;
}

std::string_view type_of(const json::value& value) {
  return value.is_string() ? std::string_view(value.get_string()) : "";
}

}  // namespace

bool is_mixer_key(Family family, std::string_view key) {
  return (traits(family).delta_layers && key == list_key) || is_layer_kind_key(family, key);
}

std::optional<ModelFault> read_mixers(const json::object& file, ModelConfig& config) {
  if (!traits(config.family).layer_kinds.empty()) return read_layer_kinds(file, config);
  const json::value* types = file.if_contains(list_key);
  if (!traits(config.family).delta_layers || types == nullptr || types->is_null()) return std::nullopt;
  if (!types->is_array())
    return ModelFault{list_key, fmt::format("{} must be a list, with one item a layer",
                                            json_text(*types, JsonStyle::line))};
  const json::array& list = types->get_array();
  for (const json::value& type : list)
    if (type_of(type) != with_attention && type_of(type) != with_delta_rule)
      return ModelFault{list_key,
                        fmt::format("{} is not supported; layers may be {} or {}",
                                    json_text(type, JsonStyle::line), with_attention, with_delta_rule)};
  if (list.size() != config.layers)
    return ModelFault{list_key, fmt::format("has {} items for {} layers; it must have one item a layer",
                                            list.size(), config.layers)};
  u32 interval = 1;
  while (interval <= list.size() && type_of(list[interval - 1]) != with_attention) ++interval;
  config.delta.attention_interval = interval;
  for (u32 layer = 0; layer < config.layers; ++layer)
    if (type_of(list[layer]) != kind_name(config, layer))
      return ModelFault{
          list_key, fmt::format("names {} for layer {} (the first is 0), against the pattern of the layers "
                                "before; Tidepool trains models with {} at a fixed interval",
                                type_of(list[layer]), layer, with_attention)};
  return std::nullopt;
}

void write_mixers(const ModelConfig& config, json::object& out) {
  if (!traits(config.family).layer_kinds.empty()) return write_layer_kinds(config, out);
  if (!traits(config.family).delta_layers) return;
  json::array types;
  for (u32 layer = 0; layer < config.layers; ++layer)
    types.push_back(json::string_view(kind_name(config, layer)));
  out[list_key] = std::move(types);
}

}  // namespace tidepool
