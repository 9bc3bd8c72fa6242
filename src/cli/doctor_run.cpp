// Examines for the doctor if a config's data can be opened and its run directory can be written.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "base/errno_text.h"
#include "checkpoint/checkpoint.h"
#include "cli/doctor.h"
#include "data/batches/held_out_files.h"
#include "data/batches/open_documents.h"
#include "io/directory_lock.h"
#include "io/file_system.h"
#include "run/directory/find_committed_run.h"
#include "run/directory/run_directory.h"
#include "run/open_data.h"

namespace tidepool {
namespace {

namespace fs = std::filesystem;

// Documents of each source that are read: enough for the faults of a whole file, such as a wrong key, and
// below a second of work. Reading all of them is the first work of `train`.
constexpr u64 documents_read_max = 200;

Result<std::string> look_at_documents(const Config& config, const std::vector<SourceFiles>& sources) {
  TRY_ASSIGN(const ShownDocuments first,
             first_documents(sources, config.data, config.model.vocab_size, config.train.sequence_length,
                             config.model_directory, documents_read_max));
  if (first.documents.empty())
    return Error{ErrorKind::bad_input, fmt::format("{}: holds no document; name files that hold documents",
                                                   sources[0].found[0].path)};
  return fmt::format("first documents read ({}); training reads the others", first.documents.size());
}

Result<std::string> look_at_training_data(const Config& config) {
  TRY_ASSIGN(const std::vector<SourceFiles> sources,
             all_sources(config.data, has_tokenizer(config.data, config.model_directory)));
  if (!std::ranges::any_of(sources, [](const SourceFiles& s) { return s.holds(FileKind::tokens); }))
    return look_at_documents(config, sources);
  Config alone = config;
  alone.data.validation.clear();
  if (!config.data.validation.empty()) alone.data.validation_fraction = 0;
  TRY_ASSIGN(const auto data, open_data(alone, {.quiet = true, .use = DataUse::counting}));
  return fmt::format("{} sequences of {} tokens", data->train_sequences(), data->sequence_length());
}

// REQUIRES: data.validation is not empty.
Result<void> look_at_held_out(const Config& config) {
  TRY_ASSIGN(std::vector<FoundFile> found, find_files(config.data.validation, "data.validation"));
  TRY_ASSIGN(const SourceFiles files,
             files_of(std::move(found), config.data, has_tokenizer(config.data, config.model_directory)));
  if (!files.holds(FileKind::tokens)) {
    TRY(look_at_documents(config, {files}));
    return {};
  }
  TRY(open_held_out(config, {.quiet = true, .use = DataUse::counting}));
  return {};
}

// RETURNS: the state of the data in a few words, or the error that `train` would end with.
Result<std::string> look_at_data(const Config& config) {
  TRY_ASSIGN(std::string found, look_at_training_data(config));
  if (!config.data.validation.empty()) TRY(look_at_held_out(config));
  return found;
}

// RETURNS: the path, or its nearest ancestor of which a file, directory or link exists.
fs::path nearest_existing(const std::string& dir) {
  std::error_code unused;
  fs::path path = fs::absolute(dir, unused).lexically_normal();
  while (!fs::exists(fs::symlink_status(path, unused)) && path.has_relative_path()) path = path.parent_path();
  return path;
}

// RETURNS: why a run cannot write `dir`; empty: it can.
std::string why_not_writable(const std::string& dir) {
  std::error_code unused;
  const fs::path at = nearest_existing(dir);
  if (!fs::is_directory(at, unused)) return fmt::format("{} is not a directory", at.string());
  if (const Result<FileSystem> on = look_at_file_system(dir); on && on->pseudo)
    return fmt::format("{} is on {}, which holds no files of users", at.string(), on->name);
  if (::access(at.c_str(), W_OK | X_OK) != 0)
    return fmt::format("{} cannot be written: {}", at.string(), errno_text(errno));
  return "";
}

}  // namespace

Finding examine_data(const Config& config) {
  const Result<std::string> found = look_at_data(config);
  if (!found) return {Health::fail, "data", found.error().message, "", found.error().kind};
  return {.what = "data", .found = *found};
}

Finding examine_output(const Config& config, const Result<Job>& job) {
  const std::string& dir = config.output.dir;
  Finding out{Health::fail, "run directory", "", "set output.dir to a directory you may write to",
              ErrorKind::io};
  if (const Result<void> allowed = check_output_directory(config); !allowed)
    return {Health::fail, out.what, allowed.error().message, "", allowed.error().kind};
  out.found = why_not_writable(dir);
  if (!out.found.empty()) return out;
  if (const std::optional<long> holder = lock_holder(dir, run_lock_name))
    return {Health::warn, out.what, fmt::format("{} is in use by the run with pid {}", dir, *holder),
            "wait for it, or set another output.dir"};
  // Steps that this run, or another one in its swap directory, has committed. Without a job, the plan is a
  // finding.
  if (job)
    if (const auto found = find_committed_run(*job, "", [](const std::string&) {}); !found)
      return {Health::warn, out.what, found.error().message, ""};
  const Result<std::vector<u64>> steps = checkpoint_steps(dir);
  if (steps && !steps->empty())
    return {Health::warn, out.what, dir + " already holds checkpoints",
            "resume with --resume auto, or set another output.dir"};
  return {.what = out.what, .found = dir};
}

}  // namespace tidepool
