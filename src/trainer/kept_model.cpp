#include "trainer/kept_model.h"

#include <algorithm>
#include <filesystem>

#include "checkpoint/carried.h"
#include "config/hf_config.h"
#include "data/chat_template.h"
#include "tidepool/read_file.h"

namespace tidepool {
namespace {

namespace fs = std::filesystem;

constexpr u64 copy_buffer_bytes = 256 * kib;
constexpr const char* tokenizer_json = "tokenizer.json";

bool is_there(const std::string& path) {
  std::error_code unused;
  return fs::exists(path, unused);
}

void put(std::vector<CarriedFile>& files, CarriedFile file) {
  std::erase_if(files, [&](const CarriedFile& f) { return f.name == file.name; });
  files.push_back(std::move(file));
}

// All that belongs to a tokenizer comes from one place: mixed, its parts would contradict each other.
void take_tokenizer(std::vector<CarriedFile>& files, const std::string& named) {
  std::error_code unused;
  const bool directory = fs::is_directory(named, unused);
  const std::string parent = fs::path(named).parent_path().string();
  std::erase_if(files, [](const CarriedFile& f) { return is_tokenizer_file(f.name); });
  for (CarriedFile& file : carried_files(directory ? named : parent.empty() ? "." : parent))
    if (is_tokenizer_file(file.name)) files.push_back(std::move(file));
  if (!directory) put(files, {.name = tokenizer_json, .path = named, .text = {}});
}

Result<std::vector<CarriedFile>> files_of(const Config& config) {
  std::vector<CarriedFile> files;
  if (!config.model_directory.empty()) {
    files = carried_files(config.model_directory);
    put(files,
        {.name = model_config_file, .path = config.model_directory + "/" + model_config_file, .text = {}});
  }
  if (!config.data.tokenizer.empty()) take_tokenizer(files, config.data.tokenizer);
  if (!config.data.chat_template.empty()) {
    TRY_ASSIGN(TokenizerConfig::Source chat, read_chat_template(config.data.chat_template));
    std::erase_if(files, [](const CarriedFile& f) { return f.name.starts_with(template_folder); });
    put(files, {.name = chat_template_file, .path = {}, .text = std::move(chat.text)});
  }
  return files;
}

}  // namespace

Result<void> keep_model(const Config& config, Kept kept) {
  const std::string directory = kept_model_directory(config);
  if (kept == Kept::as_it_is && is_there(directory)) return {};
  TRY_ASSIGN(const std::vector<CarriedFile> files, files_of(config));
  if (files.empty() && !is_there(directory)) return {};
  std::vector<std::byte> buffer(copy_buffer_bytes);
  const std::unique_ptr<Files> writer = create_posix_files();
  return replace_carried(*writer, directory, files, buffer);
}

Result<std::string> kept_model_config(const Config& config) {
  const std::string path = kept_model_directory(config) + "/" + model_config_file;
  if (config.model_directory.empty() || !is_there(path)) return std::string();
  return read_small_file(path, mib, ErrorKind::io);
}

Config with_kept_model(Config config) {
  const std::string kept = kept_model_directory(config);
  // What was not kept stays as it was named: the message about it must name what somebody wrote.
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
