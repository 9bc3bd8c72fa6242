// Loads weights from a Hugging Face model directory into the state, tensor by tensor.
#include "huggingface/weights/load_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/check.h"
#include "huggingface/weights/adapter_files.h"
#include "huggingface/weights/convert.h"
#include "huggingface/weights/expert_files.h"
#include "huggingface/weights/interleaved_load.h"
#include "huggingface/weights/model_weights.h"
#include "huggingface/weights/packed_sources.h"
#include "huggingface/weights/safetensors.h"
#include "huggingface/weights/tensor_hashes.h"
#include "huggingface/weights/weight_reader.h"

namespace tidepool {
namespace {

constexpr std::string_view old_prefix = "transformer.";
constexpr u64 packed_piece_bytes = 4 * mib;

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
                                          const FileTensor& t) {
  const auto at = find_tensor(model, t.name);
  if (!at) {
    const std::string where = model.files().size() == 1 ? model.files()[0]->path() : directory;
    return Error{ErrorKind::bad_input,
                 fmt::format("{}: has no tensor {} (expected {}){}", where, t.name, shape_text(t.shape),
                             t.name == head_tensor ? ": save the model with its head, as "
                                                     "AutoModelForCausalLM does"
                             : t.name == score_tensor
                                 ? ": it is no classifier; train one with "
                                   "objective.type=sequence_classification, token_classification or reward"
                                 : "")};
  }
  if (at.tensor->shape != t.shape) {
    return Error{ErrorKind::bad_input,
                 fmt::format("{}: tensor {} is {}, but the model's config needs {}", at.file->path(),
                             at.tensor->name_in_file(), shape_text(at.tensor->shape), shape_text(t.shape))};
  }
  const Dtype dtype = at.tensor->dtype;
  if (!is_float_weight(dtype)) {
    return Error{ErrorKind::bad_input,
                 fmt::format("{}: tensor {} is {}, but weights must be F32, BF16, F16 or F64{}",
                             at.file->path(), at.tensor->name_in_file(), name(dtype),
                             dtype_bytes(dtype) == 1 ? "; if they are quantized, config.json lacks the key "
                                                       "quantization_config"
                                                     : "")};
  }
  return at;
}

std::vector<std::string> unused_tensors(const SafetensorsModel& model, const ModelGraph& graph,
                                        const std::vector<FileTensor>& used) {
  std::vector<std::string> wanted, unused;
  for (const FileTensor& t : used)
    for (std::string& name : packed_names(t.name, packing_of(graph, t))) wanted.push_back(std::move(name));
  std::sort(wanted.begin(), wanted.end());
  for (const auto& file : model.files()) {
    for (const StoredTensor& t : file->tensors()) {
      std::string_view name = t.name;
      if (name.starts_with(old_prefix)) name.remove_prefix(old_prefix.size());
      if (!is_known_extra(graph.config.family, name) &&
          !std::binary_search(wanted.begin(), wanted.end(), name))
        unused.push_back(t.name_in_file());
    }
  }
  return unused;
}

// Tensors of the directory's files that hold the model, or its adapters. Finds their form from the files.
Result<std::vector<FileTensor>> wanted_tensors(const SafetensorsModel& model, const ModelGraph& graph,
                                               WeightsOf which) {
  const bool adapters = which == WeightsOf::adapters;
  ExpertForm form = form_of_files(graph);
  if (!adapters) {
    TRY_ASSIGN(form, find_expert_form(model, graph.config));
  }
  std::vector<FileTensor> all = file_tensors(graph, form);
  std::erase_if(all, [&](const FileTensor& t) {
    return graph.windows[t.parts[0].window].adapter != adapters ||
           (which == WeightsOf::without_score && is_score(t.name));
  });
  return all;
}

// The tensors of windows and their places in files, in the order of windows.
struct Sources {
  std::vector<WeightSource> plain;
  std::vector<PackedPlace> packed;
};
Result<Sources> sources_of(const SafetensorsModel& model, const std::string& directory,
                           const ModelGraph& graph, const std::vector<FileTensor>& files) {
  Sources sources;
  for (const FileTensor& file : files) {
    if (packing_of(graph, file) != Packing::none) {
      TRY_ASSIGN(std::vector<PackedPlace> places, find_places(model, graph, file));
      std::ranges::move(places, std::back_inserter(sources.packed));
      continue;
    }
    TRY_ASSIGN(const SafetensorsModel::Location at, locate(model, directory, file));
    u64 begin = 0;
    for (const FileTensor::Part& part : file.parts) {
      const Tensor& t = graph.windows[part.window].tensors[part.tensor];
      sources.plain.push_back({.at = at,
                               .begin = begin,
                               .elements = t.elements,
                               .window = part.window,
                               .window_offset = t.stored_offset});
      begin += t.elements;
    }
  }
  std::ranges::sort(sources.plain, {},
                    [](const WeightSource& s) { return std::pair(s.window, s.window_offset); });
  std::ranges::sort(sources.packed, {},
                    [](const PackedPlace& p) { return std::pair(p.window, p.stored_offset); });
  return sources;
}

Result<void> load_joined_adapters(const SafetensorsModel& model, const std::string& directory,
                                  const ModelGraph& graph, const std::vector<FileTensor>& files,
                                  StateWriter& writer) {
  std::vector<PartSource> sources;
  for (const FileTensor& file : files) {
    TRY_ASSIGN(const SafetensorsModel::Location at, locate(model, directory, file));
    u64 begin = 0, number = 0;
    for (const FileTensor::Part& part : file.parts) {
      sources.push_back({.at = at, .file = &file, .number = number++, .begin = begin, .part = part});
      begin += graph.windows[part.window].tensors[part.tensor].elements;
    }
  }
  std::ranges::sort(sources, {}, [](const PartSource& s) { return std::pair(s.part.window, s.part.tensor); });
  return load_interleaved(sources, graph, writer);
}

// RETURNS: true if two tensors have the same shape and, as floats, the same values.
Result<bool> have_equal_values(const SafetensorsModel::Location& a, const SafetensorsModel::Location& b) {
  if (a.tensor->shape != b.tensor->shape) return false;
  if (!is_float_weight(a.tensor->dtype) || !is_float_weight(b.tensor->dtype)) return false;
  constexpr u64 most = 128 * kib;  // elements
  std::vector<std::byte> bytes(most * sizeof(double));
  std::vector<float> values[2] = {std::vector<float>(most), std::vector<float>(most)};
  const u64 elements = a.tensor->bytes() / dtype_bytes(a.tensor->dtype);
  for (u64 begin = 0; begin < elements; begin += most) {
    const u64 n = std::min(most, elements - begin);
    for (u32 i = 0; i < 2; ++i) {
      const auto& [file, tensor] = i == 0 ? a : b;
      const u64 size = dtype_bytes(tensor->dtype);
      TRY(file->read(*tensor, begin * size, std::span(bytes).first(n * size)));
      to_floats(tensor->dtype, std::span(bytes).first(n * size), std::span(values[i]).first(n));
    }
    if (!std::equal(values[0].begin(), values[0].begin() + i64(n), values[1].begin())) return false;
  }
  return true;
}

// If config.json ties head and embedding, a head in the file must equal the embedding. transformers does not
// tie them else, so the file holds another model than config.json describes.
Result<void> check_tied_head(const SafetensorsModel& model, const ModelConfig& c) {
  if (!c.tied && !style(c.family).always_tied) return {};
  const SafetensorsModel::Location head = model.find(head_tensor),
                                   embedding = find_embedding(model, c.family);
  if (!head || !embedding) return {};
  TRY_ASSIGN(const bool same, have_equal_values(head, embedding));
  if (same) return {};
  return Error{
      ErrorKind::bad_input,
      fmt::format("{}: tensor {} differs from {}, but config.json ties the two. transformers does not "
                  "tie such tensors: {}",
                  head.file->path(), head.tensor->name_in_file(), embedding.tensor->name_in_file(),
                  style(c.family).always_tied
                      ? fmt::format("{} models with a head of their own are not trained here", name(c.family))
                      : "set tie_word_embeddings to false in config.json, for the model that it loads")};
}

// Hash of all tensors. Loaded tensors were hashed while they were read; the others are read from the file
// now.
Result<std::string> hash_of_all(const SafetensorsModel& model, LoadedHashes& hashes) {
  TensorHashes all;
  for (auto& [tensor, hash] : hashes) all.add(*tensor, hash.digest());
  for (const auto& file : model.files())
    for (const StoredTensor& t : file->tensors()) {
      if (all.has(t.name)) continue;
      TRY_ASSIGN(const u64 hash, hash_of_tensor(*file, t));
      all.add(t, hash);
    }
  return all.text();
}

// Writes all sources, in the order of windows.
Result<void> load_sources(const Sources& sources, const StateSlots& slots, StateWriter& writer,
                          LoadedHashes& hashes) {
  const Precision precision = slots.precision();
  std::vector<std::byte> buffer(sources.packed.empty() ? 0 : packed_piece_bytes);
  u64 written = 0;
  // The packed tensors before this place.
  const auto load_packed_before = [&](u32 window, u64 offset) -> Result<void> {
    for (; written < sources.packed.size(); ++written) {
      const PackedPlace& place = sources.packed[written];
      if (std::pair(place.window, place.stored_offset) > std::pair(window, offset)) break;
      TRY(load_packed(place, precision, writer, buffer, hashes));
    }
    return {};
  };
  TRY_ASSIGN(const auto reader, WeightReader::create(sources.plain, precision));
  while (true) {
    TRY_ASSIGN(const WeightPiece* piece, reader->next());
    if (piece == nullptr) break;
    TRY(load_packed_before(piece->window, piece->begin));
    TensorHash& hash = hashes[sources.plain[piece->source].at.tensor];
    piece->unhashed.empty() ? hash.add_part(piece->xxh3) : hash.update(piece->unhashed);
    TRY(writer.write(piece->window, Kind::param, piece->begin, piece->param));
    if (!piece->master.empty()) TRY(writer.write(piece->window, slots.master(), piece->begin, piece->master));
  }
  return load_packed_before(none, 0);
}

}  // namespace

Result<bool> has_score_head(const std::string& directory, const ModelConfig& config) {
  TRY_ASSIGN(const auto model, open_model_weights(directory, config));
  return static_cast<bool>(model->find(std::string(score_tensor)));
}

Result<void> check_all_tensors(const std::string& directory, const ModelGraph& graph) {
  TRY_ASSIGN(const auto model, open_model_weights(directory, graph.config));
  TRY_ASSIGN(const std::vector<FileTensor> wanted, wanted_tensors(*model, graph, WeightsOf::model));
  const Result<Sources> sources = sources_of(*model, directory, graph, wanted);
  if (!sources) return sources.error();
  return {};
}

Result<std::vector<std::string>> load_weights(const std::string& directory, const ModelGraph& graph,
                                              StateWriter& writer, WeightsOf which, std::string* xxh3) {
  const bool adapters = which == WeightsOf::adapters;
  TRY_ASSIGN(const auto model,
             adapters ? SafetensorsModel::open(directory, ErrorKind::bad_input, adapter_weights_file)
                      : open_model_weights(directory, graph.config));
  if (!adapters) TRY(check_tied_head(*model, graph.config));
  TRY_ASSIGN(const std::vector<FileTensor> wanted, wanted_tensors(*model, graph, which));
  if (adapters && form_of_files(graph) == ExpertForm::joined) {
    TRY(load_joined_adapters(*model, directory, graph, wanted, writer));
    TRY(writer.finish());
    return unused_tensors(*model, graph, wanted);
  }
  TRY_ASSIGN(const Sources sources, sources_of(*model, directory, graph, wanted));
  LoadedHashes hashes;
  TRY(load_sources(sources, graph.state_slots, writer, hashes));
  TRY(writer.finish());
  if (xxh3 != nullptr) {
    TRY_ASSIGN(*xxh3, hash_of_all(*model, hashes));
  }
  return unused_tensors(*model, graph, wanted);
}

}  // namespace tidepool
