#include "huggingface/weights/unused_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <string_view>

#include "huggingface/weights/adapter_files.h"
#include "huggingface/weights/safetensors.h"
#include "huggingface/weights/shards.h"
#include "huggingface/weights/wrapped_names.h"

namespace tidepool {
namespace {

constexpr std::size_t names_shown_max = 3;

// RETURNS: the layer's number: 3 for "model.layers.3.mlp.up_proj.weight", "transformer.h.3.ln_1.weight" and
// these names without their first part.
std::optional<u32> layer_of(std::string_view tensor) {
  const std::string name = text_tensor_name(tensor);
  for (const std::string_view before :
       {"model.layers.", "backbone.layers.", "layers.", "transformer.h.", "h."}) {
    if (!name.starts_with(before)) continue;
    const std::string_view rest = std::string_view(name).substr(before.size());
    u32 layer = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), layer);
    if (error == std::errc() && end != rest.data() + rest.size() && *end == '.') return layer;
  }
  return std::nullopt;
}

// A classifier is another model than the one in the directory: its export carries nothing.
std::string_view export_carries(u64 tensors, const ModelConfig& model) {
  if (model.score.on()) return "";
  return tensors == 1 ? "; `tidepool export` carries it" : "; `tidepool export` carries them";
}

// RETURNS: a line about the parts beside the text model; empty: there are none.
std::string describe_parts(const std::string& directory, u64 of_vision, u64 of_prediction,
                           const ModelConfig& model, WeightsUse use) {
  const u64 all = of_vision + of_prediction;
  if (all == 0) return "";
  const std::string_view parts = of_prediction == 0 ? "the vision part"
                                 : of_vision == 0   ? "extra prediction"
                                                    : "the vision part and of extra prediction";
  return fmt::format("{}: {} of {} {} not {}{}", directory,
                     all == 1 ? "1 tensor" : fmt::format("{} tensors", all), parts, all == 1 ? "is" : "are",
                     use == WeightsUse::training ? "trained" : "used", export_carries(all, model));
}

}  // namespace

std::vector<std::string> describe_rounded(const std::string& directory) {
  u64 count = 0;
  for (const char* file_name : {weights_file, adapter_weights_file}) {
    const auto model = SafetensorsModel::open(directory, ErrorKind::bad_input, file_name);
    if (!model) continue;  // the reader of the weights reports the error
    for (const auto& file : (*model)->files())
      count += static_cast<u64>(std::ranges::count(file->tensors(), Dtype::f64, &StoredTensor::dtype));
  }
  if (count == 0) return {};
  return {fmt::format("{}: {} {} F64; {} values are rounded to F32 while they are read", directory, count,
                      count == 1 ? "tensor is" : "tensors are", count == 1 ? "its" : "their")};
}

std::vector<std::string> describe_unused(const std::string& directory, std::span<const std::string> tensors,
                                         const ModelConfig& model, WeightsUse use) {
  std::set<u32> layers;
  u64 of_layers = 0, of_vision = 0, of_prediction = 0;
  std::vector<std::string_view> others;
  for (const std::string& tensor : tensors) {
    const std::optional<u32> layer = layer_of(tensor);
    if (layer && *layer >= model.layers) {
      layers.insert(*layer);
      ++of_layers;
    } else if (is_of_vision(tensor)) {
      ++of_vision;
    } else if (is_of_extra_prediction(tensor)) {
      ++of_prediction;
    } else {
      others.push_back(tensor);
    }
  }
  std::vector<std::string> lines;
  if (std::string line = describe_parts(directory, of_vision, of_prediction, model, use); !line.empty())
    lines.push_back(std::move(line));
  if (!layers.empty())
    lines.push_back(fmt::format(
        "{}: holds weights of {} layers, but {} is {}: the layers from {} on ({} tensors) are not used{}",
        directory, *layers.rbegin() + 1, key_names(model.family).layers, model.layers, *layers.begin(),
        of_layers, export_carries(of_layers, model)));
  if (others.size() == 1)
    lines.push_back(
        fmt::format("{}: tensor {} is not used{}", directory, others[0], export_carries(1, model)));
  if (others.size() > 1) {
    const auto shown = std::span(others).first(std::min(others.size(), names_shown_max));
    const bool of_experts = model.experts.count == 0 && std::ranges::any_of(others, [](const auto& name) {
                              return name.find(".experts.") != name.npos;
                            });
    lines.push_back(fmt::format("{}{}: {} tensors are not used: {}{}{}",
                                of_experts ? "WARNING: the config is a dense model's, and weights of experts "
                                             "are not trained: "
                                           : "",
                                directory, others.size(), fmt::join(shown, ", "),
                                shown.size() < others.size() ? " ..." : "",
                                export_carries(others.size(), model)));
  }
  return lines;
}

}  // namespace tidepool
