#include "checkpoint/check_named.h"

#include <fmt/format.h>

#include <filesystem>

#include "checkpoint/checkpoint.h"
#include "huggingface/weights/adapter_files.h"
#include "huggingface/weights/shards.h"

namespace tidepool {
namespace {

namespace fs = std::filesystem;

// RETURNS: text such as "; runs/a has checkpoint-100 and checkpoint-200", or nothing.
std::string neighbours(const fs::path& dir) {
  const Result<std::vector<u64>> steps = checkpoint_steps(dir.string());
  if (!steps || steps->empty()) return "";
  std::string list;
  for (const u64 step : *steps)
    list += fmt::format("{}checkpoint-{}", list.empty() ? "" : step == steps->back() ? " and " : ", ", step);
  return fmt::format("; {} has {}", dir.string(), list);
}

}  // namespace

Result<void> check_named(const std::string& path) {
  std::error_code unused;
  const fs::path clean = fs::path(path).has_filename() ? fs::path(path) : fs::path(path).parent_path();
  const fs::path parent = clean.has_parent_path() ? clean.parent_path() : fs::path(".");
  if (!fs::exists(clean, unused))
    return Error{ErrorKind::usage,
                 fmt::format("there is no checkpoint {}{}", path,
                             path.find('=') != path.npos ? "; write --resume auto before a key=value"
                                                         : neighbours(parent))};
  if (!fs::is_directory(clean, unused))
    return Error{ErrorKind::usage, fmt::format("{} is a file: name the directory of a checkpoint", path)};
  for (const char* file :
       {"manifest.json", weights_file, weights_index_file, adapter_weights_file, "optimizer.safetensors"})
    if (fs::exists(clean / file, unused)) return {};
  if (clean.filename().string().starts_with("checkpoint-")) return {};
  return Error{ErrorKind::usage,
               fmt::format("{} is not a checkpoint: name a checkpoint-N{}", path, neighbours(clean))};
}

}  // namespace tidepool
