#include "huggingface/directory/hf_layer_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <charconv>

#include "base/json/text.h"

namespace tidepool {
namespace json = boost::json;
namespace {

constexpr std::string_view map_key = "per_layer_config";

struct Heads {
  u32 size = 0, kv_heads = 0;

  bool operator==(const Heads&) const = default;
};

// Reads the heads of one layer; keys that are left out keep the model's.
std::optional<ModelFault> read_heads(const json::object& map, Heads& heads) {
  for (const auto& [key, value] : map) {
    u32* const number = key == "head_dim"              ? &heads.size
                        : key == "num_key_value_heads" ? &heads.kv_heads
                                                       : nullptr;
    if (number == nullptr)
      return ModelFault{map_key,
                        fmt::format("has {} for a layer; Tidepool trains models whose layers differ in "
                                    "head_dim and num_key_value_heads alone",
                                    std::string_view(key))};
    if (!value.is_int64() || value.get_int64() < 1 || value.get_int64() > 65536)
      return ModelFault{map_key, fmt::format("has {} {} for a layer; it must be in 1..65536",
                                             std::string_view(key), json_text(value, JsonStyle::line))};
    *number = static_cast<u32>(value.get_int64());
  }
  return std::nullopt;
}

std::optional<u32> number_of(std::string_view text) {
  u32 number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

std::optional<ModelFault> read_map(const json::object& map, std::vector<Heads>& layers) {
  for (const auto& [key, value] : map) {
    const std::optional<u32> layer = number_of(key);
    if (!layer || *layer >= layers.size() || !value.is_object())
      return ModelFault{map_key, fmt::format("{} must be the number of one of the {} layers, with an object",
                                             std::string_view(key), layers.size())};
    if (auto fault = read_heads(value.get_object(), layers[*layer])) return fault;
  }
  return std::nullopt;
}

}  // namespace

bool is_layer_size_key(Family family, std::string_view key) {
  return traits(family).global_sizes_key && key == map_key;
}

std::optional<ModelFault> read_layer_sizes(const json::object& file, ModelConfig& c) {
  const json::value* map = file.if_contains(map_key);
  if (!traits(c.family).global_sizes_key || map == nullptr || map->is_null() || c.attention.heads == 0)
    return std::nullopt;
  if (!map->is_object()) return ModelFault{map_key, "must be an object, with layers' numbers as keys"};
  const Heads plain = {c.head_size(), c.kv_heads()};
  std::vector<Heads> layers(c.layers, plain);
  if (auto fault = read_map(map->get_object(), layers)) return fault;
  std::optional<Heads> global;
  for (u32 layer = 0; layer < c.layers; ++layer) {
    const Heads& wanted = c.slides(layer) ? plain : global ? *global : global.emplace(layers[layer]);
    if (layers[layer] != wanted)
      return ModelFault{
          map_key,
          fmt::format("gives layer {} (the first is 0) {} heads of keys of {} columns, and layers of its "
                      "kind {} of {}; Tidepool trains models whose layers of a kind are alike",
                      layer, layers[layer].kv_heads, layers[layer].size, wanted.kv_heads, wanted.size)};
  }
  if (!global) return std::nullopt;
  if (global->kv_heads != plain.kv_heads && !c.softmax.keys_are_values)
    return ModelFault{map_key,
                      fmt::format("gives layers that see all tokens {} heads of keys, and the others {}; "
                                  "Tidepool trains such models only with attention_k_eq_v",
                                  global->kv_heads, plain.kv_heads)};
  c.softmax.global_head_size = global->size;
  c.softmax.global_kv_heads = global->kv_heads == plain.kv_heads ? 0 : global->kv_heads;
  return std::nullopt;
}

}  // namespace tidepool
