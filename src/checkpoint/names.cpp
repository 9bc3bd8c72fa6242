#include "checkpoint/names.h"

#include <fmt/format.h>

#include <filesystem>

namespace tidepool {

Result<std::vector<CheckpointName>> list_checkpoints(const std::string& run_dir) {
  std::vector<CheckpointName> out;
  std::error_code error;
  std::filesystem::directory_iterator entry(run_dir, error);
  for (const std::filesystem::directory_iterator end; !error && entry != end; entry.increment(error))
    if (const auto name = parse_checkpoint_name(entry->path().filename().string())) out.push_back(*name);
  if (!error || error == std::errc::no_such_file_or_directory) return out;
  return Error{ErrorKind::io, fmt::format("cannot list the checkpoints in {}: {}", run_dir, error.message())};
}

}  // namespace tidepool
