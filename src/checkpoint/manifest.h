// manifest.json: what a checkpoint consists of. Written last, so its presence says that the rest was
// written; its own last line hashes the lines above it, so that no bit of it can flip unnoticed.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/file_list.h"
#include "base/result.h"
#include "base/types.h"

namespace tidepool {

inline constexpr const char* manifest_file = "manifest.json";

struct Manifest {
  u64 step = 0;
  u64 weights_xxh3 = 0;
  std::vector<ListedFile> files;

  const ListedFile* find(std::string_view file) const { return find_listed(files, file); }
  bool operator==(const Manifest&) const = default;
};

std::string to_text(const Manifest&);

// Whether `directory`/manifest.json is there and of a checkpoint, sound or damaged: it says so, or
// trainer_state.json lies beside it. Other tools write files of that name into model directories too.
bool has_manifest(const std::string& directory);

// An error where `directory` holds a sound manifest of another version: no damage, so resuming must not step
// over it. Whatever else is wrong with it read_manifest() says. ErrorKind::corrupt_checkpoint.
Result<void> check_manifest_version(const std::string& directory);

// Of `directory`/manifest.json. Errors are ErrorKind::corrupt_checkpoint.
Result<Manifest> read_manifest(const std::string& directory);

// check_file() of every file. The first fault is the error.
Result<void> verify_files(const std::string& directory, const Manifest&, std::span<std::byte> buffer);

}  // namespace tidepool
