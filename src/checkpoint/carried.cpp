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

// The folder inside `directory` that a file belongs in. Empty: none.
std::string folder_of(const std::string& directory, std::string_view name) {
  return name.starts_with(template_folder)
             ? fmt::format("{}/{}", directory, template_folder.substr(0, template_folder.size() - 1))
             : "";
}

Result<ManifestEntry> write_as(Files& files, const std::string& directory, const std::string& name,
                               const CarriedFile& file, std::span<std::byte> buffer) {
  const std::string folder = folder_of(directory, name);
  if (!folder.empty()) TRY(files.make_directory(folder));
  TRY_ASSIGN(CheckpointFile out, CheckpointFile::create(files, directory, name, Bytes{0}));
  TRY(stream(out, file, buffer));
  TRY_ASSIGN(ManifestEntry entry, out.finish());
  if (!folder.empty()) TRY(files.sync_directory(folder));
  return entry;
}

// In alphabetical order. What a manifest could not name stays where it is.
std::vector<std::string> named_templates(const std::string& directory) {
  std::vector<std::string> out;
  std::error_code unused;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(folder_of(directory, template_folder), unused)) {
    const std::string name = std::string(template_folder) + entry.path().filename().string();
    if (name.ends_with(".jinja") && is_file_name(name)) out.push_back(name);
  }
  std::ranges::sort(out);
  return out;
}

}  // namespace

bool is_tokenizer_file(std::string_view name) {
  return name.starts_with(template_folder) ||
         std::ranges::find(tokenizer_names, name) != tokenizer_names.end();
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
  for (const std::string& name : named_templates(directory)) add(name);
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
    if (const std::string folder = folder_of(directory, file.name); !folder.empty())
      TRY(files.sync_directory(folder));
  }
  return files.sync_directory(directory);
}

}  // namespace tidepool
