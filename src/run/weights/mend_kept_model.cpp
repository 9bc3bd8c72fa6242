// mend_kept_model() compares the model-files of a resumed run with their list, and puts damaged files back.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/files/file_list.h"
#include "base/read_file.h"
#include "base/text/hash.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/manifest.h"
#include "huggingface/directory/carried.h"
#include "huggingface/directory/hf_config.h"
#include "run/weights/kept_model.h"

namespace tidepool {
namespace {

namespace fs = std::filesystem;

constexpr u64 buffer_bytes = 256 * kib;

class Mender {
 public:
  explicit Mender(const Config& config) : config_(config), directory_(kept_model_directory(config)) {}

  Result<std::vector<std::string>> mend() {
    TRY_ASSIGN(checkpoints_, checkpoint_steps(config_.output.dir));
    std::ranges::reverse(checkpoints_);
    Result<std::optional<std::vector<ListedFile>>> list = read_kept_list(directory_);
    if (!list && list.error().kind != ErrorKind::corrupt_checkpoint) return list.error();
    if (list && *list) {
      list_ = **std::move(list);
    } else {
      if (!list) lines_.push_back(fmt::format("{}: made again", list.error().message));
      TRY(list_what_is_there());
      changed_ = true;
    }
    for (ListedFile& file : list_) TRY(check(file));
    if (changed_) TRY(write_kept_list(*files_, directory_, list_, buffer_));
    return std::move(lines_);
  }

 private:
  // Lists the files as the newest checkpoint does. Files that the checkpoint does not hold are listed as they
  // are.
  Result<void> list_what_is_there() {
    TRY_ASSIGN(std::vector<CarriedFile> there, carried_files(directory_));
    TRY_ASSIGN(const std::optional<CarriedFile> model, carried_file(directory_, model_config_file));
    if (model) there.push_back(*model);
    for (const CarriedFile& file : there) {
      const bool is_config = file.name == model_config_file;
      if (const std::optional<Copy> copy = is_config ? config_of_checkpoint() : good_copy(file.name)) {
        list_.push_back(copy->listed);
        continue;
      }
      TRY_ASSIGN(const std::string text, read_small_file(file.path, kept_bytes_max, ErrorKind::io));
      list_.push_back({.file = file.name, .bytes = text.size(), .xxh3 = hash_of(text)});
    }
    return {};
  }

  struct Copy {
    std::string directory;
    ListedFile listed;
  };

  // RETURNS: the copy in the newest checkpoint that holds the file undamaged and, if `xxh3` is given, with
  // this content.
  std::optional<Copy> good_copy(const std::string& name, std::optional<u64> xxh3 = {}) {
    for (const u64 step : checkpoints_) {
      const std::string path = fmt::format("{}/checkpoint-{}", config_.output.dir, step);
      const Result<Manifest> manifest = read_manifest(path);
      const ListedFile* listed = manifest ? manifest->find(name) : nullptr;
      if (listed == nullptr || (xxh3 && listed->xxh3 != *xxh3)) continue;
      if (check_file(path, *listed, buffer_)) return Copy{path, *listed};
    }
    return {};
  }

  // RETURNS: the newest checkpoint's config.json, if the run's kept one is damaged; nullopt: keep ours. A
  // checkpoint's config.json is the kept one with the run's keys written over it, so ours is good if it gives
  // the same text.
  std::optional<Copy> config_of_checkpoint() {
    std::optional<Copy> copy = good_copy(model_config_file);
    if (!copy) return copy;
    const std::string path = directory_ + "/" + model_config_file;
    const auto ours = read_small_file(path, config_bytes_max, ErrorKind::io),
               theirs = read_small_file(copy->directory + "/" + model_config_file, config_bytes_max,
                                        ErrorKind::io);
    if (!ours || !theirs || !parse_hf_config(*ours, ErrorKind::bad_input, path)) return copy;
    if (hf_config_text(config_.model, config_.train.precision, *ours) == *theirs) return {};
    return copy;
  }

  Result<void> check(ListedFile& file) {
    const Result<void> good = check_file(directory_, file, buffer_);
    if (good || good.error().kind != ErrorKind::corrupt_checkpoint) return good;
    std::optional<Copy> copy = good_copy(file.file, file.xxh3);
    if (!copy) copy = copy_of_source(file);
    if (!copy && file.file == model_config_file) copy = good_copy(model_config_file);
    if (copy) return put_back(file, *copy, good.error());
    return Error{
        ErrorKind::corrupt_checkpoint,
        fmt::format("{}. Neither a checkpoint nor the model directory holds the original: put a good "
                    "copy there, or move {} away, to use the model directory's present file",
                    good.error().message, directory_)};
  }

  // RETURNS: the copy in the model directory, or in data.tokenizer, if its bytes are unchanged.
  std::optional<Copy> copy_of_source(const ListedFile& file) {
    for (const std::string& directory : {config_.model_directory, config_.data.tokenizer})
      if (!directory.empty() && check_file(directory, file, buffer_)) return Copy{directory, file};
    return {};
  }

  Result<void> put_back(ListedFile& file, const Copy& copy, const Error& fault) {
    TRY_ASSIGN(const std::optional<CarriedFile> source, carried_file(copy.directory, file.file));
    if (!source) return fault;
    CarriedFile from = *source;
    from.xxh3 = copy.listed.xxh3;
    TRY_ASSIGN(file, replace_carried_file(*files_, directory_, from, buffer_));
    TRY(files_->sync_directory(directory_));
    changed_ = true;
    lines_.push_back(fmt::format("{}: restored from {}", fault.message, copy.directory));
    return {};
  }

  const Config& config_;
  const std::string directory_;
  const std::unique_ptr<Files> files_ = create_posix_files();
  std::vector<std::byte> buffer_ = std::vector<std::byte>(buffer_bytes);
  std::vector<u64> checkpoints_;  // newest first
  std::vector<ListedFile> list_;
  std::vector<std::string> lines_;
  bool changed_ = false;  // true: the list must be written
};

}  // namespace

Result<std::vector<std::string>> mend_kept_model(const Config& config) {
  std::error_code unused;
  if (fs::exists(kept_model_directory(config), unused)) return Mender(config).mend();
  TRY(keep_model(config));
  return std::vector<std::string>();
}

}  // namespace tidepool
