#include "checkpoint/carried.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "checkpoint/checkpoint_file.h"
#include "config/hf_config.h"
#include "tidepool/read_file.h"

namespace tidepool {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 13> tokenizer_names = {"tokenizer.json",
                                                              "tokenizer_config.json",
                                                              "special_tokens_map.json",
                                                              "added_tokens.json",
                                                              "vocab.json",
                                                              "merges.txt",
                                                              "vocab.txt",
                                                              "tokenizer.model",
                                                              "spiece.model",
                                                              "tekken.json",
                                                              "tokenizer.model.v3",
                                                              chat_template_file,
                                                              "chat_template.json"};

Result<void> stream(CheckpointFile& out, const CarriedFile& file, std::span<std::byte> buffer) {
  if (file.path.empty()) return out.append(file.text);
  TRY_ASSIGN(const InputFile in, open_input(file.path, ErrorKind::io));
  for (u64 at = 0; at < in.bytes;) {
    const auto piece = buffer.first(std::min<u64>(buffer.size(), in.bytes - at));
    TRY(read_exactly(in.fd, file.path, at, piece, ErrorKind::io));
    TRY(out.append(piece));
    at += piece.size();
  }
  return {};
}

Result<ManifestEntry> write_as(Files& files, const std::string& directory, const std::string& name,
                               const CarriedFile& file, std::span<std::byte> buffer) {
  TRY_ASSIGN(CheckpointFile out, CheckpointFile::create(files, directory, name, Bytes{0}));
  TRY(stream(out, file, buffer));
  TRY_ASSIGN(ManifestEntry entry, out.finish());
  return entry;
}

}  // namespace

bool is_tokenizer_file(std::string_view name) {
  return std::ranges::find(tokenizer_names, name) != tokenizer_names.end();
}

std::vector<CarriedFile> carried_files(const std::string& directory) {
  std::vector<CarriedFile> out;
  std::error_code unused;
  const auto add = [&](std::string_view name) {
    const std::string path = fmt::format("{}/{}", directory, name);
    if (fs::is_regular_file(path, unused))
      out.push_back({.name = std::string(name), .path = path, .text = {}});
  };
  add(generation_config_file);
  for (const std::string_view name : tokenizer_names) add(name);
  return out;
}

Result<ManifestEntry> write_carried(Files& files, const std::string& directory, const CarriedFile& file,
                                    std::span<std::byte> buffer) {
  return write_as(files, directory, file.name, file, buffer);
}

Result<void> replace_carried(Files& files, const std::string& directory, const std::vector<CarriedFile>& all,
                             std::span<std::byte> buffer) {
  TRY(files.make_directory(directory));
  for (const CarriedFile& old : carried_files(directory)) {
    const bool stays = std::ranges::any_of(all, [&](const CarriedFile& f) { return f.name == old.name; });
    if (!stays) TRY(files.remove(old.path));
  }
  for (const CarriedFile& file : all) {
    const std::string temporary = file.name + ".tmp";
    TRY(write_as(files, directory, temporary, file, buffer));
    TRY(files.rename(directory + "/" + temporary, directory + "/" + file.name));
  }
  return files.sync_directory(directory);
}

}  // namespace tidepool
