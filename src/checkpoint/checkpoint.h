// Checkpoints of a run directory: written whole or not at all, verified before use, never gathered in
// memory. Independent of chunk size, budgets and devices: the files hold plain tensors under their
// Hugging Face names, and the directory opens in any Hugging Face tool.
//
//   checkpoint-<step>/        (.abandoned: set aside when a run went on from an earlier one)
//     model.safetensors       weights, F32, BF16 or F16; above a size model-0000I-of-0000N.safetensors, and
//                             model.safetensors.index.json
//     config.json             Hugging Face config of the family
//     generation_config.json, tokenizer.json, chat_template.jinja ...: carried along (carried.h)
//     optimizer.safetensors   exp_avg.*, exp_avg_sq.*, master.* (not in fp32), all F32
//     trainer_state.json
//     manifest.json           length and XXH3 of each file; last
//
// Of a run with LoRA it holds the adapters and their state alone: adapter_model.safetensors and
// adapter_config.json, which PEFT opens, stand for the first two, and the frozen model stays in its
// directory.
//
// A save goes to checkpoint-<step>.tmp-<pid>: every file is fsynced, then the directory, then it is
// renamed, then the run directory is fsynced. So a kill at any moment leaves the older checkpoints as they
// were, and at worst a directory that sweep() clears.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "checkpoint/manifest.h"
#include "checkpoint/trainer_state.h"
#include "huggingface/directory/carried.h"
#include "tidepool/model_graph.h"
#include "tidepool/state_stream.h"

namespace tidepool {

inline constexpr const char* optimizer_file_name = "optimizer.safetensors";

// In a run directory, a symbolic link to the checkpoint with the lowest eval_loss.
inline constexpr const char* best_checkpoint_link = "checkpoint-best";

struct CheckpointOptions {
  std::string run_dir;
  Bytes buffer{4 * mib};  // all the memory that a save or restore takes for tensors; at least 64 KiB
  Bytes max_shard_size{5'000'000'000};  // of tensors in a file of weights
  std::string source_config;            // config.json of where the model came from; empty: none
  std::vector<CarriedFile> carried;     // files that every checkpoint takes along
  bool read_back = false;               // save() reads what it wrote before it is put in place
};

struct SavedCheckpoint {
  std::string path;
  u64 weights_xxh3 = 0;
  Bytes bytes{};  // of all files
};

// Verified: every byte is what was written, but for those of the files that restore() reads, and verifies.
struct FoundCheckpoint {
  std::string path;
  Manifest manifest;
  u64 weights_xxh3 = 0;
  TrainerState state;
};

struct SteppedOver {
  std::string path;
  std::string reason;  // names the file
};

struct Resumable {
  std::optional<FoundCheckpoint> found;   // nothing: start from the beginning
  std::vector<SteppedOver> stepped_over;  // newer ones that do not verify, newest first
};

struct Rotation {
  u64 saved_step = 0;                   // just saved: never deleted
  u64 total_limit = 0;                  // 0: keep all
  u64 best_step = 0;                    // 0: none; kept, and counted
  std::vector<std::string> distrusted;  // paths that did not verify: the first to go
};

// Not for several threads at once. Everything blocks.
class CheckpointStore {
 public:
  // Creates run_dir and takes the buffer. `graph` must outlive the store.
  static Result<std::unique_ptr<CheckpointStore>> create(const CheckpointOptions&, const ModelGraph& graph,
                                                         std::unique_ptr<Files> = create_posix_files());

  // Clears what dead runs left half-written, and puts back a checkpoint that was pushed aside for one that
  // never came. Returns the names of what went, for the log. REQUIRES: this process alone writes to run_dir
  // (the trainer holds the directory's lock), and has not saved yet.
  Result<std::vector<std::string>> sweep();

  // Durable on return. An error (ErrorKind::io) leaves nothing new behind, and older ones untouched.
  Result<SavedCheckpoint> save(const TrainerState&, StateReader&);

  // Deletes the oldest above the limit. Only after save() has returned. Checkpoints with a step beyond
  // saved_step are neither counted nor deleted: they were stepped over, and the run will reach them again.
  // Returns the paths that went.
  Result<std::vector<std::string>> rotate(const Rotation&);

  // Before a save of `saved_step` that found no room: deletes what rotate() would delete after it, but for
  // the newest one that verifies: the save may fail again. Returns the paths that went.
  Result<std::vector<std::string>> make_room(const Rotation&);
  // RETURNS: true if a save or a rotation has failed for want of room since the last call.
  bool take_ran_full() { return files_->take_ran_full(); }

  // A save of a few bytes, with each operation that a save needs; nothing of it stays. So that a file system
  // which refuses one of them shows before there is anything to lose.
  Result<void> rehearse();

  // The newest checkpoint that verifies, and is not in `distrusted`. ErrorKind::usage where that one is of
  // another model or precision, ErrorKind::io where a file cannot be read at all, corrupt_checkpoint where it
  // is of another version: a resumed run must not quietly go back.
  Result<Resumable> find_resumable(const std::vector<std::string>& distrusted = {});

  // One checkpoint by path: verified, and of this model, or an error (corrupt_checkpoint; usage also where
  // there is none).
  Result<FoundCheckpoint> open(const std::string& path);

  // Checks by its small files alone that a checkpoint is of this model, before a plan is made for a model
  // that cannot be resumed. ErrorKind::usage if it was trained otherwise. A damaged or missing checkpoint is
  // no error here: find_resumable() and open() report it.
  static Result<void> check_trained_alike(const std::string& path, const ModelGraph&);

  // The run goes on from `found`: what lies ahead of it in run_dir belongs to a branch that is left, and the
  // newest must be of the branch that goes on. Sets those aside as checkpoint-<step>.abandoned, where nothing
  // counts, finds or deletes them any more, and names one that was set aside before and is gone on from what
  // it was. `found.path` follows. Returns the new paths of those set aside, ascending.
  Result<std::vector<std::string>> follow(FoundCheckpoint& found);
  // Where save() puts a step's checkpoint.
  std::string path_of(u64 step) const;

  // Momentum, variance, parameters and masters of a checkpoint that open() or find_resumable() returned,
  // which are hashed as they are read: ErrorKind::corrupt_checkpoint where they are not what was written.
  // Then the state is of no use; finish() was not called.
  Result<void> restore(const FoundCheckpoint&, StateWriter&);

  // Of the state as it is now, without a save: XXH3-64 over each tensor's name and parameter bytes, in
  // the model's order. The same as in the manifest of a checkpoint of this state.
  Result<u64> weights_xxh3(StateReader&);

  CheckpointStore(const CheckpointStore&) = delete;

 private:
  CheckpointStore(const CheckpointOptions&, const ModelGraph&, std::unique_ptr<Files>);

  Result<SavedCheckpoint> write_all(const std::string& directory, const TrainerState&, StateReader&);
  Result<void> put_in_place(const std::string& temporary, const std::string& path);
  Result<FoundCheckpoint> verify(const std::string& path);
  std::vector<u64> to_go(const Rotation&, const std::vector<u64>& steps) const;
  Result<void> remove_checkpoint(u64 step);
  bool is_whole(const std::string& path);
  bool is_restored(const std::string& file) const;
  Result<void> check_model(const FoundCheckpoint&);
  Result<void> compare_model(const std::string& path) const;
  static Result<void> check_model_config(const std::string& path, const ModelGraph&);
  static Result<void> check_adapter_config(const std::string& path, const ModelGraph&);

  Result<void> add_model_config(std::vector<CarriedFile>&) const;
  Result<std::vector<ListedFile>> write_small_files(const std::string& directory, const TrainerState&);

  const std::string run_dir_;
  const Bytes max_shard_size_;
  const std::string source_config_;
  const std::vector<CarriedFile> carried_;
  const bool read_back_;
  const ModelGraph& graph_;
  std::unique_ptr<Files> files_;
  std::vector<std::byte> buffer_;
};

// What one checkpoint takes on disk, but for a few KiB of JSON; and the largest of its files.
Bytes checkpoint_bytes(const ModelGraph&);
Bytes checkpoint_file_bytes_max(const ModelGraph&);

// Steps of the checkpoint-<step> directories in `run_dir`, ascending. Unverified. None where there is no such
// directory; ErrorKind::io where it cannot be read.
Result<std::vector<u64>> checkpoint_steps(const std::string& run_dir);

struct FoundWeights {
  std::optional<std::string> path;        // nothing: there is no checkpoint
  std::vector<SteppedOver> stepped_over;  // newer ones whose weights do not verify
};
// The newest checkpoint of `run_dir` whose model verifies. ErrorKind::corrupt_checkpoint where none does. One
// that a run rotates away meanwhile is not damaged: its successor is taken.
Result<FoundWeights> find_weights(const std::string& run_dir, Bytes buffer);
// Verifies that manifest.json and all files of the model, or of the adapters, are what was written: weights,
// config, tokenizer, templates. Files that only training needs are left out. corrupt_checkpoint; usage: it
// is no checkpoint.
Result<void> verify_model(const std::string& checkpoint, Bytes buffer);
// The same of any model directory, if it is a checkpoint of ours: others have no hashes.
Result<void> verify_model_if_hashed(const std::string& directory, Bytes buffer);
// The error that names what is wrong with each.
Error none_is_good(const std::string& run_dir, const std::vector<SteppedOver>&);

}  // namespace tidepool
