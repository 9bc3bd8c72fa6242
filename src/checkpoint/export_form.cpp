#include "checkpoint/export_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <charconv>
#include <filesystem>
#include <optional>
#include <set>

#include "base/json/text.h"
#include "base/read_file.h"
#include "huggingface/directory/hf_config.h"
#include "huggingface/directory/hf_wrapper.h"
#include "huggingface/weights/convert.h"
#include "huggingface/weights/model_weights.h"
#include "huggingface/weights/shards.h"
#include "huggingface/weights/wrapped_names.h"

namespace tidepool {
namespace {

namespace fs = std::filesystem;
using Location = SafetensorsModel::Location;

// Error if config.json has no model_type, which every tool needs, such as an empty file.
Result<void> check_model_type(const std::string& text, const std::string& path) {
  TRY_ASSIGN(const boost::json::value root, parse_json(text, ErrorKind::bad_input, path));
  const boost::json::value* type = root.is_object() ? root.get_object().if_contains("model_type") : nullptr;
  if (type != nullptr && type->is_string()) return {};
  return Error{
      ErrorKind::bad_input,
      fmt::format("{}: has no model_type, so no tool could open the model: fetch the file again from "
                  "where the model came from",
                  path)};
}

Result<std::string> read_config(const std::string& directory) {
  const std::string path = directory + "/" + model_config_file;
  std::error_code unused;
  if (!fs::exists(path, unused))
    return Error{ErrorKind::usage,
                 fmt::format("{} holds no {}: name a run, a checkpoint or a model directory", directory,
                             model_config_file)};
  TRY_ASSIGN(std::string text, read_small_file(path, config_bytes_max, ErrorKind::bad_input));
  TRY(check_model_type(text, path));
  return text;
}

// Number of shards in a name: 3 for "model-00001-of-00003.safetensors".
std::optional<u64> shards_in_name(std::string_view name) {
  constexpr std::string_view of = "-of-";
  const size_t at = name.rfind(of);
  if (at == name.npos || !is_weights_file(name)) return std::nullopt;
  u64 count = 0;
  const std::string_view digits = name.substr(at + of.size());
  if (std::from_chars(digits.data(), digits.data() + digits.size(), count).ec != std::errc())
    return std::nullopt;
  return count;
}

// Checks that all shards exist. "model-00001-of-00003.safetensors" means that there are three, whatever the
// index lists.
Result<void> check_shards(const SafetensorsModel& model, const std::string& directory) {
  for (const auto& file : model.files()) {
    const std::string name = fs::path(file->path()).filename().string();
    const std::optional<u64> all = shards_in_name(name);
    if (!all || *all == model.files().size()) continue;
    return Error{
        ErrorKind::bad_input,
        fmt::format("{}/{}: names {} files, but {} says that there are {}: fetch the index again from "
                    "where the model came from",
                    directory, weights_index_file, model.files().size(), name, *all)};
  }
  return {};
}

// In the order of the files' names, and within a file in its order.
std::vector<Location> tensors_by_file(const SafetensorsModel& model) {
  std::vector<const SafetensorsFile*> files;
  for (const auto& file : model.files()) files.push_back(file.get());
  std::ranges::sort(files, {}, [](const SafetensorsFile* file) { return file->path(); });
  std::vector<Location> out;
  for (const SafetensorsFile* file : files)
    for (const StoredTensor& t : file->tensors()) out.push_back({file, &t});
  return out;
}

// The name may have GPT-2's prefix in one directory and not in the other.
Location find_trained(const SafetensorsModel& trained, const std::string& name, const ModelConfig& model) {
  constexpr std::string_view old_prefix = "transformer.";
  if (const Location at = trained.find(name)) return at;
  if (name == head_tensor && model.head_is_embedding()) return find_embedding(trained, model.family);
  if (name.starts_with(old_prefix)) return trained.find(std::string_view(name).substr(old_prefix.size()));
  return trained.find(fmt::format("{}{}", old_prefix, name));
}

}  // namespace

Result<ExportForm> ExportForm::open(const std::string& source, const std::string& base, bool text_only) {
  ExportForm out;
  TRY_ASSIGN(out.files_, carried_files(source));
  TRY_ASSIGN(out.config_, read_config(source));
  TRY(base.empty() ? out.list_own(source, text_only) : out.list_with_base(source, base));
  return out;
}

Result<void> ExportForm::list_own(const std::string& source, bool text_only) {
  const ModelWrapper* wrapper = wrapper_of(config_);
  // A model that Tidepool does not know keeps the names of its files.
  const Result<ModelConfig> known = read_model_directory(source);
  if (!known && wrapper != nullptr && text_only) return known.error();
  TRY_ASSIGN(form_, known ? open_model_weights(source, *known)
                          : SafetensorsModel::open(source, ErrorKind::bad_input));
  TRY(check_shards(*form_, source));
  const bool wrapped = known && wrapper != nullptr;
  for (const Location& at : tensors_by_file(*form_)) {
    const StoredTensor& t = *at.tensor;
    const bool beside = known && (is_of_extra_prediction(t.name) || (wrapped && !is_text_tensor(t.name)));
    tensors_.push_back({.from = at,
                        .name = wrapped && !text_only ? t.name_in_file() : t.name,
                        .dtype = t.dtype,
                        .beside = beside,
                        .dropped = beside && text_only});
  }
  if (!wrapped) return {};
  if (text_only) {
    TRY_ASSIGN(config_, text_config_of(config_, ErrorKind::bad_input, source + "/" + model_config_file));
    return {};
  }
  TRY_ASSIGN(std::vector<CarriedFile> processors, processor_files(source));
  std::ranges::move(processors, std::back_inserter(files_));
  return {};
}

Result<void> ExportForm::list_with_base(const std::string& source, const std::string& base) {
  TRY_ASSIGN(const ModelConfig now, read_model_directory(source));
  TRY_ASSIGN(const ModelConfig before, read_model_directory(base));
  if (now.family != before.family)
    return Error{
        ErrorKind::usage,
        fmt::format("--base {}: holds a {} model, but {} a {} model; name the directory that the model "
                    "began from",
                    base, name(before.family), source, name(now.family))};
  for (const auto& [directory, model] : {std::pair(&base, &before), {&source, &now}})
    if (model->quantization.packing != Packing::none)
      return Error{ErrorKind::usage,
                   fmt::format("{}: is quantized, so no tensors can be put beside its model, or carried from "
                               "it; name the model before quantization, or use --text-only",
                               *directory)};
  TRY_ASSIGN(form_, open_model_weights(base, before));
  TRY_ASSIGN(trained_, open_model_weights(source, now));
  TRY(check_shards(*form_, base));
  TRY(check_shards(*trained_, source));
  std::set<const StoredTensor*> used;
  for (const Location& there : tensors_by_file(*form_)) {
    TRY_ASSIGN(FormTensor tensor, tensor_of_base(there, now, base));
    if (!tensor.carried) used.insert(tensor.from.tensor);
    tensors_.push_back(std::move(tensor));
  }
  for (const Location& at : tensors_by_file(*trained_))
    if (!used.contains(at.tensor))
      return Error{ErrorKind::usage,
                   fmt::format("--base {}: has no tensor {} of {}: name the directory that the model began "
                               "from, or use --text-only",
                               base, at.tensor->name, source)};
  TRY(merge_configs(base, before, now, source));
  return add_files_of_base(base);
}

Result<FormTensor> ExportForm::tensor_of_base(const Location& there, const ModelConfig& model,
                                              const std::string& base) const {
  const StoredTensor& t = *there.tensor;
  FormTensor out{.from = there, .name = t.name_in_file(), .dtype = t.dtype, .beside = true, .carried = true};
  const Location at = find_trained(*trained_, t.name, model);
  if (!at) return out;
  if (at.tensor->shape != t.shape || !is_float_weight(t.dtype))
    return Error{
        ErrorKind::usage,
        fmt::format("--base {}: tensor {} is {} {}, but {} is {} {} in {}: name the directory that the "
                    "model began from, or use --text-only",
                    base, out.name, tidepool::name(t.dtype), shape_text(t.shape), at.tensor->name,
                    tidepool::name(at.tensor->dtype), shape_text(at.tensor->shape), at.file->path())};
  out.from = at;
  out.beside = out.carried = false;
  return out;
}

Result<void> ExportForm::merge_configs(const std::string& base, const ModelConfig& before,
                                       const ModelConfig& now, const std::string& source) {
  TRY_ASSIGN(const std::string whole, read_config(base));
  TRY_ASSIGN(const std::optional<Precision> precision, hf_precision(source));
  // Both are made in the same way, so only what the run changed differs.
  const Precision any = precision.value_or(Precision::bf16);
  TRY_ASSIGN(config_, with_text_changes(whole, hf_config_text(before, any, whole),
                                        hf_config_text(now, any, whole), base + "/" + model_config_file));
  return {};
}

// The tokenizer's files all come from one place, and the source's own files count.
Result<void> ExportForm::add_files_of_base(const std::string& base) {
  TRY_ASSIGN(std::vector<CarriedFile> more, carried_files(base));
  const bool has_tokenizer =
      std::ranges::any_of(files_, [](const CarriedFile& file) { return is_tokenizer_file(file.name); });
  std::erase_if(more, [&](const CarriedFile& file) {
    return is_tokenizer_file(file.name)
               ? has_tokenizer
               : std::ranges::find(files_, file.name, &CarriedFile::name) != files_.end();
  });
  TRY_ASSIGN(std::vector<CarriedFile> processors, processor_files(base));
  std::ranges::move(more, std::back_inserter(files_));
  std::ranges::move(processors, std::back_inserter(files_));
  return {};
}

}  // namespace tidepool
