#include "config/families_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "config/family_bits.h"
#include "config/foreign_keys.h"
#include "tidepool/model_wrappers.h"

namespace tidepool {
namespace {

std::string_view text_of(MixerKind kind) {
  switch (kind) {
    case MixerKind::softmax:
      return "attention";
    case MixerKind::latent:
      return "latent attention";
    case MixerKind::gated_delta:
      return "gated delta rule";
    case MixerKind::mamba:
      return "Mamba-2";
    case MixerKind::none:
      break;
  }
  return "";
}

std::string mixer_text(const FamilyTraits& family) {
  std::vector<std::string> parts;
  if (family.delta_layers) parts.emplace_back(text_of(MixerKind::gated_delta));
  if (!family.layer_kinds.empty()) parts.emplace_back(text_of(MixerKind::mamba));
  parts.emplace_back(text_of(family.style->mixer));
  std::vector<std::string> options;
  if (family.window != WindowKind::none) options.emplace_back("windows");
  if (family.qk_norm != QkNormKind::none) options.emplace_back("norms of q and k");
  if (family.qkv_bias) options.emplace_back("biases of q, k and v");
  if (family.style->attention_sinks) options.emplace_back("sinks");
  if (family.style->attention_gate) options.emplace_back("gates");
  if (family.attention_cap_key) options.emplace_back("soft cap");
  if (family.style->one_part) options.emplace_back("or none");
  const std::string text = fmt::format("{}", fmt::join(parts, ", "));
  return options.empty() ? text : fmt::format("{}; {}", text, fmt::join(options, ", "));
}

std::string mlp_text(const FamilyTraits& family) {
  const LayerStyle& style = *family.style;
  const std::string_view dense = style.mlp == MlpKind::gelu           ? "GELU"
                                 : style.mlp == MlpKind::squared_relu ? "relu^2"
                                 : style.gate == MlpGate::gelu        ? "GeGLU"
                                                                      : "SwiGLU";
  if (!family.with_experts) return std::string(dense);
  const MlpNames& names = family.experts->tensors.shared;
  const bool shared = !names.up.empty() || !names.gate_up.empty();
  if (family.style->one_part) return "relu², experts and shared ones, or none";
  if (family.experts->dense_beside || family.experts->tensors.are_branch())
    return fmt::format("{}, with experts beside it or without", dense);
  return fmt::format("experts{}", shared ? ", and shared ones" : "");
}

std::string positions_text(const FamilyTraits& family) {
  if (family.style->positions == PositionKind::learned) return "a table";
  if (family.position_key) return "none, or rotary";
  if (!family.layer_kinds.empty()) return "none";
  return family.partial_rotary_key ? "rotary, of a share" : "rotary";
}

// Families in which the key is read.
u32 with_key(std::string_view key) {
  u32 bits = 0;
  for (const Field* field : find_fields("model", key)) bits |= field->families;
  return bits;
}

std::string names_of(u32 bits) {
  if (bits == family_sets::all) return "all";
  if (bits == family_sets::rotary) return "all but gpt2";
  std::vector<std::string_view> out;
  for (u32 f = 0; f < family_count; ++f)
    if ((bits >> f & 1) != 0) out.push_back(families[f].name);
  return fmt::format("{}", fmt::join(out, ", "));
}

}  // namespace

std::string families_markdown() {
  std::string out = fmt::format(
      "# Families of models\n\nMade by `tidepool config --families` from the rows of the program. Each "
      "family was compared "
      "with transformers {}:\nlogits, loss and every gradient of small random models, files read and written "
      "([how](architecture/tests.md)). Whole models\nand adapters train.\n\n"
      "| `model_type` | published models | class in transformers | mixer of a layer | MLP of a layer | "
      "positions |\n"
      "|---|---|---|---|---|---|\n",
      compared_transformers);
  for (const FamilyTraits& family : families)
    out += fmt::format("| `{}` | {} | `{}` | {} | {} | {} |\n", family.name, family.models,
                       family.architecture, mixer_text(family), mlp_text(family), positions_text(family));
  out +=
      "\nOf directories with these types the text model is trained, and `tidepool export` puts it back:\n\n"
      "| `model_type` | text model |\n|---|---|\n";
  for (const ModelWrapper& wrapper : model_wrappers)
    out += fmt::format("| `{}` | `{}` |\n", wrapper.name, name(wrapper.text));
  out +=
      "\nAny other `model_type` is refused by name.\n\n## Keys with one value\n\nA `config.json` that gives "
      "another value is "
      "refused, because its model would be another one.\n\n| key | value | families |\n|---|---|---|\n";
  for (const DemandedValue& demand : demanded_values()) {
    if (demand.key == "quantization_config") continue;  // of a directory it is read
    const u32 refused = demand.families & ~with_key(demand.key);
    out += fmt::format("| `{}` | {} | {} |\n", demand.key, demand.value, names_of(refused));
  }
  return out;
}

}  // namespace tidepool
