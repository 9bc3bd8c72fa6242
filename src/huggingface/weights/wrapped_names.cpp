#include "huggingface/weights/wrapped_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

namespace tidepool {
namespace {

// Beginnings of names in files of wrappers, and in files of their text models; the first that fits counts.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> beginnings = {{
    {"model.language_model.", "model."},  // of transformers 5
    {"language_model.lm_head.", "lm_head."},
    {"language_model.model.", "model."},  // Gemma 3, and all of transformers 4
    {"language_model.", "model."},        // as AutoModel writes them
}};

bool starts_with_any(std::string_view name, std::span<const std::string_view> starts) {
  return std::ranges::any_of(starts, [&](std::string_view start) { return name.starts_with(start); });
}

}  // namespace

std::string text_tensor_name(std::string_view name) {
  for (const auto& [outer, text] : beginnings)
    if (name.starts_with(outer)) return fmt::format("{}{}", text, name.substr(outer.size()));
  return std::string(name);
}

bool is_text_tensor(std::string_view name) {
  constexpr std::array<std::string_view, 5> parts = {"model.embed_tokens.", "model.layers.", "model.norm.",
                                                     "lm_head.", "score."};
  return starts_with_any(name, parts);
}

bool is_of_vision(std::string_view name) {
  constexpr std::array<std::string_view, 6> starts = {"model.visual.",
                                                      "visual.",
                                                      "model.vision_tower.",
                                                      "vision_tower.",
                                                      "model.multi_modal_projector.",
                                                      "multi_modal_projector."};
  return starts_with_any(name, starts);
}

bool is_of_extra_prediction(std::string_view name) { return name.starts_with("mtp."); }

std::string name_in_file_of(const StoredTensor& t, std::string_view name) {
  const std::string &own = t.name, &there = t.name_in_file();
  u64 same = 0;  // bytes that both names end with
  while (same < std::min(own.size(), there.size()) &&
         own[own.size() - 1 - same] == there[there.size() - 1 - same])
    ++same;
  const std::string_view begin = std::string_view(own).substr(0, own.size() - same);
  if (!name.starts_with(begin)) return std::string(name);
  return fmt::format("{}{}", std::string_view(there).substr(0, there.size() - same),
                     name.substr(begin.size()));
}

}  // namespace tidepool
