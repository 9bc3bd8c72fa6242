#include "huggingface/weights/other_weights.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/text/path_text.h"
#include "huggingface/weights/shards.h"

namespace tidepool {
namespace {

namespace fs = std::filesystem;

bool has(const std::string& directory, const char* file) { return is_named(directory + "/" + file); }

// First shard by name; empty: there is none.
std::string first_shard(const std::string& directory) {
  std::error_code unused;
  std::string first;
  for (const auto& entry : fs::directory_iterator(directory, unused)) {
    const std::string name = entry.path().filename().string();
    if (is_weights_file(name) && (first.empty() || name < first)) first = name;
  }
  return first;
}

}  // namespace

bool has_weights(const std::string& directory) {
  return has(directory, weights_file) || has(directory, weights_index_file);
}

std::string other_weights(const std::string& directory) {
  if (has_weights(directory)) return "";
  if (const std::string shard = first_shard(directory); !shard.empty())
    return fmt::format(
        "{}: its weights are in several files, such as {}, and {}, which lists their tensors, is "
        "missing: fetch the index from where the weights came from",
        directory, shard, weights_index_file);
  if (has(directory, "pytorch_model.bin") || has(directory, "pytorch_model.bin.index.json"))
    return fmt::format(
        "{}: its weights are in pytorch_model.bin, a format that can run programs and is not read; "
        "write them as safetensors with transformers, save_pretrained(DIR)",
        directory);
  return "";
}

}  // namespace tidepool
