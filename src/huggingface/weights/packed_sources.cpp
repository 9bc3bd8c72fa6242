// Places of packed tensors are found by their names in files. Codes are hashed while they are loaded.
#include "huggingface/weights/packed_sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/check.h"
#include "base/text/cut_text.h"
#include "huggingface/weights/convert.h"
#include "huggingface/weights/model_weights.h"

namespace tidepool {
namespace {

const Tensor& tensor_of(const ModelGraph& graph, const FileTensor::Part& part) {
  return graph.windows[part.window].tensors[part.tensor];
}

std::string words(const PackedMatrix& m) {
  switch (m.packing) {
    case Packing::nf4:
      return fmt::format("nf4 with blocks of {}", m.block);
    case Packing::nf4_double:
      return fmt::format("nf4, double quantized, with blocks of {} and {}", m.block, m.nested_block);
    default:
      return std::string(name(m.packing));
  }
}

Error other_format(const SafetensorsModel::Location& at, const PackedMatrix& is, const PackedMatrix& wanted) {
  const std::string found = is.packing == Packing::none ? std::string(name(at.tensor->dtype)) : words(is);
  return bad_input(
      fmt::format("{}: tensor {} is {}, but config.json's quantization_config says {}: correct the key, or "
                  "copy all files "
                  "of the model again",
                  at.file->path(), at.tensor->name, found, words(wanted)));
}

// Replaces numbers between dots by `*`.
std::string without_numbers(std::string_view name) {
  std::string out;
  while (true) {
    const u64 dot = name.find('.');
    const std::string_view segment = name.substr(0, dot);
    const bool number =
        !segment.empty() && std::ranges::all_of(segment, [](char c) { return c >= '0' && c <= '9'; });
    out += number ? "*" : segment;
    if (dot == name.npos) return out;
    out += '.';
    name.remove_prefix(dot + 1);
  }
}

// Module of a tensor with matrices; none for other tensors.
struct MatrixModule {
  std::string name;
  bool packed = false;
};
std::optional<MatrixModule> module_of(const StoredTensor& t) {
  const bool joined = t.shape.size() == 3 || t.name.ends_with("_blocks");
  if (t.name.ends_with("_scale_inv") || t.name.ends_with("_scales")) return std::nullopt;
  if (t.shape.size() != 2 && !joined) return std::nullopt;
  const std::string_view name = t.name;
  return MatrixModule{.name = joined ? std::string(name.substr(0, name.rfind('.')))
                                     : std::string(without_end(name, ".weight")),
                      .packed = !is_float_weight(t.dtype)};
}

}  // namespace

Packing packing_of(const ModelGraph& graph, const FileTensor& file) {
  return tensor_of(graph, file.parts[0]).packed.packing;
}

Result<std::vector<PackedPlace>> find_places(const SafetensorsModel& model, const ModelGraph& graph,
                                             const FileTensor& file) {
  const Tensor& first = tensor_of(graph, file.parts[0]);
  const bool experts = file.shape.size() == 3;
  if (experts && file.parts.size() != file.shape[0])
    return bad_input(fmt::format(
        "{}: tensor {} holds gate and up of all experts, which is supported only for weights that are not "
        "quantized: name a model with a tensor per expert",
        model.files()[0]->path(), file.name));
  TRY_ASSIGN(PackedSource source,
             find_packed(model, {.name = file.name,
                                 .experts = experts ? static_cast<u32>(file.shape[0]) : 0,
                                 .rows = first.packed.rows,
                                 .columns = first.packed.columns,
                                 .packing = first.packed.packing,
                                 .block_rows = first.packed.block_rows,
                                 .block_columns = first.packed.block_columns}));
  if (source.matrix != first.packed) return other_format(source.codes, source.matrix, first.packed);
  if (graph.precision == Precision::fp16) source.value_max = 65504;
  std::vector<PackedPlace> places;
  for (const FileTensor::Part& part : file.parts) {
    const Tensor& t = tensor_of(graph, part);
    CHECK(t.packed == first.packed, t.name);
    places.push_back({.source = source,
                      .expert = static_cast<u32>(places.size()),
                      .window = part.window,
                      .stored_offset = t.stored_offset,
                      .bytes = Bytes{packed_bytes(t.packed)}});
  }
  return places;
}

std::vector<std::string> packed_names(const std::string& matrix, Packing packing) {
  switch (packing) {
    case Packing::none:
      return {matrix};
    case Packing::fp8_block:
      return {matrix, matrix + "_scale_inv"};
    case Packing::mxfp4:
      return {matrix + "_blocks", matrix + "_scales"};
    case Packing::nf4:
    case Packing::nf4_double: {
      std::vector<std::string> names = {matrix};
      for (const char* part :
           {".absmax", ".quant_map", ".quant_state.bitsandbytes__nf4", ".nested_absmax", ".nested_quant_map"})
        names.push_back(matrix + part);
      return names;
    }
    case Packing::int8_row: {
      const std::string module(without_end(matrix, "weight"));
      return {matrix, module + "SCB", module + "weight_format"};
    }
  }
  return {};
}

Result<void> load_packed(const PackedPlace& place, Precision precision, StateWriter& writer,
                         std::span<std::byte> buffer, LoadedHashes& hashes) {
  const u64 element = value_bytes(precision);
  const u64 codes = part_bytes(place.source.matrix, PackedPart::codes);
  for (u64 begin = 0; begin < place.bytes.value; begin += buffer.size()) {
    const std::span<std::byte> piece = buffer.first(std::min<u64>(buffer.size(), place.bytes.value - begin));
    TRY(read_packed(place.source, place.expert, begin, piece));
    if (begin < codes)
      hashes[place.source.codes.tensor].update(piece.first(std::min<u64>(piece.size(), codes - begin)));
    TRY(writer.write(place.window, Kind::param, place.stored_offset + begin / element, piece));
  }
  return {};
}

std::optional<std::vector<std::string>> unpacked_modules(const std::string& directory,
                                                         const ModelConfig& config) {
  const auto model = open_model_weights(directory, config);
  if (!model) return std::nullopt;
  std::set<std::string> packed, plain;
  for (const auto& file : (*model)->files())
    for (const StoredTensor& t : file->tensors())
      if (const std::optional<MatrixModule> module = module_of(t))
        (module->packed ? packed : plain)
            .insert(module->packed ? without_numbers(module->name) : module->name);
  // A pattern stands for modules that no layer packs.
  std::set<std::string> out;
  for (const std::string& module : plain) {
    const std::string pattern = without_numbers(module);
    out.insert(packed.contains(pattern) ? module : pattern);
  }
  return std::vector<std::string>(out.begin(), out.end());
}

}  // namespace tidepool
