#include "huggingface/directory/hf_rope.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <boost/json/value_from.hpp>
#include <string>
#include <vector>

#include "base/json/text.h"

namespace tidepool {
namespace json = boost::json;
namespace {

constexpr const char* wanted_map = "must be an object with the keys of the angles, such as rope_type";
// Keys of the two maps: angles of layers that see all tokens, and of layers with a window.
constexpr const char *global_rope = "full_attention", *local_rope = "sliding_attention";

// Reads the map of layers with a window, whose angles are not scaled.
// RETURNS: a fault of the map, or none.
std::optional<ModelFault> read_local_rope(const json::value& local, json::object& file) {
  static constexpr std::string_view key = "rope_parameters.sliding_attention";
  if (!local.is_object()) return ModelFault{key, wanted_map};
  for (const auto& [inner, value] : local.get_object()) {
    const bool is_type = inner == "rope_type" || inner == "type";
    if (value.is_null()) continue;
    if (inner == "rope_theta")
      file["rope_local_base_freq"] = value;
    else if (!(is_type && value == json::string_view(rope_type_names[0])))
      return ModelFault{
          key, fmt::format("has {} {}; layers with a window have angles of type {} only",
                           std::string_view(inner), json_text(value, JsonStyle::line), rope_type_names[0])};
  }
  return std::nullopt;
}

const json::object* map_in(const json::object& file, const char* key) {
  const json::value* value = file.if_contains(key);
  return value != nullptr && value->is_object() ? &value->get_object() : nullptr;
}

// Refuses spellings of rope_scaling that transformers reads in another way for families whose layers differ.
std::optional<ModelFault> check_one_scaling(Family family, const json::object& file) {
  const json::object* scaling = map_in(file, "rope_scaling");
  if (scaling == nullptr) return std::nullopt;
  if (scaling->contains(global_rope) || scaling->contains(local_rope))
    return ModelFault{"rope_scaling",
                      "has a map for each kind of layer, which transformers reads from rope_parameters"};
  if (scaling->contains("type") && !scaling->contains("rope_type"))
    return ModelFault{"rope_scaling.type",
                      fmt::format("is ignored by transformers for {} models, which reads rope_type: only the "
                                  "model's author knows with which angles it was trained",
                                  name(family))};
  return std::nullopt;
}

bool has_original_length(RopeType type) {
  return type == RopeType::llama3 || type == RopeType::yarn || type == RopeType::longrope;
}

json::object rope_object(const ModelConfig& c) {
  json::object o;
  o["rope_type"] = json::string_view(rope_type_names[static_cast<u32>(c.attention.rope.type)]);
  if (c.attention.rope.type != RopeType::plain) o["factor"] = c.attention.rope.factor;
  if (c.attention.rope.type == RopeType::llama3) {
    o["low_freq_factor"] = c.attention.rope.low_freq_factor;
    o["high_freq_factor"] = c.attention.rope.high_freq_factor;
  }
  if (has_original_length(c.attention.rope.type) || traits(c.family).query_growth_key)
    o["original_max_position_embeddings"] =
        c.attention.rope.original_positions != 0 ? c.attention.rope.original_positions : c.positions;
  if (c.attention.rope.type == RopeType::yarn) {
    o["beta_fast"] = c.attention.rope.beta_fast;
    o["beta_slow"] = c.attention.rope.beta_slow;
    o["truncate"] = c.attention.rope.truncate;
    for (const auto& [key, value] : {std::pair{"attention_factor", c.attention.rope.attention_factor},
                                     std::pair{"mscale", c.attention.rope.mscale},
                                     std::pair{"mscale_all_dim", c.attention.rope.mscale_all_dim}})
      if (value != 0) o[key] = value;
  }
  if (c.attention.rope.alpha != 0) o["alpha"] = c.attention.rope.alpha;
  if (traits(c.family).query_growth_key) o["llama_4_scaling_beta"] = c.attention.rope.query_growth;
  if (c.attention.rope.type == RopeType::longrope) {
    o["short_factor"] = json::value_from(c.attention.rope.short_factor);
    o["long_factor"] = json::value_from(c.attention.rope.long_factor);
    if (c.attention.rope.attention_factor != 0) o["attention_factor"] = c.attention.rope.attention_factor;
  }
  return o;
}

// The maps of the two kinds of layers.
json::object both_maps(const ModelConfig& c, json::object global) {
  const json::object local{{"rope_type", json::string_view(rope_type_names[0])},
                           {"rope_theta", c.softmax.local_rope_theta}};
  return {{global_rope, std::move(global)}, {local_rope, local}};
}

// Families here are those that transformers 4 does not know.
void write_rope_maps(const ModelConfig& c, json::object& o) {
  json::object rope = rope_object(c);
  rope["rope_theta"] = c.attention.rope.theta;
  if (c.attention.rope.type == RopeType::proportional)
    rope["partial_rotary_factor"] = c.attention.rope.partial_factor;
  if (c.attention.rope.factor == 1) rope.erase("factor");
  for (const char* key : {"partial_rotary_factor", "rope_local_base_freq"}) o.erase(key);
  o["rope_parameters"] = both_maps(c, std::move(rope));
}

}  // namespace

std::optional<ModelFault> merge_rope_maps(Family family, json::object& file) {
  if (!traits(family).local_rope) return std::nullopt;
  if (auto fault = check_one_scaling(family, file)) return fault;
  const json::object* maps = map_in(file, "rope_parameters");
  if (maps == nullptr || maps->empty()) return std::nullopt;
  const json::object rope = *maps;
  if (!rope.contains(global_rope) && !rope.contains(local_rope))
    return ModelFault{
        "rope_parameters",
        fmt::format("must hold the maps {} and {}: transformers ignores a single map for {} models",
                    global_rope, local_rope, name(family))};
  if (const json::value* local = rope.if_contains(local_rope); local != nullptr && !local->is_null())
    if (auto fault = read_local_rope(*local, file)) return fault;
  const json::value* global = rope.if_contains(global_rope);
  file["rope_parameters"] = global != nullptr ? *global : json::value(nullptr);
  if (global == nullptr || global->is_null()) return std::nullopt;
  if (!global->is_object()) return ModelFault{"rope_parameters.full_attention", wanted_map};
  // transformers knows no angles of Gemma 4 beside the maps; plain ones turn whole heads.
  if (traits(family).global_sizes_key) {
    json::object map = global->get_object();
    const json::value* type = map.if_contains("rope_type");
    const bool plain = type != nullptr && *type == json::value(json::string_view(rope_type_names[0]));
    if (plain || !map.contains("partial_rotary_factor")) map["partial_rotary_factor"] = 1.0;
    file["rope_parameters"] = std::move(map);
    return std::nullopt;
  }
  // transformers adds rope_scaling to this map, and keeps this map's base.
  if (const json::value* theta = global->get_object().if_contains("rope_theta")) file["rope_theta"] = *theta;
  return std::nullopt;
}

std::optional<ModelFault> rename_rotary_width(Family family, json::object& file) {
  constexpr const char *width_key = "rotary_dim", *share_key = "partial_rotary_factor";
  const json::value* width = file.if_contains(width_key);
  if (!traits(family).rotary_width_key || width == nullptr || width->is_null()) return std::nullopt;
  const json::value* given = file.if_contains("head_dim");
  const double head =
      given != nullptr && given->is_number() ? given->to_number<double>() : traits(family).left_out.head_size;
  if (!width->is_int64() || width->get_int64() < 1 || !(head > 0))
    return ModelFault{width_key, "must be a number of columns of a head, of which head_dim is the width"};
  const bool fits = width->get_int64() % 2 == 0 && static_cast<double>(width->get_int64()) <= head;
  if (!file.contains(share_key) && !fits)
    return ModelFault{width_key,
                      fmt::format("{} must be an even number of columns, at most the {} of head_dim; it is "
                                  "the number of columns of a head that are rotated, {} times head_dim",
                                  width->get_int64(), head, share_key)};
  if (!file.contains(share_key)) file[share_key] = static_cast<double>(width->get_int64()) / head;
  file.erase(width_key);
  return std::nullopt;
}

std::optional<ModelFault> read_unrotated(const json::object& file, ModelConfig& c) {
  constexpr const char* key = "no_rope_layers";
  const json::value* value = file.if_contains(key);
  if (!traits(c.family).no_rope_key || value == nullptr || value->is_null()) return std::nullopt;
  if (!value->is_array() || value->get_array().size() != c.layers)
    return ModelFault{key,
                      "must be a list, with one item a layer: 0 for layers without rotation, otherwise 1"};
  const json::array& list = value->get_array();
  u32 interval = 1;
  while (interval <= list.size() && list[interval - 1] != 0) ++interval;
  c.softmax.no_rope_interval = interval;
  for (u32 layer = 0; layer < c.layers; ++layer)
    if (list[layer] != (c.rotates(layer) ? 1 : 0))
      return ModelFault{
          key, fmt::format("has {} for layer {} (the first is 0), against the pattern of the layers before; "
                           "Tidepool trains models with layers without rotation at a fixed interval",
                           json_text(list[layer], JsonStyle::line), layer)};
  return std::nullopt;
}

std::optional<ModelFault> check_one_type(std::string_view key, const json::object& map) {
  const json::value *now = map.if_contains("rope_type"), *old = map.if_contains("type");
  if (now == nullptr || old == nullptr || now->is_null() || old->is_null() || *now == *old)
    return std::nullopt;
  return ModelFault{
      fmt::format("{}.type", key),
      fmt::format("is {}, but rope_type beside it is {}; keep the value that the model was trained with",
                  json_text(*old, JsonStyle::line), json_text(*now, JsonStyle::line))};
}

std::optional<ModelFault> check_scaling(std::string_view key, const json::object& map, RopeType type) {
  using Keys = std::vector<std::string_view>;
  static const std::array<Keys, rope_type_names.size()> keys = {
      Keys{"factor"},
      Keys{"factor"},
      Keys{"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"},
      Keys{"factor", "original_max_position_embeddings"},
      Keys{"factor"},
      Keys{"short_factor", "long_factor"},
      Keys{}};
  const Keys& needed = keys[static_cast<u32>(type)];
  const u64 count = type == RopeType::plain ? 0 : needed.size();
  for (u64 i = 0; i < needed.size(); ++i) {
    const json::value* given = map.if_contains(needed[i]);
    const bool there = given != nullptr && !given->is_null();
    if (i < count && !there)
      return ModelFault{
          fmt::format("{}.{}", key, needed[i]),
          fmt::format("is missing, which rope type {} needs: add the value that the model was trained with",
                      rope_type_names[static_cast<u32>(type)])};
    if (there && count == 0 && i == 0 && !map.contains("rope_type") && !map.contains("type"))
      return ModelFault{
          fmt::format("{}.rope_type", key),
          "is missing: a factor alone does not say how it scales; add the type that the model was "
          "trained with"};
  }
  return std::nullopt;
}

std::optional<ModelFault> take_lengths(const json::object& file, ModelConfig& c) {
  constexpr const char* key = "original_max_position_embeddings";
  Rope& rope = c.attention.rope;
  const json::value* beside = file.if_contains(key);
  if (rope.type == RopeType::longrope) {
    if (rope.original_positions == 0 && beside != nullptr && beside->is_int64() && beside->get_int64() > 0)
      rope.original_positions = static_cast<u32>(std::min<i64>(beside->get_int64(), 16777216));
    const json::object* map = map_in(file, "rope_scaling");
    if (map == nullptr || map->empty()) map = map_in(file, "rope_parameters");
    const json::value* factor = map != nullptr ? map->if_contains("factor") : nullptr;
    if ((factor == nullptr || factor->is_null()) && rope.original_positions > 0)
      rope.factor = static_cast<double>(c.positions) / rope.original_positions;
  }
  if (!has_original_length(rope.type) || beside == nullptr || !beside->is_number() ||
      beside->to_number<double>() == rope.original_positions)
    return std::nullopt;
  const std::string length = json_text(*beside, JsonStyle::line);
  return ModelFault{key,
                    fmt::format("is {}, but {} among the parameters of the angles. transformers computes "
                                "the angles with {}: write it in both places",
                                length, rope.original_positions, length)};
}

void write_rope(const ModelConfig& c, json::object& o) {
  if (style(c.family).positions != PositionKind::rotary) return;
  if (traits(c.family).global_sizes_key) return write_rope_maps(c, o);
  o["rope_theta"] = c.attention.rope.theta;
  if (c.attention.rope.type == RopeType::longrope)  // where transformers 4 reads it
    o["original_max_position_embeddings"] = c.attention.rope.original_positions;
  if (traits(c.family).no_rope_key) {
    json::array rotated;
    for (u32 layer = 0; layer < c.layers; ++layer) rotated.push_back(c.rotates(layer) ? 1 : 0);
    o["no_rope_layers"] = std::move(rotated);
    o["no_rope_layer_interval"] = c.softmax.no_rope_interval;
  }
  json::object rope = rope_object(c);
  o["rope_scaling"] = c.attention.rope.type == RopeType::plain ? json::value(nullptr) : json::value(rope);
  rope["rope_theta"] = c.attention.rope.theta;
  if (traits(c.family).partial_rotary_key) rope["partial_rotary_factor"] = c.attention.rope.partial_factor;
  o["rope_parameters"] = traits(c.family).local_rope ? both_maps(c, std::move(rope)) : std::move(rope);
}

}  // namespace tidepool
