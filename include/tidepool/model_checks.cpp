#include "tidepool/model_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tidepool {
namespace {

constexpr u32 group_columns_max = 1 << 18;  // a group's parameters fit a worker's scratch area three times

// Letters of `layer_kinds` that the family's layers may have.
std::optional<ModelFault> check_layer_kinds(const ModelConfig& c) {
  constexpr std::string_view key = "hybrid_override_pattern";
  const bool parts = style(c.family).one_part;
  const std::string_view known = parts ? "M*-E" : "M*";
  if (!c.layer_kinds.empty() && c.layer_kinds.size() != c.layers)
    return ModelFault{
        key,
        fmt::format("'{}' has length {}, and num_hidden_layers is {}; it must have a letter for each layer",
                    c.layer_kinds, c.layer_kinds.size(), c.layers)};
  if (const u64 at = c.layer_kinds.find_first_not_of(known); at != c.layer_kinds.npos)
    return ModelFault{
        key,
        fmt::format("has '{}' for layer {} (the first is 0); layers may be M (Mamba-2){}", c.layer_kinds[at],
                    at, parts ? ", * (attention), - (MLP) and E (experts)" : " and * (attention)")};
  return std::nullopt;
}

}  // namespace

std::optional<ModelFault> check_mamba(const ModelConfig& c) {
  if (traits(c.family).layer_kinds.empty()) return std::nullopt;
  if (auto fault = check_layer_kinds(c)) return fault;
  const MambaConfig& m = c.mamba;
  const bool both = traits(c.family).step_limits_key;
  const std::string_view heads = both ? "mamba_n_heads" : "mamba_num_heads",
                         head = both ? "mamba_d_head" : "mamba_head_dim",
                         state = both ? "mamba_d_state" : "ssm_state_size",
                         groups = both ? "mamba_n_groups" : "n_groups",
                         taps = both ? "mamba_d_conv" : "conv_kernel";
  if (m.groups == 0 || m.heads == 0 || m.heads % m.groups != 0)
    return ModelFault{heads, fmt::format("{} is no multiple of {} {}; each group serves the same number of "
                                         "heads",
                                         m.heads, groups, m.groups)};
  for (const auto& [key, size] : {std::pair{head, m.head_dim}, std::pair{state, m.state_size}})
    if (size == 0 || size > model_state_head_size_max)
      return ModelFault{key, fmt::format("{} must be in 1..{}", size, model_state_head_size_max)};
  if (m.inner() / m.groups > group_columns_max)
    return ModelFault{heads, fmt::format("{} heads of {} columns are more than the {} supported", m.heads,
                                         m.head_dim, group_columns_max)};
  if (both && m.inner() % c.width != 0)
    return ModelFault{heads, fmt::format("{} heads of {} columns are no multiple of model.hidden_size {}, "
                                         "which mamba_expand must be",
                                         m.heads, m.head_dim, c.width)};
  if (m.taps == 0 || m.taps > model_taps_max)
    return ModelFault{taps, fmt::format("{} must be in 1..{}", m.taps, model_taps_max)};
  const std::vector<double>& limits = m.step_limits;
  if (!limits.empty() && (limits.size() != 2 || !(limits[0] >= 0 && limits[0] < limits[1])))
    return ModelFault{"time_step_limit", "must be the least and the most of a step, the least not negative"};
  return std::nullopt;
}

}  // namespace tidepool

namespace tidepool {
namespace {

std::optional<ModelFault> check_yarn(const Rope& r) {
  if (!(r.beta_slow > 0 && r.beta_slow < r.beta_fast))
    return ModelFault{"rope_parameters.beta_slow",
                      fmt::format("{} must be positive and below beta_fast {}", r.beta_slow, r.beta_fast)};
  if (!(r.theta > 1))
    return ModelFault{"rope_parameters.rope_theta", fmt::format("{} must be above 1 with yarn", r.theta)};
  for (auto [key, v] : {std::pair{"rope_parameters.attention_factor", r.attention_factor},
                        std::pair{"rope_parameters.mscale", r.mscale},
                        std::pair{"rope_parameters.mscale_all_dim", r.mscale_all_dim}})
    if (!(v >= 0)) return ModelFault{key, fmt::format("{} must not be negative", v)};
  return std::nullopt;
}

std::optional<ModelFault> check_longrope(const ModelConfig& c) {
  const Rope& r = c.attention.rope;
  const u32 pairs = c.rotary_size() / 2;
  for (const auto& [key, factors] : {std::pair{"rope_parameters.short_factor", &r.short_factor},
                                     std::pair{"rope_parameters.long_factor", &r.long_factor}}) {
    if (factors->size() != pairs)
      return ModelFault{key, fmt::format("has {} numbers; longrope needs one for each of the {} pairs of "
                                         "columns that are rotated",
                                         factors->size(), pairs)};
    if (const auto at = std::ranges::find_if(*factors, [](double x) { return !(x > 0); });
        at != factors->end())
      return ModelFault{key, fmt::format("{} must be positive", *at)};
  }
  if (r.original_positions < 2)
    return ModelFault{"rope_parameters.original_max_position_embeddings",
                      "longrope needs the length of the first training, at least 2"};
  if (!(r.attention_factor >= 0))
    return ModelFault{"rope_parameters.attention_factor",
                      fmt::format("{} must not be negative", r.attention_factor)};
  return std::nullopt;
}

}  // namespace

std::optional<ModelFault> check_rope(const ModelConfig& c) {
  const Rope& r = c.attention.rope;
  if (style(c.family).positions != PositionKind::rotary) return std::nullopt;
  if (!(r.theta > 0))
    return ModelFault{"rope_parameters.rope_theta", fmt::format("{} is not positive", r.theta)};
  if (!(c.softmax.local_rope_theta > 0))
    return ModelFault{"rope_local_base_freq", fmt::format("{} is not positive", c.softmax.local_rope_theta)};
  if (c.softmax.sliding_window_pattern == 0)
    return ModelFault{"sliding_window_pattern", "0 is too few; 1 means that every layer sees all tokens"};
  if (!(r.partial_factor > 0 && r.partial_factor <= 1) || c.rotary_size() < 2 || c.rotary_size() % 2 != 0)
    return ModelFault{
        "rope_parameters.partial_rotary_factor",
        fmt::format(
            "{} turns {} of a head's {} columns; it must be above 0, at most 1, and turn pairs of them",
            r.partial_factor, r.partial_factor > 0 ? c.rotary_size() : 0, c.head_size())};
  const bool proportional = r.type == RopeType::proportional;
  if (traits(c.family).global_sizes_key ? !proportional && r.type != RopeType::plain : proportional)
    return ModelFault{
        "rope_parameters.rope_type",
        fmt::format("{} is not computed for {} models; layers of Gemma 4 that see all tokens have "
                    "proportional or default angles, and others have others",
                    rope_type_names[static_cast<u32>(r.type)], name(c.family))};
  const u32 columns = c.rotary_size(c.layers - 1);  // the last layer sees all tokens
  if (proportional && static_cast<u32>(r.partial_factor * columns / 2) == 0)
    return ModelFault{
        "rope_parameters.partial_rotary_factor",
        fmt::format("{} of a head's {} columns turns no pair of them", r.partial_factor, columns)};
  const double usual = traits(c.family).left_out.partial_rotary;
  if (traits(c.family).global_sizes_key && !proportional && r.partial_factor != 1 &&
      r.partial_factor != usual)
    return ModelFault{
        "rope_parameters.partial_rotary_factor",
        fmt::format("{} has no effect with rope_type {} in transformers for {} models", r.partial_factor,
                    rope_type_names[static_cast<u32>(r.type)], name(c.family))};
  if (!(r.query_growth >= 0))
    return ModelFault{"rope_parameters.llama_4_scaling_beta",
                      fmt::format("{} must not be negative", r.query_growth)};
  if (!(r.alpha >= 0) || (r.alpha != 0 && r.type != RopeType::dynamic))
    return ModelFault{"rope_parameters.alpha",
                      fmt::format("{} has no effect with rope_type {}, or is negative", r.alpha,
                                  rope_type_names[static_cast<u32>(r.type)])};
  if (r.type == RopeType::plain) return std::nullopt;
  if (!(r.factor >= 1))
    return ModelFault{"rope_parameters.factor",
                      fmt::format("{} would make positions denser; it must be at least 1", r.factor)};
  if (r.type == RopeType::llama3 && !(r.low_freq_factor > 0 && r.low_freq_factor < r.high_freq_factor))
    return ModelFault{"rope_parameters.low_freq_factor",
                      fmt::format("{} must be positive and below high_freq_factor {}", r.low_freq_factor,
                                  r.high_freq_factor)};
  // transformers reads it beside the maps of the kinds of layers, where it is not.
  if (r.type == RopeType::yarn && !r.truncate && traits(c.family).local_rope)
    return ModelFault{"rope_parameters.truncate",
                      fmt::format("false has no effect in transformers for {} models", name(c.family))};
  if (r.type == RopeType::longrope) return check_longrope(c);
  if (r.type == RopeType::dynamic && c.rotary_size() <= 2)
    return ModelFault{"rope_parameters.rope_type", "dynamic needs heads with more than one pair of columns"};
  return r.type == RopeType::yarn ? check_yarn(r) : std::nullopt;
}

}  // namespace tidepool
