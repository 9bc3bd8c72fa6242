#include "huggingface/weights/model_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "huggingface/weights/wrapped_names.h"
#include "tidepool/model_wrappers.h"

namespace tidepool {
namespace {

// Parts of the base model, which is the model without its head, in families whose windows are named with its
// prefix.
constexpr std::array<std::string_view, 3> base_parts = {"embed_tokens", "layers", "norm"};

bool has_rotary_names(Family family) { return style(family).positions == PositionKind::rotary; }

// "model." or "transformer.".
std::string_view base_prefix(Family family) {
  const std::string_view layers = style(family).layers_path;
  return layers.substr(0, layers.find('.') + 1);
}

std::string_view embedding_without_prefix(Family family) {
  return has_rotary_names(family) ? "embed_tokens.weight" : "wte.weight";
}

bool is_tied(const ModelConfig& c) { return c.tied || style(c.family).always_tied; }

bool has_prefix(const SafetensorsModel& model, std::string_view prefix) {
  return std::ranges::any_of(model.files(), [&](const auto& file) {
    return std::ranges::any_of(file->tensors(),
                               [&](const StoredTensor& t) { return t.name.starts_with(prefix); });
  });
}

// RETURNS: the name with the prefix, if it is the name of a part of the base model.
std::string with_prefix(Family family, const std::string& name) {
  const std::string_view part = std::string_view(name).substr(0, name.find('.'));
  if (std::ranges::find(base_parts, part) == base_parts.end()) return name;
  return fmt::format("{}{}", base_prefix(family), name);
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
