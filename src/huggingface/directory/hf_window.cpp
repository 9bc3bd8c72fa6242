#include "huggingface/directory/hf_window.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <limits>

#include "base/json/text.h"

namespace tidepool {
namespace json = boost::json;
namespace {

constexpr std::array<std::string_view, 5> window_keys = {
    "sliding_window", "use_sliding_window", "max_window_layers", "layer_types", "sliding_window_pattern"};
constexpr u32 full_layers_left_out = 28;  // transformers' default of max_window_layers
constexpr std::string_view sliding = "sliding_attention", full = "full_attention";

ModelFault wrong(std::string_view key, const json::value& value, std::string_view wanted) {
  return {key, fmt::format("{} must be {}", json_text(value, JsonStyle::line), wanted)};
}

// Reads an integer. `number` keeps its value if the key is missing or null.
std::optional<ModelFault> read_number(const json::object& file, std::string_view key, u32 least,
                                      u32& number) {
  const json::value* value = file.if_contains(key);
  if (value == nullptr || value->is_null()) return std::nullopt;
  if (!value->is_int64() || value->get_int64() < least ||
      value->get_int64() > std::numeric_limits<i32>::max())
    return wrong(key, *value, fmt::format("an integer from {} on, or null", least));
  number = static_cast<u32>(value->get_int64());
  return std::nullopt;
}

using LayerTypes = std::vector<bool>;  // of each layer: true if it has the window

// Reads layer_types; none if the file has no such list.
std::optional<ModelFault> read_layer_types(const json::object& file, std::optional<LayerTypes>& slide) {
  const json::value* types = file.if_contains("layer_types");
  if (types == nullptr || types->is_null()) return std::nullopt;
  if (!types->is_array()) return wrong("layer_types", *types, "a list, with one item a layer");
  slide.emplace();
  for (const json::value& type : types->get_array()) {
    const std::string_view name = type.is_string() ? std::string_view(type.get_string()) : "";
    if (name != sliding && name != full)
      return ModelFault{"layer_types", fmt::format("{} is not supported; layers may be {} or {}",
                                                   json_text(type, JsonStyle::line), full, sliding)};
    slide->push_back(name == sliding);
  }
  return std::nullopt;
}

// RETURNS: the first layer whose type is not the pattern's; layers if there is none.
u32 first_off_pattern(const LayerTypes& slide, const ModelConfig& config) {
  u32 layer = 0;
  while (layer < config.layers && slide[layer] == config.slides(layer)) ++layer;
  return layer;
}

// Sets sliding_window_pattern of a family whose layers differ.
std::optional<ModelFault> read_pattern(const json::object& file, const std::optional<LayerTypes>& slide,
                                       ModelConfig& config) {
  // EXAONE's pattern may be 0 or a text, beside the list.
  const bool listed = slide && traits(config.family).windows_rotate;
  if (traits(config.family).window_pattern_key && !listed)
    if (auto fault = read_number(file, "sliding_window_pattern", 1, config.softmax.sliding_window_pattern))
      return fault;
  if (!slide) return std::nullopt;
  if (slide->size() != config.layers)
    return ModelFault{"layer_types", fmt::format("has {} items for {} layers; it must have one item a layer",
                                                 slide->size(), config.layers)};
  if (first_off_pattern(*slide, config) == config.layers) return std::nullopt;
  config.softmax.sliding_window_pattern =
      static_cast<u32>(std::ranges::find(*slide, false) - slide->begin()) + 1;
  const u32 layer = first_off_pattern(*slide, config);
  if (layer == config.layers) return std::nullopt;
  return ModelFault{"layer_types",
                    fmt::format("names {} for layer {} (the first is 0), against the pattern of the layers "
                                "before; Tidepool trains models with {} at a fixed interval",
                                (*slide)[layer] ? sliding : full, layer, full)};
}

// RETURNS: true if the family's layers differ and transformers demands a window, even if no layer has one.
bool needs_window(Family family) {
  return traits(family).window == WindowKind::by_layer && !traits(family).windows_rotate;
}

// Sets use_sliding_window. It is false without a window.
std::optional<ModelFault> read_use(const json::object& file, ModelConfig& config) {
  const json::value* use = file.if_contains("use_sliding_window");
  if (use != nullptr && !use->is_null() && !use->is_bool())
    return wrong("use_sliding_window", *use, "true or false");
  config.softmax.use_sliding_window =
      use != nullptr && use->is_bool() && use->get_bool() && config.softmax.sliding_window != 0;
  return std::nullopt;
}

// Sets the window of a family that may have it from some layer on.
std::optional<ModelFault> read_switch(const json::object& file, const std::optional<LayerTypes>& slide,
                                      ModelConfig& config) {
  if (auto fault = read_use(file, config)) return fault;
  bool used = config.softmax.use_sliding_window;
  u32 full_layers = full_layers_left_out;
  if (auto fault = read_number(file, "max_window_layers", 0, full_layers)) return fault;
  if (slide) {
    const auto first = std::ranges::find(*slide, true);
    if (first != slide->end() && !used)
      return ModelFault{
          "layer_types",
          fmt::format("names {}, but use_sliding_window and sliding_window give no window: only the "
                      "model's author knows which of them the model was trained with",
                      sliding)};
    if (std::find(first, slide->end(), false) != slide->end())
      return ModelFault{
          "layer_types",
          fmt::format("names {} after {}; only the last layers may have the window", full, sliding)};
    full_layers = static_cast<u32>(first - slide->begin());
    used = used && first != slide->end();
  }
  config.softmax.use_sliding_window = used && full_layers < config.layers;
  if (config.softmax.use_sliding_window) config.softmax.max_window_layers = full_layers;
  return std::nullopt;
}

}  // namespace

bool is_window_key(Family family, std::string_view key) {
  return traits(family).window != WindowKind::none &&
         std::ranges::find(window_keys, key) != window_keys.end();
}

std::optional<ModelFault> read_window(const json::object& file, ModelConfig& config) {
  if (!is_window_key(config.family, "sliding_window")) return std::nullopt;
  config.softmax.sliding_window =
      file.contains("sliding_window") ? 0 : traits(config.family).left_out.sliding_window;
  if (auto fault = read_number(file, "sliding_window", 1, config.softmax.sliding_window)) return fault;
  // Reading null as "no window" would train layers that transformers refuses to compute.
  if (needs_window(config.family) && config.softmax.sliding_window == 0)
    return ModelFault{"sliding_window",
                      fmt::format("null is refused by transformers for {} models: give the window that the "
                                  "model was trained with; max_position_embeddings stands for none",
                                  name(config.family))};
  std::optional<LayerTypes> slide;
  if (auto fault = read_layer_types(file, slide)) return fault;
  switch (traits(config.family).window) {
    case WindowKind::none:
    case WindowKind::every_layer:
      return std::nullopt;
    case WindowKind::by_switch:
      return read_switch(file, slide, config);
    case WindowKind::by_layer:
      return read_pattern(file, slide, config);
    case WindowKind::every_layer_by_switch:
      return read_use(file, config);  // transformers ignores layer_types and max_window_layers
  }
  return std::nullopt;
}

void write_window(const ModelConfig& config, json::object& out) {
  if (!is_window_key(config.family, "sliding_window")) return;
  const u32 window = config.window_of_any_layer();
  out["sliding_window"] = window == 0 ? json::value(nullptr) : json::value(window);
  out.erase("layer_types");
  if (traits(config.family).window == WindowKind::by_layer) {
    const bool none = traits(config.family).windows_rotate && config.softmax.sliding_window == 0;
    if (!none)
      out["sliding_window"] =
          config.softmax.sliding_window != 0 ? config.softmax.sliding_window : config.positions;
    json::array types;
    for (u32 layer = 0; layer < config.layers; ++layer)
      types.push_back(json::string_view(config.slides(layer) && !none ? sliding : full));
    out["layer_types"] = std::move(types);
    if (traits(config.family).window_pattern_key)
      out["sliding_window_pattern"] = config.softmax.sliding_window_pattern;
  }
  const bool from_a_layer = traits(config.family).window == WindowKind::by_switch;
  if (!from_a_layer && traits(config.family).window != WindowKind::every_layer_by_switch) return;
  out["use_sliding_window"] = window != 0;
  out.erase("max_window_layers");
  if (from_a_layer && window != 0) out["max_window_layers"] = config.softmax.max_window_layers;
}

}  // namespace tidepool
