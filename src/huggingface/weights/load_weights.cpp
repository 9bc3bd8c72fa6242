// Loads weights from a Hugging Face model directory into the state, tensor by tensor.
#include "huggingface/weights/load_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/check.h"
#include "huggingface/weights/adapter_files.h"
#include "huggingface/weights/safetensors.h"
#include "huggingface/weights/tensor_hashes.h"
#include "huggingface/weights/weight_reader.h"

namespace tidepool {
namespace {

constexpr std::string_view old_prefix = "transformer.";

SafetensorsModel::Location find_tensor(const SafetensorsModel& model, const std::string& name) {
  if (const auto at = model.find(name)) return at;
  return model.find(std::string(old_prefix) + name);
}

// True for a tensor that older files have beside the model's own, and that holds no new information.
bool is_known_extra(Family family, std::string_view name) {
  return std::ranges::any_of(style(family).extra_tensors, [&](std::string_view extra) {
    return !extra.empty() && (extra.starts_with('.') ? name.ends_with(extra) : name == extra);
  });
}

Result<SafetensorsModel::Location> locate(const SafetensorsModel& model, const std::string& directory,
                                          const Tensor& t) {
  const auto at = find_tensor(model, t.name);
  if (!at) {
    const std::string where = model.files().size() == 1 ? model.files()[0]->path() : directory;
    return Error{ErrorKind::bad_input,
                 fmt::format("{}: has no tensor {} (expected {})", where, t.name, shape_text(t.shape))};
  }
  if (at.tensor->shape != t.shape) {
    return Error{ErrorKind::bad_input,
                 fmt::format("{}: tensor {} is {}, but the model's config needs {}", at.file->path(), t.name,
                             shape_text(at.tensor->shape), shape_text(t.shape))};
  }
  const Dtype dtype = at.tensor->dtype;
  if (dtype != Dtype::f32 && dtype != Dtype::bf16 && dtype != Dtype::f16) {
    return Error{ErrorKind::bad_input,
                 fmt::format("{}: tensor {} is {}, but weights must be F32, BF16 or F16", at.file->path(),
                             t.name, name(dtype))};
  }
  return at;
}

std::vector<std::string> unused_tensors(const SafetensorsModel& model, const ModelGraph& graph,
                                        bool adapters) {
  std::vector<std::string> wanted, unused;
  for (const Window& w : graph.windows) {
    if (w.adapter != adapters) continue;
    for (const Tensor& t : w.tensors) wanted.push_back(t.name);
  }
  std::sort(wanted.begin(), wanted.end());
  for (const auto& file : model.files()) {
    for (const StoredTensor& t : file->tensors()) {
      std::string_view name = t.name;
      if (name.starts_with(old_prefix)) name.remove_prefix(old_prefix.size());
      if (!is_known_extra(graph.config.family, name) &&
          !std::binary_search(wanted.begin(), wanted.end(), name))
        unused.push_back(t.name);
    }
  }
  return unused;
}

// If config.json ties head and embedding, a head in the file must equal the embedding: else the file belongs
// to another model.
Result<void> check_tied_head(const SafetensorsModel& model, const ModelGraph& graph) {
  constexpr const char* head_name = "lm_head.weight";
  std::string embedding_name;
  for (const Window& w : graph.windows)
    for (const Tensor& t : w.tensors) {
      if (t.name == head_name) return {};
      if (t.name.ends_with("embed_tokens.weight") || t.name == "wte.weight") embedding_name = t.name;
    }
  const SafetensorsModel::Location head = model.find(head_name),
                                   embedding = find_tensor(model, embedding_name);
  if (!head || !embedding) return {};
  bool same = head.tensor->shape == embedding.tensor->shape && head.tensor->dtype == embedding.tensor->dtype;
  std::vector<std::byte> one(mib), other(mib);
  for (u64 at = 0; same && at < head.tensor->bytes(); at += one.size()) {
    const u64 bytes = std::min<u64>(one.size(), head.tensor->bytes() - at);
    TRY(head.file->read(*head.tensor, at, std::span(one).first(bytes)));
    TRY(embedding.file->read(*embedding.tensor, at, std::span(other).first(bytes)));
    same = std::equal(one.begin(), one.begin() + i64(bytes), other.begin());
  }
  if (same) return {};
  return Error{ErrorKind::bad_input, fmt::format("{}: tensor {} differs from {}, but config.json ties the "
                                                 "two; set tie_word_embeddings to false there "
                                                 "to keep both, or remove the tensor",
                                                 head.file->path(), head_name, embedding_name)};
}

// Hash of all tensors. Loaded tensors were hashed while they were read; the others are read from the file
// now.
Result<std::string> hash_of_all(const SafetensorsModel& model, const std::vector<WeightSource>& sources,
                                std::map<u32, TensorHash>& hashes) {
  TensorHashes all;
  for (u32 s = 0; s < sources.size(); ++s) all.add(*sources[s].at.tensor, hashes[s].digest());
  for (const auto& file : model.files())
    for (const StoredTensor& t : file->tensors()) {
      if (all.has(t.name)) continue;
      TRY_ASSIGN(const u64 hash, hash_of_tensor(*file, t));
      all.add(t, hash);
    }
  return all.text();
}

}  // namespace

Result<void> check_all_tensors(const std::string& directory, const ModelGraph& graph) {
  TRY_ASSIGN(const auto model, SafetensorsModel::open(directory, ErrorKind::bad_input));
  for (const Window& window : graph.windows)
    for (const Tensor& t : window.tensors)
      if (!window.adapter) TRY(locate(*model, directory, t));
  return {};
}

Result<std::vector<std::string>> load_weights(const std::string& directory, const ModelGraph& graph,
                                              StateWriter& writer, WeightsOf which, std::string* xxh3) {
  const bool adapters = which == WeightsOf::adapters;
  TRY_ASSIGN(const auto model, SafetensorsModel::open(directory, ErrorKind::bad_input,
                                                      adapters ? adapter_weights_file : "model.safetensors"));
  if (!adapters) TRY(check_tied_head(*model, graph));
  std::vector<WeightSource> sources;
  for (u32 w = 0; w < graph.windows.size(); ++w) {
    if (graph.windows[w].adapter != adapters) continue;
    for (const Tensor& t : graph.windows[w].tensors) {
      TRY_ASSIGN(const SafetensorsModel::Location at, locate(*model, directory, t));
      sources.push_back({.at = at, .window = w, .window_offset = t.window_offset});
    }
  }
  const Kind master = graph.precision == Precision::fp16 ? Kind::master : Kind::master_low;
  TRY_ASSIGN(const auto reader, WeightReader::create(sources, graph.precision));
  std::map<u32, TensorHash> hashes;  // by index of source
  while (true) {
    TRY_ASSIGN(const WeightPiece* piece, reader->next());
    if (piece == nullptr) break;
    hashes[piece->source].add_part(piece->xxh3);
    TRY(writer.write(piece->window, Kind::param, piece->begin, piece->param));
    if (!piece->master.empty()) TRY(writer.write(piece->window, master, piece->begin, piece->master));
  }
  TRY(writer.finish());
  if (xxh3 != nullptr) {
    TRY_ASSIGN(*xxh3, hash_of_all(*model, sources, hashes));
  }
  return unused_tensors(*model, graph, adapters);
}

}  // namespace tidepool
