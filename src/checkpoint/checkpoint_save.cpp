// Writing a checkpoint: everything into a temporary directory, then into its place.
#include <unistd.h>

#include <algorithm>
#include <array>

#include "checkpoint/adapter_files.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_file.h"
#include "config/hf_config.h"
#include "checkpoint/names.h"
#include "checkpoint/state_tensors.h"
#include "tidepool/check.h"

namespace tidepool {
namespace {

u64 own_pid() { return static_cast<u64>(::getpid()); }

Result<ManifestEntry> write_text(Files& files, const std::string& directory, const char* name,
                                 const std::string& text) {
  TRY_ASSIGN(CheckpointFile file, CheckpointFile::create(files, directory, name, Bytes{0}));
  TRY(file.append(text));
  return file.finish();
}

u64 tensor_file_bytes(std::span<const StoredTensor> tensors) {
  return safetensors_header(tensors).size() + (tensors.empty() ? 0 : tensors.back().end);
}

// A sink that is only hashed.
class NullFile final : public OutputFile {
 public:
  Result<void> append(std::span<const std::byte>) override { return {}; }
  Result<void> finish() override { return {}; }
};

}  // namespace

CheckpointStore::CheckpointStore(const CheckpointOptions& options, const ModelGraph& graph,
                                 std::unique_ptr<Files> files)
    : run_dir_(options.run_dir),
      graph_(graph),
      files_(std::move(files)),
      buffer_(std::max(options.buffer.value, state_buffer_bytes_min)) {}

Result<std::unique_ptr<CheckpointStore>> CheckpointStore::create(const CheckpointOptions& options,
                                                                 const ModelGraph& graph,
                                                                 std::unique_ptr<Files> files) {
  CHECK(!options.run_dir.empty());
  TRY(files->make_directory(options.run_dir));
  return std::unique_ptr<CheckpointStore>(new CheckpointStore(options, graph, std::move(files)));
}

std::string CheckpointStore::path_of(u64 step) const {
  return run_dir_ + "/" + to_text(DirectoryName{.step = step});
}

Result<SavedCheckpoint> CheckpointStore::save(const TrainerState& state, StateReader& reader) {
  const std::string path = path_of(state.step);
  const std::string temporary =
      run_dir_ + "/" + to_text(DirectoryName{.step = state.step, .mark = DirectoryMark::tmp, .pid = own_pid()});
  TRY(files_->remove(temporary));
  Result<SavedCheckpoint> saved = write_all(temporary, state, reader);
  if (saved) {
    if (Result<void> placed = put_in_place(temporary, path); !placed) saved = placed.error();
  }
  if (!saved) {
    // The first error is the one to tell. What cannot be removed now, sweep() removes at the next start.
    (void)files_->remove(temporary);
    return Error{saved.error().kind,
                 fmt::format("checkpoint of step {} was not written, older ones are untouched: {}", state.step,
                             saved.error().message)};
  }
  saved->path = path;
  return saved;
}

Result<SavedCheckpoint> CheckpointStore::write_all(const std::string& directory, const TrainerState& state,
                                                   StateReader& reader) {
  TRY(files_->make_directory(directory));
  Manifest manifest{.step = state.step, .weights_xxh3 = 0, .files = {}};
  StreamHash weights_hash;

  const auto write_tensors = [&](const char* name, const std::vector<StatePart>& parts) -> Result<void> {
    const std::vector<StoredTensor> tensors = stored_tensors(graph_, parts);
    TRY_ASSIGN(CheckpointFile file,
               CheckpointFile::create(*files_, directory, name, Bytes{tensor_file_bytes(tensors)}));
    TRY(file.append(safetensors_header(tensors)));
    for (const StatePart part : parts) {
      TRY(write_part(file, graph_, part, reader, buffer_, part == StatePart::weights ? &weights_hash : nullptr));
    }
    TRY_ASSIGN(ManifestEntry entry, file.finish());
    manifest.files.push_back(std::move(entry));
    return {};
  };
  TRY(write_tensors(weights_file_of(graph_), model_parts()));
  TRY(write_tensors("optimizer.safetensors", optimizer_parts(graph_.precision)));
  const bool adapters = graph_.lora.on();
  TRY_ASSIGN(ManifestEntry config,
             write_text(*files_, directory, adapters ? adapter_config_file : model_config_file,
                        adapters ? adapter_config_text(graph_) : hf_config_text(graph_.config, graph_.precision)));
  manifest.files.push_back(std::move(config));
  TRY_ASSIGN(ManifestEntry trainer, write_text(*files_, directory, trainer_state_file, to_text(state)));
  manifest.files.push_back(std::move(trainer));
  manifest.weights_xxh3 = weights_hash.digest();
  TRY_ASSIGN(const ManifestEntry self, write_text(*files_, directory, manifest_file, to_text(manifest)));
  TRY(files_->sync_directory(directory));

  SavedCheckpoint saved{.path = directory, .weights_xxh3 = manifest.weights_xxh3, .bytes = Bytes{self.bytes}};
  for (const ManifestEntry& e : manifest.files) saved.bytes += Bytes{e.bytes};
  return saved;
}

// A checkpoint of this step may be there already: the run stepped back and came here again. It is pushed
// aside first, since rename() cannot replace a full directory; a kill between the two renames is what
// sweep() mends by moving it back.
Result<void> CheckpointStore::put_in_place(const std::string& temporary, const std::string& path) {
  if (::access(path.c_str(), F_OK) != 0) {
    TRY(files_->rename(temporary, path));
    return files_->sync_directory(run_dir_);
  }
  const std::string aside = fmt::format("{}.old-{}", path, own_pid());
  TRY(files_->remove(aside));
  TRY(files_->rename(path, aside));
  if (Result<void> renamed = files_->rename(temporary, path); !renamed) {
    (void)files_->rename(aside, path);
    return renamed.error();
  }
  TRY(files_->sync_directory(run_dir_));
  return files_->remove(aside);
}

Result<u64> CheckpointStore::weights_xxh3(StateReader& reader) {
  StreamHash hash;
  CheckpointFile nowhere("", std::make_unique<NullFile>());
  TRY(write_part(nowhere, graph_, StatePart::weights, reader, buffer_, &hash));
  return hash.digest();
}

namespace {

std::array<u64, 2> large_files(const ModelGraph& graph) {
  return {tensor_file_bytes(stored_tensors(graph, model_parts())),
          tensor_file_bytes(stored_tensors(graph, optimizer_parts(graph.precision)))};
}

}  // namespace

Bytes checkpoint_bytes(const ModelGraph& graph) {
  const auto [model, optimizer] = large_files(graph);
  return Bytes{model + optimizer};
}

Bytes checkpoint_file_bytes_max(const ModelGraph& graph) {
  const auto [model, optimizer] = large_files(graph);
  return Bytes{std::max(model, optimizer)};
}

}  // namespace tidepool
