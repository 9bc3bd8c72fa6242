#include "checkpoint/hashed_tensors.h"

#include <fmt/format.h>

#include <filesystem>

namespace tidepool {
namespace {

Error damaged(const SafetensorsFile& file, const std::string& reason) {
  return {ErrorKind::corrupt_checkpoint, fmt::format("{}: {}", file.path(), reason)};
}

}  // namespace

Result<HashedTensors> HashedTensors::open(const std::string& directory, const std::string& file,
                                          const Manifest& manifest) {
  HashedTensors out;
  TRY_ASSIGN(out.model_, SafetensorsModel::open(directory, ErrorKind::corrupt_checkpoint, file));
  for (const auto& opened : out.model_->files()) {
    const std::string name = std::filesystem::path(opened->path()).filename().string();
    const ListedFile* listed = manifest.find(name);
    if (listed == nullptr) return damaged(*opened, fmt::format("{} does not list it", manifest_file));
    out.files_.emplace(opened.get(),
                       Progress{.hash = opened->take_hash_of_head(), .next = 0, .listed = listed});
  }
  return out;
}

Result<void> HashedTensors::read(const SafetensorsModel::Location& at, u64 begin, std::span<std::byte> out) {
  Progress& progress = files_.at(at.file);
  if (at.tensor->begin + begin != progress.next)
    return damaged(*at.file,
                   fmt::format("tensor {} is not at the offset where it was written", at.tensor->name));
  TRY(at.file->read(*at.tensor, begin, out));
  progress.hash.update(out);
  progress.next += out.size();
  return {};
}

Result<void> HashedTensors::finish() const {
  for (const auto& [file, progress] : files_) {
    const u64 bytes = file->bytes_of_head() + progress.next;
    if (bytes != progress.listed->bytes)
      return damaged(*file,
                     fmt::format("holds {} bytes, the manifest says {}", bytes, progress.listed->bytes));
    if (progress.hash.digest() == progress.listed->xxh3) continue;
    return damaged(*file, fmt::format("XXH3 is {}, the manifest says {}: the file was changed or damaged",
                                      hash_text(progress.hash.digest()), hash_text(progress.listed->xxh3)));
  }
  return {};
}

}  // namespace tidepool
