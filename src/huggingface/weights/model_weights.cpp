#include "huggingface/weights/model_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "huggingface/weights/wrapped_names.h"
#include "tidepool/model_wrappers.h"

namespace tidepool {
namespace {

bool has_rotary_names(Family family) { return style(family).positions == PositionKind::rotary; }

// "model.", "backbone." or "transformer.".
std::string_view base_prefix(Family family) {
  const LayerStyle& s = style(family);
  const std::string_view layers = has_rotary_names(family) ? s.tensors_path : s.layers_path;
  return layers.substr(0, layers.find('.') + 1);
}
// The prefix in transformers, which files may have too.
std::string_view other_prefix(Family family) {
  const std::string_view layers = style(family).layers_path;
  return layers.substr(0, layers.find('.') + 1);
}

std::string_view embedding_without_prefix(Family family) {
  if (!has_rotary_names(family)) return "wte.weight";
  return style(family).embedding_name == "embeddings" ? "embeddings.weight" : "embed_tokens.weight";
}

bool is_tied(const ModelConfig& c) { return c.tied || style(c.family).always_tied; }

bool has_prefix(const SafetensorsModel& model, std::string_view prefix) {
  return std::ranges::any_of(model.files(), [&](const auto& file) {
    return std::ranges::any_of(file->tensors(),
                               [&](const StoredTensor& t) { return t.name.starts_with(prefix); });
  });
}

// RETURNS: the name with the prefix, if it is the name of a part of the base model, which is the model
// without its head.
std::string with_prefix(Family family, const std::string& name) {
  const LayerStyle& s = style(family);
  const std::array<std::string_view, 3> base_parts = {s.embedding_name, "layers", s.last_norm_name};
  const std::string_view other = other_prefix(family);
  std::string_view rest = name;
  if (other != base_prefix(family) && rest.starts_with(other)) rest.remove_prefix(other.size());
  const std::string_view part = rest.substr(0, rest.find('.'));
  if (std::ranges::find(base_parts, part) == base_parts.end()) return name;
  return fmt::format("{}{}", base_prefix(family), rest);
}

}  // namespace

SafetensorsModel::Location find_embedding(const SafetensorsModel& model, Family family) {
  const std::string_view name = embedding_without_prefix(family);
  if (const auto at = model.find(fmt::format("{}{}", base_prefix(family), name))) return at;
  return model.find(name);
}

Result<std::unique_ptr<SafetensorsModel>> open_model_weights(const std::string& directory,
                                                             const ModelConfig& c) {
  TRY_ASSIGN(std::unique_ptr<SafetensorsModel> model,
             SafetensorsModel::open(directory, ErrorKind::bad_input));
  // GPT-2's names stay as they are: with or without the prefix they are read everywhere.
  if (has_rotary_names(c.family))
    TRY(model->rename([&](const std::string& name) {
      return with_prefix(c.family, has_wrapper(c.family) ? text_tensor_name(name) : name);
    }));
  if (!is_tied(c) || !model->find(head_tensor) || find_embedding(*model, c.family)) return model;
  const bool prefixed = has_prefix(*model, base_prefix(c.family));
  const std::string embedding =
      fmt::format("{}{}", prefixed ? base_prefix(c.family) : "", embedding_without_prefix(c.family));
  TRY(model->rename([&](const std::string& name) { return name == head_tensor ? embedding : name; }));
  return model;
}

}  // namespace tidepool
