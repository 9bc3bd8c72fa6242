#include "huggingface/directory/hf_experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <limits>

#include "base/json/text.h"

namespace tidepool {
namespace json = boost::json;
namespace {

void write_latent(const ModelConfig& c, json::object& o) {
  if (style(c.family).mixer != MixerKind::latent) return;
  const LatentAttention& l = c.latent;
  o["q_lora_rank"] = l.q_lora_rank != 0 ? json::value(l.q_lora_rank) : json::value(nullptr);
  o["kv_lora_rank"] = l.kv_lora_rank;
  o["qk_nope_head_dim"] = l.qk_nope_head_dim;
  o["qk_rope_head_dim"] = l.qk_rope_head_dim;
  o["v_head_dim"] = l.v_head_dim;
  o["rope_interleave"] = l.interleaved;
}

constexpr std::string_view inner_key = "moe_intermediate_size";
constexpr std::string_view mlp_list = "mlp_layer_types", dense_key = "first_k_dense_replace";

std::string_view mlp_name(const ModelConfig& c, u32 layer) {
  return c.has_experts(layer) ? "sparse" : "dense";
}

}  // namespace

std::optional<ModelFault> rename_expert_count(Family family, json::object& file) {
  const ExpertTraits* experts = traits(family).experts;
  if (experts == nullptr) return std::nullopt;
  const json::value* other = file.if_contains(experts->other_count_key);
  if (other == nullptr) return std::nullopt;
  const json::value* own = file.if_contains(experts->count_key);
  if (own != nullptr && !own->is_null() && !other->is_null() && *own != *other)
    return ModelFault{experts->other_count_key,
                      fmt::format("is {}, but {} beside it is {}; keep the number of experts in the files of "
                                  "weights",
                                  json_text(*other, JsonStyle::line), experts->count_key,
                                  json_text(*own, JsonStyle::line))};
  const json::value count = *other;
  if (own == nullptr || own->is_null()) file[experts->count_key] = count;
  file.erase(experts->other_count_key);
  return std::nullopt;
}

std::optional<ModelFault> apply_expert_switch(Family family, json::object& file) {
  const ExpertTraits* experts = traits(family).experts;
  if (experts == nullptr || experts->switch_key.empty()) return std::nullopt;
  const std::string_view key = experts->switch_key;
  const json::value* value = file.if_contains(key);
  const json::value given = value != nullptr && !value->is_null() ? *value : json::value(false);
  if (!given.is_bool())
    return ModelFault{key, fmt::format("{} must be true or false", json_text(given, JsonStyle::line))};
  file.erase(key);
  for (const std::string_view size : {experts->count_key, experts->chosen_key, inner_key}) {
    const json::value* number = file.if_contains(size);
    if (!given.get_bool())
      file.erase(size);
    else if (number == nullptr || number->is_null() || *number == json::value(0))
      return ModelFault{
          size, fmt::format("is {}, and a model with {} needs it: take the value of the file that came "
                            "with the weights",
                            number == nullptr ? "missing" : json_text(*number, JsonStyle::line), key)};
  }
  return std::nullopt;
}

std::optional<ModelFault> read_layer_list(std::string_view key, const json::value& value,
                                          std::vector<u32>& layers) {
  const auto wrong = [&] {
    return ModelFault{key, fmt::format("{} must be a list of numbers of layers, such as [0, 1]",
                                       json_text(value, JsonStyle::line))};
  };
  if (!value.is_array()) return wrong();
  layers.clear();
  for (const json::value& item : value.get_array()) {
    if (!item.is_int64() || item.get_int64() < 0 || item.get_int64() > std::numeric_limits<i32>::max())
      return wrong();
    layers.push_back(static_cast<u32>(item.get_int64()));
  }
  return std::nullopt;
}

bool is_mlp_list(Family family, std::string_view key) {
  return traits(family).experts != nullptr && traits(family).experts->mlp_list_key && key == mlp_list;
}

std::optional<ModelFault> read_mlp_list(const json::object& file, ModelConfig& config) {
  if (!is_mlp_list(config.family, mlp_list)) return std::nullopt;
  const u32 given = config.experts.dense_layers;
  const json::value* types = file.if_contains(mlp_list);
  if (types == nullptr || types->is_null()) {
    config.experts.dense_layers = default_model(config.family).experts.dense_layers;
  } else {
    if (!types->is_array() || types->get_array().size() != config.layers)
      return ModelFault{mlp_list, fmt::format("{} must be a list, with one item a layer, dense or sparse",
                                              json_text(*types, JsonStyle::line))};
    const json::array& list = types->get_array();
    const json::value sparse = "sparse";
    config.experts.dense_layers = static_cast<u32>(std::ranges::find(list, sparse) - list.begin());
    for (u32 layer = 0; layer < config.layers; ++layer)
      if (list[layer] != json::value(json::string_view(mlp_name(config, layer))))
        return ModelFault{mlp_list,
                          fmt::format("names {} for layer {} (the first is 0); layers may be dense, "
                                      "and after the last of these sparse",
                                      json_text(list[layer], JsonStyle::line), layer)};
  }
  if (file.contains(dense_key) && given != config.experts.dense_layers)
    return ModelFault{dense_key,
                      fmt::format("is {}, but {} makes {} layers dense, and transformers reads {}; "
                                  "keep the number that the model was trained with",
                                  given, mlp_list, config.experts.dense_layers, mlp_list)};
  return std::nullopt;
}

void write_experts(const ModelConfig& c, json::object& o) {
  write_latent(c, o);
  const ExpertTraits* family = traits(c.family).experts;
  if (family == nullptr) return;
  const Experts& e = c.experts;
  if (!family->switch_key.empty()) {
    o[family->switch_key] = e.count != 0;
    if (e.count == 0) {
      for (const std::string_view key : {family->count_key, family->chosen_key, inner_key}) o[key] = nullptr;
      return;
    }
  }
  o[family->count_key] = e.count;
  o[family->chosen_key] = e.chosen;
  if (family->inner_key) o[inner_key] = c.expert_inner();
  if (family->normalise_key) o["norm_topk_prob"] = e.normalise;
  if (family->shared_key) o["n_shared_experts"] = e.shared;
  if (family->shared_width_key) o["shared_expert_intermediate_size"] = c.shared_inner();
  if (family->step_keys) {
    o["decoder_sparse_step"] = e.step;
    o["mlp_only_layers"] = json::array(e.dense.begin(), e.dense.end());
  }
  if (family->group_keys) {
    if (!family->by_layer_kind) o["first_k_dense_replace"] = e.dense_layers;
    o["n_group"] = e.groups;
    o["topk_group"] = e.chosen_groups;
    o["routed_scaling_factor"] = e.scale;
  }
  if (family->mlp_list_key) {
    json::array types;
    for (u32 layer = 0; layer < c.layers; ++layer) types.push_back(json::string_view(mlp_name(c, layer)));
    o[mlp_list] = std::move(types);
  }
  if (family->activation == ExpertActivation::clamped_swiglu) {
    o["swiglu_alpha"] = e.gate_alpha;
    o["swiglu_limit"] = e.gate_limit;
  }
  if (family->balance_keys) {
    o["output_router_logits"] = e.balance;
    o["router_aux_loss_coef"] = e.balance_factor;
  }
  if (e.z_factor != 0) o["router_z_loss_coef"] = e.z_factor;  // transformers does not know this loss
}

}  // namespace tidepool
