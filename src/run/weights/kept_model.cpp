#include "run/weights/kept_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/files/file_list.h"
#include "base/read_file.h"
#include "base/text/hash.h"
#include "data/documents/chat_template.h"
#include "huggingface/directory/carried.h"
#include "huggingface/directory/hf_config.h"

namespace tidepool {
namespace {

namespace fs = std::filesystem;

constexpr u64 copy_buffer_bytes = 256 * kib;
constexpr const char* tokenizer_json = "tokenizer.json";

void put(std::vector<CarriedFile>& files, CarriedFile file) {
  std::erase_if(files, [&](const CarriedFile& f) { return f.name == file.name; });
  files.push_back(std::move(file));
}

// Takes all tokenizer files from one place: files of different tokenizers would contradict each other.
Result<void> take_tokenizer(std::vector<CarriedFile>& files, const std::string& named) {
  std::error_code unused;
  const bool directory = fs::is_directory(named, unused);
  const std::string parent = fs::path(named).parent_path().string();
  std::erase_if(files, [](const CarriedFile& f) { return is_tokenizer_file(f.name); });
  TRY_ASSIGN(std::vector<CarriedFile> beside, carried_files(directory        ? named
                                                            : parent.empty() ? "."
                                                                             : parent));
  for (CarriedFile& file : beside)
    if (is_tokenizer_file(file.name)) files.push_back(std::move(file));
  // The user named this file, so a link is followed.
  if (!directory)
    put(files, {.name = tokenizer_json, .path = fs::weakly_canonical(named, unused).string(), .text = {}});
  return {};
}

Result<std::vector<CarriedFile>> files_of(const Config& config) {
  std::vector<CarriedFile> files;
  if (!config.model_directory.empty()) {
    TRY_ASSIGN(files, carried_files(config.model_directory));
    // Checks the file: a damaged one would be sealed, and nothing could use the run.
    TRY(end_token_ids(config.model_directory));
    TRY_ASSIGN(std::optional<CarriedFile> model, carried_file(config.model_directory, model_config_file));
    if (model) put(files, *std::move(model));
  }
  if (!config.data.tokenizer.empty()) TRY(take_tokenizer(files, config.data.tokenizer));
  if (!config.data.chat_template.empty()) {
    TRY_ASSIGN(TokenizerConfig::Source chat, read_chat_template(config.data.chat_template));
    std::erase_if(files, [](const CarriedFile& f) { return f.name.starts_with(template_folder); });
    put(files, {.name = chat_template_file, .path = {}, .text = std::move(chat.text)});
  }
  return files;
}

}  // namespace

Result<void> keep_model(const Config& config) {
  const std::string directory = kept_model_directory(config);
  TRY_ASSIGN(const std::vector<CarriedFile> files, files_of(config));
  if (files.empty() && !is_there(directory)) return {};
  std::vector<std::byte> buffer(copy_buffer_bytes);
  const std::unique_ptr<Files> writer = create_posix_files();
  return replace_carried(*writer, directory, files, buffer);
}

Result<std::vector<CarriedFile>> files_for_checkpoints(const Config& config) {
  const std::string directory = kept_model_directory(config);
  TRY_ASSIGN(const auto list, read_kept_list(directory));
  std::vector<CarriedFile> out;
  if (!list) return out;
  for (const ListedFile& file : *list)
    if (file.file != model_config_file)
      out.push_back({.name = file.file, .path = directory + "/" + file.file, .text = {}, .xxh3 = file.xxh3});
  return out;
}

std::vector<std::string> changes_since_kept(const Config& config) {
  std::vector<std::string> lines;
  const std::string directory = kept_model_directory(config);
  const auto list = read_kept_list(directory);
  if (!list || !*list) return lines;
  const Result<std::vector<CarriedFile>> files = files_of(with_kept_model(config));
  if (!files) return lines;  // the file's reader reports the error
  for (const CarriedFile& file : *files) {
    const ListedFile* kept = find_listed(**list, file.name);
    if (kept == nullptr) continue;
    const Result<std::string> text =
        file.path.empty() ? file.text : read_small_file(file.path, kept_bytes_max, ErrorKind::io);
    if (!text || hash_of(*text) == kept->xxh3) continue;
    lines.push_back(
        fmt::format("{}: was changed or damaged since the run began (XXH3 is {}, was {}); the run keeps the "
                    "original in {}/{}",
                    file.path.empty() ? config.data.chat_template : file.path, hash_text(hash_of(*text)),
                    hash_text(kept->xxh3), directory, file.name));
  }
  return lines;
}

Result<void> check_kept_model(const std::string& run_dir, std::string_view only) {
  const std::string directory = kept_model_directory({.output = {.dir = run_dir}});
  TRY_ASSIGN(const auto list, read_kept_list(directory));
  if (!list) return {};
  std::vector<std::byte> buffer(copy_buffer_bytes);
  for (const ListedFile& file : *list) {
    if (!only.empty() && file.file != only) continue;
    const Result<void> good = check_file(directory, file, buffer);
    if (good) continue;
    return Error{good.error().kind,
                 good.error().message + "; a resume of the run restores the file from a checkpoint"};
  }
  return {};
}

Result<std::string> kept_model_config(const Config& config) {
  const std::string path = kept_model_directory(config) + "/" + model_config_file;
  if (config.model_directory.empty() || !is_there(path)) return std::string();
  return read_small_file(path, mib, ErrorKind::io);
}

Config with_kept_model(Config config) {
  const std::string kept = kept_model_directory(config);
  // A path without a kept copy stays as it is: an error message must name what the user wrote.
  const auto replace = [&](std::string& named, const char* file, const std::string& by) {
    if (!named.empty() && !is_there(named) && is_there(kept + "/" + file)) named = by;
  };
  replace(config.model_directory, model_config_file, kept);
  replace(config.data.tokenizer, tokenizer_json, kept);
  if (config.data.chat_template != builtin_chat_template)
    replace(config.data.chat_template, chat_template_file, kept + "/" + chat_template_file);
  return config;
}

}  // namespace tidepool
