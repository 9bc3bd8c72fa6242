#include "inference/model_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "base/text/path_text.h"
#include "checkpoint/manifest.h"
#include "config_files/load_config.h"
#include "huggingface/directory/hf_config.h"
#include "huggingface/weights/convert.h"
#include "huggingface/weights/safetensors.h"
#include "run/weights/first_weights.h"

namespace tidepool {
namespace {

// RETURNS: the precision that holds all weights without rounding.
Result<Precision> precision_of_tensors(const std::string& directory) {
  TRY_ASSIGN(const auto model, SafetensorsModel::open(directory, ErrorKind::bad_input));
  std::set<Dtype> dtypes;
  for (const auto& file : model->files())
    for (const StoredTensor& tensor : file->tensors())
      if (is_float_weight(tensor.dtype)) dtypes.insert(tensor.dtype);
  if (dtypes == std::set{Dtype::bf16}) return Precision::bf16;
  return dtypes == std::set{Dtype::f16} ? Precision::fp16 : Precision::fp32;
}

Result<Precision> precision_of_directory(const std::string& directory) {
  TRY_ASSIGN(const std::optional<Precision> said, hf_precision(directory));
  return said ? *said : precision_of_tensors(directory);
}

}  // namespace

bool is_model_directory(const std::string& path) {
  return is_named(path + "/" + model_config_file) && !has_manifest(path);
}

Result<Config> config_of_model_directory(const std::string& directory, std::string_view what,
                                         std::vector<std::string> overrides) {
  TRY(check_weights_are_there({.model_directory = directory}));
  TRY_ASSIGN(const Precision precision, precision_of_directory(directory));
  TRY_ASSIGN(const ModelConfig model, read_model_directory(directory));
  const u32 length = std::min(Config{}.train.sequence_length, model.positions);
  // First, so that the command line's overrides win.
  overrides.insert(overrides.begin(),
                   {"model=" + directory, fmt::format("train.precision={}", name(precision)),
                    fmt::format("train.sequence_length={}", length)});
  return parse_config("", what, overrides);
}

}  // namespace tidepool
