#include "huggingface/directory/config_difference.h"

#include <fmt/format.h>

#include <cmath>

namespace tidepool {
namespace {

double original_positions(const ModelConfig& c) {
  return c.rope.original_positions != 0 ? c.rope.original_positions : c.positions;
}

}  // namespace

std::string config_difference(const ModelConfig& there, const ModelConfig& here) {
  if (there.family != here.family)
    return fmt::format("model_type is {} there and {} here", name(there.family), name(here.family));
  struct Row {
    std::string_view key;
    double there, here;
  };
  const ModelKeyNames& keys = key_names(here.family);
  const Row rows[] = {
      {"vocab_size", double(there.vocab_size), double(here.vocab_size)},
      {keys.positions, double(there.positions), double(here.positions)},
      {keys.width, double(there.width), double(here.width)},
      {keys.layers, double(there.layers), double(here.layers)},
      {keys.heads, double(there.heads), double(here.heads)},
      {"num_key_value_heads", double(there.kv_heads()), double(here.kv_heads())},
      {"head_dim", double(there.head_size()), double(here.head_size())},
      {keys.inner, double(there.inner()), double(here.inner())},
      {"sliding_window", double(there.window_of_any_layer()), double(here.window_of_any_layer())},
      {"max_window_layers", double(there.max_window_layers), double(here.max_window_layers)},
      {"sliding_window_pattern", double(there.sliding_window_pattern), double(here.sliding_window_pattern)},
      {"query_pre_attn_scalar", double(there.attention_scale_size()), double(here.attention_scale_size())},
      {"rope_local_base_freq", there.local_rope_theta, here.local_rope_theta},
      {keys.norm_epsilon, there.norm_epsilon, here.norm_epsilon},
      {"rope_theta", there.rope.theta, here.rope.theta},
      {"factor", there.rope.factor, here.rope.factor},
      {"low_freq_factor", there.rope.low_freq_factor, here.rope.low_freq_factor},
      {"high_freq_factor", there.rope.high_freq_factor, here.rope.high_freq_factor},
      {"original_max_position_embeddings", original_positions(there), original_positions(here)}};
  std::string out;
  const auto add = [&](std::string_view key, const auto& then, const auto& now) {
    out += fmt::format("{}{} is {} there and {} here", out.empty() ? "" : ", ", key, then, now);
  };
  for (const Row& row : rows) {
    // Tolerates the error of writing a number in decimal and reading it back.
    if (std::abs(row.there - row.here) > 1e-12 * std::abs(row.here)) add(row.key, row.there, row.here);
  }
  if (there.rope.type != here.rope.type)
    add("rope_type", rope_type_names[static_cast<u32>(there.rope.type)],
        rope_type_names[static_cast<u32>(here.rope.type)]);
  if (there.tied != here.tied) add("tie_word_embeddings", there.tied, here.tied);
  if (there.attention_bias != here.attention_bias)
    add("attention_bias", there.attention_bias, here.attention_bias);
  if (there.mlp_bias != here.mlp_bias) add("mlp_bias", there.mlp_bias, here.mlp_bias);
  return out;
}

}  // namespace tidepool
