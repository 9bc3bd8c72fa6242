// Models of families with experts, as transformers writes them: their configs, and the names and shapes of
// their tensors, which follow from the rows of the families.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>

#include "huggingface/directory/config_difference.h"
#include "huggingface/directory/hf_config.h"
#include "huggingface/weights/safetensors.h"
#include "model/blocks.h"
#include "tests/support/family_cases.h"

namespace tidepool::test::expert_families_test {

using Shapes = std::map<std::string, std::vector<u64>>;

// Adds tensors of one layer.
class LayerTensors {
 public:
  LayerTensors(const ModelConfig& c, u32 layer, bool joined, Shapes& out)
      : c_(c), layer_(layer), joined_(joined), out_(out) {}

  void add_all() {
    if (style(c_.family).one_part) return add_part();
    if (c_.has_branches(layer_)) return add_gemma4();
    add("input_layernorm.weight", {c_.width});
    add("post_attention_layernorm.weight", {c_.width});
    add_mixer();
    if (c_.has_experts(layer_))
      add_experts();
    else
      add_mlp("mlp", c_.inner());
  }

 private:
  // transformers' own names are those of joined files.
  void add(std::string_view name, std::vector<u64> shape) {
    const std::string_view path = joined_ ? style(c_.family).layers_path : style(c_.family).tensors_path;
    out_[fmt::format("{}.{}.{}", path, layer_, name)] = std::move(shape);
  }
  // Experts beside a dense MLP, each with its norms.
  void add_gemma4() {
    for (const char* norm : {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                             "pre_feedforward_layernorm_2", "post_feedforward_layernorm",
                             "post_feedforward_layernorm_1", "post_feedforward_layernorm_2"})
      add(fmt::format("{}.weight", norm), {c_.width});
    add("layer_scalar", {1});
    add_gemma4_attention();
    add_mlp("mlp", c_.dense_inner(layer_));
    add("router.proj.weight", {c_.experts.count, c_.width});
    add("router.scale", {c_.width});
    add("router.per_expert_scale", {c_.experts.count});
    add("experts.gate_up_proj", {c_.experts.count, 2 * c_.expert_inner(), c_.width});
    add("experts.down_proj", {c_.experts.count, c_.width, c_.expert_inner()});
    if (!c_.layer_inputs.on()) return;
    add_linear("per_layer_input_gate", c_.layer_inputs.width, c_.width, false);
    add_linear("per_layer_projection", c_.width, c_.layer_inputs.width, false);
    add("post_per_layer_input_norm.weight", {c_.width});
  }
  void add_gemma4_attention() {
    const bool own = !c_.reads_keys(layer_);
    add_linear("self_attn.q_proj", c_.query_width(layer_), c_.width, c_.attention.bias);
    if (own) add_linear("self_attn.k_proj", c_.key_width(layer_), c_.width, c_.attention.bias);
    if (own && !c_.keys_are_values(layer_))
      add_linear("self_attn.v_proj", c_.key_width(layer_), c_.width, c_.attention.bias);
    add_linear("self_attn.o_proj", c_.width, c_.query_width(layer_), c_.attention.bias);
    add("self_attn.q_norm.weight", {c_.head_size(layer_)});
    if (own) add("self_attn.k_norm.weight", {c_.head_size(layer_)});
  }
  // A layer of one part, with one norm.
  void add_part() {
    add("norm.weight", {c_.width});
    if (c_.has_experts(layer_)) return add_experts();
    if (c_.mixer_kind(layer_) != MixerKind::none) return add_mixer();
    add_linear("mixer.up_proj", c_.inner(), c_.width, false);
    add_linear("mixer.down_proj", c_.width, c_.inner(), false);
  }
  void add_linear(std::string_view name, u64 rows, u64 columns, bool bias) {
    add(fmt::format("{}.weight", name), {rows, columns});
    if (bias) add(fmt::format("{}.bias", name), {rows});
  }
  void add_mlp(std::string_view name, u64 inner) {
    for (const char* matrix : {"gate_proj", "up_proj"})
      add_linear(fmt::format("{}.{}", name, matrix), inner, c_.width, false);
    add_linear(fmt::format("{}.down_proj", name), c_.width, inner, false);
  }
  void add_mixer() {
    switch (c_.mixer_kind(layer_)) {
      case MixerKind::softmax:
        return add_attention();
      case MixerKind::latent:
        return add_latent_attention();
      case MixerKind::gated_delta:
        return add_gated_delta();
      case MixerKind::mamba:
        return add_mamba();
      case MixerKind::none:
        return;
    }
  }
  void add_mamba() {
    const MambaConfig& m = c_.mamba;
    const std::string path = style(c_.family).one_part ? "mixer" : "mamba";
    const u64 channels = m.inner() + 2 * u64{m.groups} * m.state_size;
    add_linear(path + ".in_proj", m.inner() + channels + m.heads, c_.width, m.bias);
    add(path + ".conv1d.weight", {channels, 1, m.taps});
    if (m.convolution_bias) add(path + ".conv1d.bias", {channels});
    for (const char* name : {".dt_bias", ".A_log", ".D"}) add(path + name, {m.heads});
    add(path + ".norm.weight", {m.inner()});
    add_linear(path + ".out_proj", c_.width, m.inner(), m.bias);
  }
  void add_gated_delta() {
    const GatedDeltaConfig& d = c_.delta;
    const u64 keys = u64{d.key_heads} * d.key_head_dim, values = u64{d.value_heads} * d.value_head_dim;
    const auto matrix = [&](const char* name, u64 rows, u64 columns) {
      add_linear(fmt::format("linear_attn.{}", name), rows, columns, false);
    };
    if (traits(c_.family).delta_by_key_head) {
      matrix("in_proj_qkvz", 2 * keys + 2 * values, c_.width);
      matrix("in_proj_ba", 2 * u64{d.value_heads}, c_.width);
    } else {
      matrix("in_proj_qkv", 2 * keys + values, c_.width);
      matrix("in_proj_z", values, c_.width);
      matrix("in_proj_b", d.value_heads, c_.width);
      matrix("in_proj_a", d.value_heads, c_.width);
    }
    add("linear_attn.conv1d.weight", {2 * keys + values, 1, d.taps});
    add("linear_attn.dt_bias", {d.value_heads});
    add("linear_attn.A_log", {d.value_heads});
    add("linear_attn.norm.weight", {d.value_head_dim});
    matrix("out_proj", c_.width, values);
  }
  void add_attention() {
    const bool bias = c_.qkv_bias();
    if (style(c_.family).one_part) return add_plain_attention();
    add_linear("self_attn.q_proj", (c_.attention_gate() ? 2 : 1) * c_.query_width(), c_.width, bias);
    for (const char* name : {"self_attn.k_proj", "self_attn.v_proj"})
      add_linear(name, c_.kv_heads() * c_.head_size(), c_.width, bias);
    add_linear("self_attn.o_proj", c_.width, c_.query_width(), c_.output_bias());
    if (style(c_.family).attention_sinks) add("self_attn.sinks", {c_.attention.heads});
    if (c_.qk_norm() == QkNormKind::none) return;
    const bool whole = c_.qk_norm() == QkNormKind::whole;
    add("self_attn.q_norm.weight", {whole ? c_.query_width() : c_.head_size()});
    add("self_attn.k_norm.weight", {(whole ? c_.kv_heads() : 1) * c_.head_size()});
  }
  void add_plain_attention() {
    add_linear("mixer.q_proj", c_.query_width(), c_.width, false);
    for (const char* name : {"mixer.k_proj", "mixer.v_proj"})
      add_linear(name, c_.kv_heads() * c_.head_size(), c_.width, false);
    add_linear("mixer.o_proj", c_.width, c_.query_width(), false);
  }
  void add_latent_attention() {
    const LatentAttention& l = c_.latent;
    const bool bias = c_.attention.bias;
    if (l.q_lora_rank != 0) {
      add_linear("self_attn.q_a_proj", l.q_lora_rank, c_.width, bias);
      add("self_attn.q_a_layernorm.weight", {l.q_lora_rank});
      add_linear("self_attn.q_b_proj", c_.query_width(), l.q_lora_rank, false);
    } else {
      add_linear("self_attn.q_proj", c_.query_width(), c_.width, false);
    }
    add_linear("self_attn.kv_a_proj_with_mqa", l.kv_lora_rank + l.qk_rope_head_dim, c_.width, bias);
    add("self_attn.kv_a_layernorm.weight", {l.kv_lora_rank});
    add_linear("self_attn.kv_b_proj", u64{c_.attention.heads} * (l.qk_nope_head_dim + l.v_head_dim),
               l.kv_lora_rank, false);
    add_linear("self_attn.o_proj", c_.width, u64{c_.attention.heads} * l.v_head_dim, bias);
  }
  void add_experts() {
    const ExpertTensors& t = traits(c_.family).experts->tensors;
    const u64 count = c_.experts.count, inner = c_.expert_inner(), width = c_.width;
    add(joined_ ? t.joined_router : t.router, {count, width});
    if (!t.router_bias.empty()) add(t.router_bias, {count});
    if (!t.correction_bias.empty())
      add(joined_ && !t.joined_correction_bias.empty() ? t.joined_correction_bias : t.correction_bias,
          {count});
    if (c_.family == Family::granitemoehybrid) return add_granite_experts();
    if (!t.has_gate()) return add_experts_without_gate();
    const std::string_view shared = t.shared.gate.substr(0, t.shared.gate.rfind('.'));
    if (!shared.empty()) add_mlp(shared, c_.shared_inner());
    if (!t.shared_gate.empty()) add_linear(t.shared_gate, 1, width, false);
    if (!joined_) {
      for (u64 e = 0; e < count; ++e) {
        for (const std::string_view matrix : {t.gate, t.up})
          add_linear(fmt::format("{}.{}.{}", t.single, e, matrix), inner, width, false);
        add_linear(fmt::format("{}.{}.{}", t.single, e, t.down), width, inner, false);
      }
      return;
    }
    const auto matrix = [&](u64 rows, u64 columns) {
      return t.joined_in_out ? std::vector<u64>{count, columns, rows}
                             : std::vector<u64>{count, rows, columns};
    };
    add(fmt::format("{}.gate_up_proj", t.joined), matrix(2 * inner, width));
    add(fmt::format("{}.down_proj", t.joined), matrix(width, inner));
    if (!t.biases) return;
    add(fmt::format("{}.gate_up_proj_bias", t.joined), {count, 2 * inner});
    add(fmt::format("{}.down_proj_bias", t.joined), {count, width});
  }

  void add_granite_experts() {
    const u64 count = c_.experts.count, inner = c_.expert_inner(), width = c_.width,
              shared = c_.shared_inner();
    add("block_sparse_moe.input_linear.weight", {count, 2 * inner, width});
    add("block_sparse_moe.output_linear.weight", {count, width, inner});
    add_linear("shared_mlp.input_linear", 2 * shared, width, false);
    add_linear("shared_mlp.output_linear", width, shared, false);
  }
  void add_experts_without_gate() {
    const u64 count = c_.experts.count, inner = c_.expert_inner(), width = c_.width;
    add_linear("mixer.shared_experts.up_proj", c_.shared_inner(), width, false);
    add_linear("mixer.shared_experts.down_proj", width, c_.shared_inner(), false);
    if (joined_) {
      add("mixer.experts.up_proj", {count, inner, width});
      add("mixer.experts.down_proj", {count, width, inner});
      return;
    }
    for (u64 e = 0; e < count; ++e) {
      add_linear(fmt::format("mixer.experts.{}.up_proj", e), inner, width, false);
      add_linear(fmt::format("mixer.experts.{}.down_proj", e), width, inner, false);
    }
  }

  const ModelConfig& c_;
  u32 layer_;
  bool joined_;
  Shapes& out_;
};

Shapes shapes_of(const ModelConfig& c, bool joined) {
  const LayerStyle& s = style(c.family);
  const std::string_view path = joined ? s.layers_path : s.tensors_path,
                         base = path.substr(0, path.find('.'));
  Shapes out = {{fmt::format("{}.{}.weight", base, s.embedding_name), {c.vocab_size, c.width}},
                {fmt::format("{}.{}.weight", base, s.last_norm_name), {c.width}}};
  if (!c.tied) out["lm_head.weight"] = {c.vocab_size, c.width};
  if (c.layer_inputs.on()) {
    const u64 columns = c.layer_inputs_width();
    out["model.embed_tokens_per_layer.weight"] = {c.layer_inputs_rows(), columns};
    out["model.per_layer_model_projection.weight"] = {columns, c.width};
    out["model.per_layer_projection_norm.weight"] = {c.layer_inputs.width};
  }
  for (u32 layer = 0; layer < c.layers; ++layer) LayerTensors(c, layer, joined, out).add_all();
  return out;
}

class ExpertFamilies : public testing::TestWithParam<const char*> {
 protected:
  const std::string directory = family_directory(GetParam());
  const ModelConfig config = read_model_directory(directory).value();
};

TEST_P(ExpertFamilies, RowsNameTheTensorsOfFiles) {
  const ExpertTensors& names = traits(config.family).experts->tensors;
  const bool joined = !names.has_single_files() || std::string_view(GetParam()).ends_with("_joined");
  Shapes found;
  const auto file = SafetensorsFile::open(directory + "/model.safetensors", ErrorKind::bad_input).value();
  for (const StoredTensor& tensor : file->tensors()) found[tensor.name] = tensor.shape;
  EXPECT_EQ(found, shapes_of(config, joined));
}

TEST_P(ExpertFamilies, ConfigIsWrittenAsItIsRead) {
  const std::string text = hf_config_text(config, Precision::bf16);
  const ModelConfig again = parse_hf_config(text, ErrorKind::bad_input, "config.json").value();
  EXPECT_EQ(hf_config_text(again, Precision::bf16), text);
  EXPECT_EQ(config_difference(again, config), "");
  EXPECT_EQ(again.experts.balance, config.experts.balance);
  EXPECT_EQ(again.experts.balance_factor, config.experts.balance_factor);
  EXPECT_EQ(again.experts.z_factor, config.experts.z_factor);
}

INSTANTIATE_TEST_SUITE_P(Cases, ExpertFamilies, testing::ValuesIn(expert_family_cases),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace tidepool::test::expert_families_test
