// Writes a checkpoint into a temporary directory, then renames it.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/names.h"
#include "checkpoint/read_back.h"
#include "checkpoint/state_tensors.h"
#include "checkpoint/trained_by.h"
#include "huggingface/adapters/adapter_config.h"
#include "huggingface/directory/hf_config.h"
#include "huggingface/weights/adapter_files.h"
#include "huggingface/weights/shards.h"

namespace tidepool {
namespace {

u64 own_pid() { return static_cast<u64>(::getpid()); }

// Adapters go into one file: PEFT does not support shards.
std::vector<Shard> weight_files(const ModelGraph& graph, ExpertForm form, Bytes most) {
  std::vector<StoredTensor> tensors = stored_tensors(graph, model_parts(), form);
  if (graph.lora.on()) return {{.file = adapter_weights_file, .tensors = std::move(tensors)}};
  return shards_of(std::move(tensors), most);
}

std::vector<Shard> optimizer_file(const ModelGraph& graph) {
  return {{.file = "optimizer.safetensors",
           .tensors = stored_tensors(graph, optimizer_parts(graph.state_slots))}};
}

}  // namespace

CheckpointStore::CheckpointStore(const CheckpointOptions& options, const ModelGraph& graph,
                                 std::unique_ptr<Files> files)
    : run_dir_(options.run_dir),
      max_shard_size_(options.max_shard_size),
      source_config_(options.source_config),
      carried_(options.carried),
      read_back_(options.read_back),
      graph_(graph),
      form_(form_of_files(graph)),
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
  return run_dir_ + "/" + to_text(CheckpointName{.step = step});
}

Result<SavedCheckpoint> CheckpointStore::save(const TrainerState& state, StateReader& reader) {
  const std::string path = path_of(state.step);
  const std::string temporary =
      run_dir_ + "/" +
      to_text(CheckpointName{.step = state.step, .mark = CheckpointMark::tmp, .pid = own_pid()});
  TRY(files_->remove(temporary));
  Result<SavedCheckpoint> saved = write_all(temporary, state, reader);
  if (saved) {
    if (Result<void> placed = put_in_place(temporary, path); !placed) saved = placed.error();
  }
  if (!saved) {
    // Reports the first error. If the removal fails too, sweep() removes the directory at the next start.
    (void)files_->remove(temporary);
    return Error{saved.error().kind,
                 fmt::format("checkpoint of step {} was not written, older checkpoints are untouched: {}",
                             state.step, saved.error().message)};
  }
  saved->path = path;
  return saved;
}

Result<SavedCheckpoint> CheckpointStore::write_all(const std::string& directory, const TrainerState& state,
                                                   StateReader& reader) {
  TRY(files_->make_directory(directory));
  Manifest manifest{.step = state.step, .weights_xxh3 = 0, .files = {}};
  StreamHash weights_hash;

  const auto write_tensors = [&](std::vector<Shard> shards, const std::vector<Kind>& parts) -> Result<void> {
    ShardWriter out(*files_, directory, std::move(shards));
    const TensorSink sink = [&](std::span<const std::byte> bytes) { return out.append(bytes); };
    for (const Kind part : parts) {
      TRY(write_part(sink, graph_, part, form_, reader, buffer_,
                     part == Kind::param ? &weights_hash : nullptr));
    }
    TRY_ASSIGN(const std::vector<ListedFile> written, out.finish());
    manifest.files.insert(manifest.files.end(), written.begin(), written.end());
    return {};
  };
  TRY(write_tensors(weight_files(graph_, form_, max_shard_size_), model_parts()));
  TRY(write_tensors(optimizer_file(graph_), optimizer_parts(graph_.state_slots)));
  TRY_ASSIGN(const std::vector<ListedFile> small, write_small_files(directory, state));
  manifest.files.insert(manifest.files.end(), small.begin(), small.end());
  manifest.weights_xxh3 = weights_hash.digest();
  manifest.origin = state.origin;
  TRY_ASSIGN(const ListedFile self,
             write_carried(*files_, directory, {.name = manifest_file, .path = {}, .text = to_text(manifest)},
                           buffer_));
  TRY(files_->sync_directory(directory));

  SavedCheckpoint saved{.path = directory, .weights_xxh3 = manifest.weights_xxh3, .bytes = Bytes{self.bytes}};
  for (const ListedFile& e : manifest.files) saved.bytes += Bytes{e.bytes};
  if (read_back_) TRY(read_back(directory, manifest));
  return saved;
}

Result<void> CheckpointStore::add_model_config(std::vector<CarriedFile>& files) const {
  const std::string config = source_config_.empty()
                                 ? hf_config_text(graph_.config, graph_.precision)
                                 : hf_config_text(graph_.config, graph_.precision, source_config_);
  if (std::ranges::find(files, generation_config_file, &CarriedFile::name) == files.end()) {
    TRY_ASSIGN(std::string text, generation_config_text(config, model_config_file));
    files.insert(files.begin(), {.name = generation_config_file, .path = {}, .text = std::move(text)});
  }
  files.insert(files.begin(), {.name = model_config_file, .path = {}, .text = config});
  return {};
}

Result<std::vector<ListedFile>> CheckpointStore::write_small_files(const std::string& directory,
                                                                   const TrainerState& state) {
  std::vector<CarriedFile> all = carried_;
  if (graph_.lora.on()) {
    // An adapter's directory has no generation config: that is in the base model's directory.
    std::erase_if(all, [](const CarriedFile& file) { return file.name == generation_config_file; });
    all.insert(all.begin(), {.name = adapter_config_file, .path = {}, .text = adapter_config_text(graph_)});
  } else {
    TRY(add_model_config(all));
  }
  TrainerState all_state = state;
  all_state.optimizers = optimizers_text(graph_);
  all.push_back({.name = trainer_state_file, .path = {}, .text = to_text(all_state)});
  std::vector<ListedFile> written;
  for (const CarriedFile& file : all) {
    TRY_ASSIGN(ListedFile entry, write_carried(*files_, directory, file, buffer_));
    written.push_back(std::move(entry));
  }
  return written;
}

// A checkpoint of this step may exist, if the run resumed from an earlier one. It is renamed first, because
// rename() cannot replace a directory that is not empty. After a kill between the two renames, sweep() moves
// it back.
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
  const TensorSink nowhere = [](std::span<const std::byte>) { return Result<void>(); };
  TRY(write_part(nowhere, graph_, Kind::param, form_, reader, buffer_, &hash));
  return hash.digest();
}

namespace {

// Sizes as if the weights were one file; shards differ only by a few KiB of headers.
std::array<u64, 2> large_files(const ModelGraph& graph) {
  const Shard model{.file = weights_file, .tensors = stored_tensors(graph, model_parts())};
  return {model.file_bytes(), optimizer_file(graph)[0].file_bytes()};
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
