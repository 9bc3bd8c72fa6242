#include "huggingface/weights/expert_files.h"

#include <fmt/format.h>

#include <cstring>
#include <map>
#include <optional>

#include "base/check.h"
#include "base/text/cut_text.h"
#include "huggingface/weights/model_weights.h"

namespace tidepool {
namespace {

// A joined tensor holds tensors [first, first + count) of each expert, in window order.
struct Joined {
  std::string_view suffix;
  u32 first = 0, count = 0;
  std::string_view name = {};  // in files, after the layer's; empty: "`joined`.`suffix`"

  std::string path(const ExpertTensors& names) const {
    return name.empty() ? fmt::format("{}.{}", names.joined, suffix) : std::string(name);
  }
};

std::vector<Joined> joined_of(const ExpertTensors& names) {
  if (!names.has_gate()) return {{"up_proj", 0, 1}, {"down_proj", 1, 1}};
  if (!names.single.empty())
    return {{"gate_up_proj", 0, 2, names.joined_gate_up}, {"down_proj", 2, 1, names.joined_down}};
  if (!names.biases) return {{"gate_up_proj", 0, 1}, {"down_proj", 1, 1}};
  return {{"gate_up_proj", 0, 1}, {"gate_up_proj_bias", 1, 1}, {"down_proj", 2, 1}, {"down_proj_bias", 3, 1}};
}

// Windows of the groups of a layer's experts, or of their adapters.
struct LayerWindows {
  std::vector<u32> windows;
  u32 layer = 0;
  bool adapters = false;
};
// By the first of the windows.
using ExpertWindows = std::map<u32, LayerWindows>;
ExpertWindows expert_windows(const ModelGraph& graph) {
  ExpertWindows out;
  u32 layer = none;
  std::vector<u32> first;
  for (const Block& block : graph.blocks) {
    if (block.kind != BlockKind::experts) continue;
    if (block.layer != layer) layer = block.layer, first = block.windows;
    for (u32 i = 0; i < block.windows.size(); ++i) {
      LayerWindows& windows = out[first[i]];
      windows.windows.push_back(block.windows[i]);
      windows.layer = layer, windows.adapters = i > 0;
    }
  }
  return out;
}

class FileTensorList {
 public:
  explicit FileTensorList(const ModelGraph& graph) : graph_(graph) {}

  void add_window(u32 w) {
    for (u32 t = 0; t < graph_.windows[w].tensors.size(); ++t) {
      const Tensor& tensor = graph_.windows[w].tensors[t];
      out_.push_back({.name = tensor.name, .shape = tensor.shape, .parts = {{w, t}}});
    }
  }

  // The names of the router's tensors differ too.
  void add_window_beside_joined(u32 w) {
    const ExpertTensors& names = traits(graph_.config.family).experts->tensors;
    const u64 begin = out_.size();
    add_window(w);
    const auto rename = [&](std::string_view single, std::string_view joined) {
      for (u64 i = begin; i < out_.size() && !joined.empty(); ++i)
        if (out_[i].name.ends_with(single))
          out_[i].name.replace(out_[i].name.size() - single.size(), single.size(), joined);
    };
    rename(names.router, names.joined_router);
    rename(names.correction_bias, names.joined_correction_bias);
  }

  void add_joined(const std::vector<u32>& windows) {
    const ExpertTensors& names = traits(graph_.config.family).experts->tensors;
    const std::vector<Joined> joined = joined_of(names);
    const u32 per_expert = joined.back().first + joined.back().count;
    const std::string& first =
        graph_.windows[windows[0]].tensors[0].name;  // "model.layers.3.mlp.experts.0..."
    const std::string_view own = names.single.empty() ? names.joined : names.single;
    const std::string layer = first.substr(0, first.find(own));
    for (const Joined& j : joined) {
      FileTensor file{.name = layer + j.path(names)};
      u64 experts = 0;
      for (const u32 w : windows) {
        const u32 tensors = static_cast<u32>(graph_.windows[w].tensors.size());
        CHECK(tensors % per_expert == 0, w, tensors);
        experts += tensors / per_expert;
        for (u32 expert = 0; expert < tensors; expert += per_expert)
          for (u32 i = 0; i < j.count; ++i) file.parts.push_back({w, expert + j.first + i});
      }
      file.shape = graph_.windows[windows[0]].tensors[j.first].shape;
      file.shape[0] *= j.count;
      file.shape.insert(file.shape.begin(), experts);
      out_.push_back(std::move(file));
    }
  }

  // `layer`: of experts with adapters of parameters.
  void add_joined_adapters(const LayerWindows& layer) {
    const ExpertAdapters& adapters = graph_.adapters[layer.layer].experts;
    const std::string path =
        fmt::format("base_model.model.{}.{}.", style(graph_.config.family).layers_path, layer.layer);
    for (u32 a = 0; a < adapters.count; ++a) {
      const ExpertAdapter& adapter = adapters.of[a];
      const u64 ranks = u64{adapter.r} * graph_.config.experts.count;
      FileTensor file_a{.name = fmt::format("{}{}.lora_A.weight", path, adapter.in_file),
                        .shape = {ranks, adapter.in}};
      FileTensor file_b{.name = fmt::format("{}{}.lora_B.weight", path, adapter.in_file),
                        .shape = {adapter.out, ranks},
                        .interleaved = true};
      for (const u32 w : layer.windows)
        for (u32 expert = 0; expert < graph_.windows[w].tensors.size(); expert += 2 * adapters.count) {
          file_a.parts.push_back({w, expert + 2 * a});
          file_b.parts.push_back({w, expert + 2 * a + 1});
        }
      out_.push_back(std::move(file_a));
      out_.push_back(std::move(file_b));
    }
  }

  std::vector<FileTensor> take() { return std::move(out_); }

 private:
  const ModelGraph& graph_;
  std::vector<FileTensor> out_;
};

// An expert's tensor by its name in a file.
struct ExpertTensorName {
  ExpertForm form{};
  u32 expert = 0;  // single only
};
std::optional<ExpertTensorName> parse_name(std::string_view name, const ModelConfig& c) {
  const ExpertTensors& names = traits(c.family).experts->tensors;
  if (!take_prefix(name, style(c.family).tensors_path) || !take_prefix(name, ".")) return std::nullopt;
  const std::optional<u32> layer = take_number(name);
  if (!layer || *layer >= c.layers || !c.has_experts(*layer)) return std::nullopt;
  for (const Joined& j : joined_of(names))
    if (name == j.path(names)) return ExpertTensorName{.form = ExpertForm::joined};
  if (!names.has_single_files() || !take_prefix(name, names.single) || !take_prefix(name, "."))
    return std::nullopt;
  const std::optional<u32> expert = take_number(name);
  if (!expert) return std::nullopt;
  return ExpertTensorName{.form = ExpertForm::single, .expert = *expert};
}

std::string_view what_holds(ExpertForm form) {
  return form == ExpertForm::joined ? "all experts of a layer" : "one expert";
}

}  // namespace

ExpertForm form_of_files(const ModelConfig& c) {
  if (c.experts.count == 0) return ExpertForm::single;
  const bool only_joined = !traits(c.family).experts->tensors.has_single_files();
  return only_joined || c.experts.joined_files ? ExpertForm::joined : ExpertForm::single;
}

ExpertForm form_of_files(const ModelGraph& graph) {
  if (!graph.lora.on()) return form_of_files(graph.config);
  for (const LayerAdapters& layer : graph.adapters)
    if (layer.experts.form == AdapterForm::joined) return ExpertForm::joined;
  return ExpertForm::single;
}

std::vector<FileTensor> file_tensors(const ModelGraph& graph, ExpertForm form) {
  FileTensorList list(graph);
  if (form == ExpertForm::single || graph.config.experts.count == 0) {
    for (u32 w = 0; w < graph.windows.size(); ++w) list.add_window(w);
    return list.take();
  }
  const ExpertWindows layers = expert_windows(graph);
  for (u32 w = 0; w < graph.windows.size(); ++w) {
    const auto layer = layers.find(w);
    if (layer == layers.end()) {
      list.add_window_beside_joined(w);
      continue;
    }
    const LayerWindows& windows = layer->second;
    if (!windows.adapters)
      list.add_joined(windows.windows);
    else if (graph.adapters[windows.layer].experts.form == AdapterForm::joined)
      list.add_joined_adapters(windows);
    else
      for (const u32 adapters : windows.windows) list.add_window(adapters);
    w += static_cast<u32>(windows.windows.size()) - 1;
  }
  return list.take();
}

void take_part(const FileTensor& tensor, u64 part, u64 element_bytes, std::span<const std::byte> file,
               std::span<std::byte> out) {
  const u64 step = tensor.parts.size() * element_bytes;
  CHECK(out.size() * tensor.parts.size() == file.size(), out.size(), file.size());
  const std::byte* from = file.data() + part * element_bytes;
  for (u64 at = 0; at < out.size(); at += element_bytes, from += step)
    std::memcpy(out.data() + at, from, element_bytes);
}

void put_part(const FileTensor& tensor, u64 part, u64 element_bytes, std::span<const std::byte> in,
              std::span<std::byte> file) {
  const u64 step = tensor.parts.size() * element_bytes;
  CHECK(in.size() * tensor.parts.size() == file.size(), in.size(), file.size());
  std::byte* to = file.data() + part * element_bytes;
  for (u64 at = 0; at < in.size(); at += element_bytes, to += step)
    std::memcpy(to, in.data() + at, element_bytes);
}

Result<std::vector<std::byte>> InterleavedParts::read(const SafetensorsModel::Location& at,
                                                      const FileTensor& file, u64 part) {
  Held* held = nullptr;
  for (Held& one : held_)
    if (one.tensor == at.tensor) held = &one;
  if (held == nullptr) {
    held = &held_[next_];
    next_ = 1 - next_;
    held->tensor = nullptr;
    held->bytes.resize(at.tensor->bytes());
    TRY(at.file->read(*at.tensor, 0, held->bytes));
    held->tensor = at.tensor;
  }
  std::vector<std::byte> out(held->bytes.size() / file.parts.size());
  take_part(file, part, dtype_bytes(at.tensor->dtype), held->bytes, out);
  return out;
}

Result<ExpertForm> find_expert_form(const SafetensorsModel& model, const ModelConfig& c) {
  if (c.experts.count == 0) return form_of_files(c);
  SafetensorsModel::Location first;
  ExpertForm form = form_of_files(c);
  for (const auto& file : model.files())
    for (const StoredTensor& t : file->tensors()) {
      const std::optional<ExpertTensorName> name = parse_name(t.name, c);
      if (!name) continue;
      if (name->form == ExpertForm::single && name->expert >= c.experts.count)
        return Error{ErrorKind::bad_input,
                     fmt::format("{}: tensor {} is of expert {}, but {} in config.json is {}; correct it, or "
                                 "remove the tensor",
                                 file->path(), t.name, name->expert, traits(c.family).experts->count_key,
                                 c.experts.count)};
      if (first && name->form != form)
        return Error{
            ErrorKind::bad_input,
            fmt::format("{}: tensor {} holds {}, but {} holds {}: a model has its experts in one of "
                        "these forms; remove the tensors of the other",
                        file->path(), t.name, what_holds(name->form), first.tensor->name, what_holds(form))};
      if (!first) first = {file.get(), &t};
      form = name->form;
    }
  return form;
}

bool has_joined_experts(const std::string& directory, const ModelConfig& c) {
  if (c.experts.count == 0 || !traits(c.family).experts->tensors.has_single_files()) return false;
  const auto model = open_model_weights(directory, c);
  if (!model) return false;
  const Result<ExpertForm> form = find_expert_form(**model, c);
  return form && *form == ExpertForm::joined;
}

}  // namespace tidepool
