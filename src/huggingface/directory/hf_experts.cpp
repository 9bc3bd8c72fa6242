#include "huggingface/directory/hf_experts.h"

#include <fmt/format.h>

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

void write_experts(const ModelConfig& c, json::object& o) {
  write_latent(c, o);
  const ExpertTraits* family = traits(c.family).experts;
  if (family == nullptr) return;
  const Experts& e = c.experts;
  o[family->count_key] = e.count;
  o["num_experts_per_tok"] = e.chosen;
  if (family->inner_key) o["moe_intermediate_size"] = c.expert_inner();
  if (family->normalise_key) o["norm_topk_prob"] = e.normalise;
  if (family->shared_key) o["n_shared_experts"] = e.shared;
  if (family->shared_width_key) o["shared_expert_intermediate_size"] = c.shared_inner();
  if (family->step_keys) {
    o["decoder_sparse_step"] = e.step;
    o["mlp_only_layers"] = json::array(e.dense.begin(), e.dense.end());
  }
  if (family->group_keys) {
    o["first_k_dense_replace"] = e.dense_layers;
    o["n_group"] = e.groups;
    o["topk_group"] = e.chosen_groups;
    o["routed_scaling_factor"] = e.scale;
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
