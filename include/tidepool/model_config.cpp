// Derives numbers from a model's config, has the families' defaults, and checks sizes.
#include "tidepool/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tidepool/model_checks.h"

namespace tidepool {
namespace {

constexpr u32 width_max = 1 << 18;  // a row's parameters fit a worker's scratch area twice

// Logarithmic growth of attention with the factor of the angles, from Peng et al., arXiv:2309.00071.
double yarn_growth(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

std::optional<ModelFault> check_latent(const ModelConfig& c) {
  const LatentAttention& l = c.latent;
  if (c.attention.heads == 0)
    return ModelFault{"num_attention_heads", "0 is too few; a model needs at least one head"};
  if (l.kv_lora_rank == 0)
    return ModelFault{"kv_lora_rank", "0 is too few; keys and values are made from it"};
  if (l.v_head_dim == 0) return ModelFault{"v_head_dim", "0 is too few; a head needs at least one column"};
  if (l.qk_rope_head_dim == 0 || l.qk_rope_head_dim % 2 != 0)
    return ModelFault{"qk_rope_head_dim",
                      fmt::format("{} columns of a head are rotated, in pairs; it must be even and not 0",
                                  l.qk_rope_head_dim)};
  if (c.head_size() > model_head_size_max)
    return ModelFault{
        "qk_nope_head_dim",
        fmt::format("{} and qk_rope_head_dim {} make heads {} columns wide, more than the {} "
                    "supported",
                    l.qk_nope_head_dim, l.qk_rope_head_dim, c.head_size(), model_head_size_max)};
  if (l.v_head_dim > model_head_size_max)
    return ModelFault{"v_head_dim", fmt::format("{} is more than the {} columns supported", l.v_head_dim,
                                                model_head_size_max)};
  if (c.kv_heads() != c.attention.heads)
    return ModelFault{
        "num_key_value_heads",
        fmt::format("{} differs from num_attention_heads {}; in latent attention every head has "
                    "its own keys and values",
                    c.kv_heads(), c.attention.heads)};
  return std::nullopt;
}

// Heads of layers that see all tokens, where they may differ from the others'.
std::optional<ModelFault> check_global_heads(const ModelConfig& c) {
  const SoftmaxConfig& s = c.softmax;
  if (s.global_head_size > model_head_size_max || s.global_head_size % 2 != 0)
    return ModelFault{"global_head_dim",
                      fmt::format("{} must be an even number of columns, at most {}: the rotary embedding "
                                  "turns pairs of columns",
                                  s.global_head_size, model_head_size_max)};
  if (s.global_kv_heads != 0 && c.attention.heads % s.global_kv_heads != 0)
    return ModelFault{
        "num_global_key_value_heads",
        fmt::format("{} does not divide model.num_attention_heads {}; each head of k and v serves the same "
                    "number of queries' heads",
                    s.global_kv_heads, c.attention.heads)};
  return std::nullopt;
}

std::optional<ModelFault> check_heads(const ModelConfig& c) {
  if (style(c.family).mixer == MixerKind::latent) return check_latent(c);
  const ModelKeyNames& keys = key_names(c.family);
  if (c.attention.heads == 0) return ModelFault{keys.heads, "0 is too few; a model needs at least one head"};
  if (c.softmax.head_size_given == 0 && c.width % c.attention.heads != 0)
    return ModelFault{keys.heads,
                      fmt::format("{} does not divide model.{} {}; every head needs the same whole width",
                                  c.attention.heads, keys.width, c.width)};
  if (c.softmax.head_size_given > model_head_size_max)
    return ModelFault{"head_dim", fmt::format("{} is more than the {} columns supported",
                                              c.softmax.head_size_given, model_head_size_max)};
  if (c.head_size() > model_head_size_max)
    return ModelFault{keys.heads, fmt::format("{} makes heads {} columns wide, more than the {} supported",
                                              c.attention.heads, c.head_size(), model_head_size_max)};
  if (c.qk_norm() == QkNormKind::whole && c.query_width() > width_max)
    return ModelFault{keys.heads, fmt::format("{} heads of {} columns are more columns than the {} supported",
                                              c.attention.heads, c.head_size(), width_max)};
  if (c.attention.heads % c.kv_heads() != 0)
    return ModelFault{
        "num_key_value_heads",
        fmt::format("{} does not divide model.{} {}; each head of k and v serves the same number of "
                    "queries' heads",
                    c.kv_heads(), keys.heads, c.attention.heads)};
  if (style(c.family).positions == PositionKind::rotary && c.head_size() % 2 != 0)
    return ModelFault{
        c.softmax.head_size_given != 0 ? "head_dim" : keys.heads,
        fmt::format("heads are {} columns wide, but the rotary embedding turns pairs of columns",
                    c.head_size())};
  for (u32 layer = 0; layer < c.layers; ++layer)
    if (c.reads_keys(layer) && c.keys_of(layer) == none)
      return ModelFault{
          "num_kv_shared_layers",
          fmt::format("{} leaves layer {} (the first is 0) no keys and values to read: no layer "
                      "before the last {} is of its kind",
                      c.softmax.shared_layers, layer, c.softmax.shared_layers)};
  return check_global_heads(c);
}

std::optional<ModelFault> check_delta(const ModelConfig& c) {
  if (!traits(c.family).delta_layers) return std::nullopt;
  const GatedDeltaConfig& d = c.delta;
  if (d.attention_interval == 0)
    return ModelFault{"full_attention_interval", "0 is too few; 1 gives every layer attention"};
  if (d.key_heads == 0 || d.value_heads == 0 || d.value_heads % d.key_heads != 0)
    return ModelFault{"linear_num_value_heads",
                      fmt::format("{} is no multiple of linear_num_key_heads {}; each head of q and k serves "
                                  "the same number of heads of v",
                                  d.value_heads, d.key_heads)};
  for (const auto& [key, size] : {std::pair{"linear_key_head_dim", d.key_head_dim},
                                  std::pair{"linear_value_head_dim", d.value_head_dim}})
    if (size == 0 || size > model_state_head_size_max)
      return ModelFault{key, fmt::format("{} must be in 1..{}", size, model_state_head_size_max)};
  if (d.taps == 0 || d.taps > model_taps_max)
    return ModelFault{"linear_conv_kernel_dim", fmt::format("{} must be in 1..{}", d.taps, model_taps_max)};
  return std::nullopt;
}

std::optional<ModelFault> check_layer_inputs(const ModelConfig& c) {
  if (!c.layer_inputs.on()) return std::nullopt;
  if (u64{c.layers} * c.layer_inputs.width > width_max)
    return ModelFault{"hidden_size_per_layer_input",
                      fmt::format("{} times {} layers is more than the {} columns supported",
                                  c.layer_inputs.width, c.layers, width_max)};
  if (c.layer_inputs_rows() < c.vocab_size)
    return ModelFault{"vocab_size_per_layer_input",
                      fmt::format("{} is less than vocab_size {}; every token has a row",
                                  c.layer_inputs_rows(), c.vocab_size)};
  return std::nullopt;
}

std::optional<ModelFault> check_factors(const ModelConfig& c) {
  for (const auto& [key, factor] : {std::pair{"embedding_multiplier", c.factors.embedding},
                                    std::pair{"residual_multiplier", c.factors.residual},
                                    std::pair{"logits_scaling", c.factors.logits_divisor}})
    if (!(factor > 0)) return ModelFault{key, fmt::format("{} is not positive", factor)};
  for (const auto& [key, cap] : {std::pair{"attn_logit_softcapping", c.softmax.soft_cap},
                                 std::pair{"final_logit_softcapping", c.final_soft_cap}})
    if (!(cap >= 0)) return ModelFault{key, fmt::format("{} is negative", cap)};
  if (!(c.softmax.score_factor >= 0))
    return ModelFault{"attention_multiplier", fmt::format("{} is negative", c.softmax.score_factor)};
  return std::nullopt;
}

std::optional<ModelFault> check_groups(const Experts& e, std::string_view count_key) {
  if (e.groups == 0 || e.count % e.groups != 0)
    return ModelFault{"n_group",
                      fmt::format("{} does not divide model.{} {}; every group has the same number "
                                  "of experts",
                                  e.groups, count_key, e.count)};
  const u32 size = e.count / e.groups;
  if (e.groups > 1 && size < 2)
    return ModelFault{
        "n_group",
        fmt::format("{} makes groups of one expert, but groups are compared by their two best", e.groups)};
  if (e.chosen_groups == 0 || e.chosen_groups > e.groups)
    return ModelFault{"topk_group",
                      fmt::format("{} must be in 1..{}, the number of groups", e.chosen_groups, e.groups)};
  if (e.chosen > e.chosen_groups * size)
    return ModelFault{"num_experts_per_tok",
                      fmt::format("{} is more than the {} experts in topk_group {} groups of {}", e.chosen,
                                  e.chosen_groups * size, e.chosen_groups, size)};
  return std::nullopt;
}

// Checks which layers have experts.
std::optional<ModelFault> check_expert_layers(const ModelConfig& c) {
  const Experts& e = c.experts;
  if (e.step == 0) return ModelFault{"decoder_sparse_step", "0 is too few; 1 gives every layer experts"};
  for (const u32 layer : e.dense)
    if (layer >= c.layers)
      return ModelFault{"mlp_only_layers",
                        fmt::format("{} is no layer; the last of {} is {}", layer, c.layers, c.layers - 1)};
  for (u32 layer = 0; layer < c.layers; ++layer)
    if (c.has_experts(layer)) return std::nullopt;
  if (traits(c.family).experts->by_layer_kind)
    return ModelFault{"n_routed_experts", fmt::format("{} is for layers with experts (E), of which "
                                                      "hybrid_override_pattern has none; set it to 0",
                                                      e.count)};
  const std::string_view key = e.dense_layers != 0 ? "first_k_dense_replace"
                               : !e.dense.empty()  ? "mlp_only_layers"
                                                   : "decoder_sparse_step";
  return ModelFault{
      key, fmt::format("leaves none of the {} layers with experts; choose a dense model instead", c.layers)};
}

// For a family whose models may be dense. Numbers of experts without experts are a mistake where config.json
// has a switch for them.
std::optional<ModelFault> check_no_experts(const ModelConfig& c) {
  const ExpertTraits& family = *traits(c.family).experts;
  if (!family.switch_key.empty() && (c.experts.chosen != 0 || c.experts.inner_given != 0))
    return ModelFault{
        c.experts.chosen != 0 ? family.chosen_key : "moe_intermediate_size",
        fmt::format("{} has no effect in a dense model, and model.{} is 0: set it, or leave "
                    "both out; weights of experts would not be trained",
                    c.experts.chosen != 0 ? c.experts.chosen : c.experts.inner_given, family.count_key)};
  if (!style(c.family).one_part) return std::nullopt;
  for (u32 layer = 0; layer < c.layers; ++layer)
    if (c.layer_kind(layer) == LayerKind::experts)
      return ModelFault{"n_routed_experts",
                        fmt::format("0 is too few: layer {} (the first is 0) has experts", layer)};
  return std::nullopt;
}

std::optional<ModelFault> check_experts(const ModelConfig& c) {
  const ExpertTraits* family = traits(c.family).experts;
  const Experts& e = c.experts;
  if (family == nullptr) {
    if (e.count == 0) return std::nullopt;
    return ModelFault{"model_type", fmt::format("{} models have no experts", name(c.family))};
  }
  if (family->dense_beside && e.shared_width == 0)
    return ModelFault{"shared_intermediate_size", "0 is too few; every layer has an MLP of this width"};
  if (e.count == 0 && family->optional) return check_no_experts(c);
  if (e.count == 0 || e.count > experts_max)
    return ModelFault{family->count_key,
                      fmt::format("'{}' is out of range; it must be 1 to {}", e.count, experts_max)};
  if (e.chosen == 0)
    return ModelFault{family->chosen_key, "0 is too few; every token needs at least one expert"};
  if (!family->switch_key.empty() && e.inner_given == 0)
    return ModelFault{"moe_intermediate_size",
                      "is missing, the width inside an expert; intermediate_size is that of the dense MLP"};
  if (e.chosen > e.count)
    return ModelFault{family->chosen_key, fmt::format("{} is more than the {} experts of model.{}", e.chosen,
                                                      e.count, family->count_key)};
  if (!(e.scale > 0)) return ModelFault{"routed_scaling_factor", fmt::format("{} is not positive", e.scale)};
  if (!(e.gate_limit > 0)) return ModelFault{"swiglu_limit", fmt::format("{} is not positive", e.gate_limit)};
  for (auto [key, v] :
       {std::pair{"router_aux_loss_coef", e.balance_factor}, std::pair{"router_z_loss_coef", e.z_factor}})
    if (!(v >= 0)) return ModelFault{key, fmt::format("{} must not be negative", v)};
  if (const auto fault = check_groups(e, family->count_key)) return fault;
  return check_expert_layers(c);
}

std::optional<ModelFault> check_numbers(const ModelConfig& c) {
  const ModelKeyNames& keys = key_names(c.family);
  if (c.vocab_size == 0)
    return ModelFault{"vocab_size", "0 is too few; give the number of tokens, 256 for bytes"};
  if (c.width == 0 || c.width > width_max)
    return ModelFault{keys.width, fmt::format("{} must be in 1..{}", c.width, width_max)};
  if (c.layers == 0) return ModelFault{keys.layers, "0 is too few; a model needs at least one layer"};
  if (style(c.family).always_tied && !c.tied)
    return ModelFault{"tie_word_embeddings", "false is not computed: GPT-2's head is tied"};
  if (c.positions == 0) return ModelFault{keys.positions, "0 is too few; a model sees at least one token"};
  if (!(c.norm_epsilon > 0))
    return ModelFault{keys.norm_epsilon, fmt::format("{} must be positive", c.norm_epsilon)};
  if (!(c.initializer_range >= 0))
    return ModelFault{"initializer_range", fmt::format("{} must not be negative", c.initializer_range)};
  for (auto [key, p] : {std::pair{std::string_view("embd_pdrop"), c.embedding_dropout},
                        std::pair{keys.attention_dropout, c.attention.dropout},
                        std::pair{std::string_view("resid_pdrop"), c.residual_dropout}}) {
    if (!(p >= 0 && p < 1)) return ModelFault{key, fmt::format("{} must be in [0, 1)", p)};
  }
  return std::nullopt;
}

}  // namespace

// A gated MLP has two matrices up and one down. With an inner size of 8/3 width they have as many weights as
// the two matrices of a plain MLP with 4 width.
u32 ModelConfig::inner() const {
  if (mlp.inner_given != 0) return mlp.inner_given;
  return style(family).mlp == MlpKind::glu ? static_cast<u32>(round_up(u64{8} * width / 3, 256)) : 4 * width;
}

MixerKind ModelConfig::mixer_kind(u32 layer) const {
  if (traits(family).layer_kinds.empty()) {
    const bool delta_layer = traits(family).delta_layers && (layer + 1) % delta.attention_interval != 0;
    return delta_layer ? MixerKind::gated_delta : style(family).mixer;
  }
  switch (layer_kind(layer)) {
    case LayerKind::mamba:
      return MixerKind::mamba;
    case LayerKind::attention:
      return style(family).mixer;
    case LayerKind::mlp:
    case LayerKind::experts:
      return MixerKind::none;
  }
  return MixerKind::none;
}

MlpKind ModelConfig::mlp_kind(u32 layer) const {
  if (style(family).one_part && mixer_kind(layer) != MixerKind::none) return MlpKind::none;
  return has_experts(layer) ? MlpKind::experts : style(family).mlp;
}

u32 ModelConfig::keys_of(u32 layer) const {
  u32 giver = layers - std::min(softmax.shared_layers, layers);
  while (giver > 0 && is_global(giver - 1) != is_global(layer)) --giver;
  return giver == 0 ? none : giver - 1;
}

bool ModelConfig::gives_keys(u32 layer) const {
  for (u32 reader = 0; reader < layers && !reads_keys(layer); ++reader)
    if (reads_keys(reader) && keys_of(reader) == layer) return true;
  return false;
}

u32 ModelConfig::attention_window(u32 layer) const {
  switch (traits(family).window) {
    case WindowKind::none:
      return 0;
    case WindowKind::every_layer:
      return softmax.sliding_window;
    case WindowKind::by_switch:
      return softmax.use_sliding_window && layer >= softmax.max_window_layers ? softmax.sliding_window : 0;
    case WindowKind::by_layer:
      // transformers demands a window of such layers: all positions stand for none.
      return slides(layer) && softmax.sliding_window < positions ? softmax.sliding_window : 0;
    case WindowKind::every_layer_by_switch:
      return softmax.use_sliding_window ? softmax.sliding_window : 0;
  }
  return 0;
}

double ModelConfig::attention_scale() const {
  if (softmax.score_factor != 0) return softmax.score_factor;
  const double plain = 1 / std::sqrt(static_cast<double>(attention_scale_size()));
  if (latent.kv_lora_rank == 0 || attention.rope.type == RopeType::plain ||
      attention.rope.mscale_all_dim == 0)
    return plain;
  const double growth = yarn_growth(attention.rope.factor, attention.rope.mscale_all_dim);
  return plain * growth * growth;
}

u32 ModelConfig::longest_sequence() const {
  if (attention.rope.type != RopeType::dynamic || attention.rope.alpha != 0) return positions;
  return static_cast<u32>(std::min(positions * attention.rope.factor, 16777216.0));
}

std::string longest_sequence_text(const ModelConfig& c) {
  const std::string_view positions = key_names(c.family).positions;
  if (c.longest_sequence() == c.positions) return fmt::format("model.{} {}", positions, c.positions);
  return fmt::format("{}, which is model.{} {} times rope_parameters.factor {}", c.longest_sequence(),
                     positions, c.positions, c.attention.rope.factor);
}

double Rope::rotary_factor() const {
  if (type != RopeType::yarn && type != RopeType::longrope) return 1;
  if (attention_factor != 0) return attention_factor;
  if (type == RopeType::longrope)
    return factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(original_positions));
  if (mscale == 0 || mscale_all_dim == 0) return yarn_growth(factor, 1);
  return yarn_growth(factor, mscale) / yarn_growth(factor, mscale_all_dim);
}

bool ModelConfig::has_experts(u32 layer) const {
  if (style(family).one_part) return experts.count != 0 && layer_kind(layer) == LayerKind::experts;
  return experts.count != 0 && layer >= experts.dense_layers && (layer + 1) % experts.step == 0 &&
         std::ranges::find(experts.dense, layer) == experts.dense.end();
}

u32 ModelConfig::window_of_any_layer() const {
  u32 window = 0;
  for (u32 layer = 0; layer < layers; ++layer) window = std::max(window, attention_window(layer));
  return window;
}

ModelConfig default_model(Family family) {
  ModelConfig c = {.family = family,
                   .norm_epsilon = style(family).norm_epsilon,
                   .tied = style(family).always_tied || traits(family).tied_default};
  c.attention.bias = traits(family).biased_default;
  c.softmax.sliding_window_pattern = traits(family).window_pattern;
  if (traits(family).no_rope_key) c.softmax.no_rope_interval = 4;
  if (traits(family).factor_keys || style(family).unit_scores) c.softmax.score_factor = 1;
  if (traits(family).global_sizes_key) c.attention.rope.type = RopeType::proportional;
  c.softmax.soft_cap = traits(family).left_out.attention_cap;
  c.final_soft_cap = traits(family).left_out.logits_cap;
  if (traits(family).query_growth_key) c.attention.rope.query_growth = 0.1;
  if (traits(family).left_out.local_rope_theta != 0)
    c.softmax.local_rope_theta = traits(family).left_out.local_rope_theta;
  if (traits(family).left_out.rope_theta != 0) c.attention.rope.theta = traits(family).left_out.rope_theta;
  if (const ExpertTraits* experts = traits(family).experts) {
    if (experts->switch_key.empty()) c.experts = {.count = 8, .chosen = 2};
    if (experts->shared_key) c.experts.shared = 1;
    if (experts->shared_width_key) c.experts.shared_width = 512;
    c.experts.joined_files = experts->joined_default;
    if (experts->group_keys && !experts->by_layer_kind) c.experts.dense_layers = 1;
    if (experts->by_layer_kind || experts->dense_beside) c.experts.shared_width = 1024;
  }
  if (!traits(family).layer_kinds.empty()) c.softmax.positions = PositionEmbedding::nope;
  if (traits(family).step_limits_key) c.mamba = {.groups = 1, .state_size = 256};
  if (traits(family).left_out.partial_rotary != 0)
    c.attention.rope.partial_factor = traits(family).left_out.partial_rotary;
  if (style(family).mixer == MixerKind::latent)
    c.latent = {.q_lora_rank = 0,
                .kv_lora_rank = 256,
                .qk_nope_head_dim = 64,
                .qk_rope_head_dim = 32,
                .v_head_dim = 64};
  return c;
}

std::optional<ModelFault> check_model(const ModelConfig& c) {
  for (const auto check : {check_numbers, check_heads, check_delta, check_mamba, check_factors,
                           check_layer_inputs, check_rope, check_experts})
    if (std::optional<ModelFault> fault = check(c)) return fault;
  return std::nullopt;
}

}  // namespace tidepool
