// Manifest lists the files of a checkpoint. It is written last, so its presence means that all files were
// written. Its own last line hashes the lines above, so every flipped bit is detected.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/file_list.h"
#include "base/result.h"
#include "base/types.h"
#include "checkpoint/origin.h"

namespace tidepool {

inline constexpr const char* manifest_file = "manifest.json";

struct Manifest {
  u64 step = 0;
  u64 weights_xxh3 = 0;
  std::vector<ListedFile> files;
  std::optional<Origin> origin = {};

  const ListedFile* find(std::string_view file) const { return find_listed(files, file); }
  bool operator==(const Manifest&) const = default;
};

std::string to_text(const Manifest&);

// True if `directory`/manifest.json belongs to a checkpoint, undamaged or not: its text says so, or
// trainer_state.json exists beside it. Other tools write files of that name into model directories too.
bool has_manifest(const std::string& directory);

// Checks the version of an undamaged manifest. Another version is no damage, so resuming must not skip the
// checkpoint. read_manifest() reports all other faults.
// Error: corrupt_checkpoint if the version differs.
Result<void> check_manifest_version(const std::string& directory);

// Reads `directory`/manifest.json.
// Error: corrupt_checkpoint.
Result<Manifest> read_manifest(const std::string& directory);

// Calls check_file() for every file.
// Error: the first fault.
Result<void> verify_files(const std::string& directory, const Manifest&, std::span<std::byte> buffer);

}  // namespace tidepool
