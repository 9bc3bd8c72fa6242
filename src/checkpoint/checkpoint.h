// CheckpointStore manages the checkpoints of a run directory. They are written completely or not at all,
// verified before use, and never held in memory as a whole. They do not depend on chunk size, budgets or
// devices: the files hold plain tensors under their Hugging Face names, and any Hugging Face tool can open
// the directory.
//
//   checkpoint-<step>/        (.abandoned: set aside when a run resumed from an earlier one)
//     model.safetensors       weights, F32, BF16 or F16; above a size model-0000I-of-0000N.safetensors, and
//                             model.safetensors.index.json
//     config.json             Hugging Face config of the family
//     generation_config.json, tokenizer.json, chat_template.jinja ...: carried files (carried.h)
//     optimizer.safetensors   the optimizer's slots by their prefixes, and master.* (not in fp32), all F32
//     trainer_state.json
//     manifest.json           length and XXH3 of each file; last
//
// A LoRA run's checkpoint holds only the adapters and their state: adapter_model.safetensors and
// adapter_config.json, which PEFT can open, replace model.safetensors and config.json. The frozen model stays
// in its directory.
//
// A save writes to checkpoint-<step>.tmp-<pid>: every file is fsynced, then the directory; then it is
// renamed, and the run directory is fsynced. A kill at any moment leaves older checkpoints unchanged, and at
// worst a directory that sweep() removes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "checkpoint/manifest.h"
#include "checkpoint/trainer_state.h"
#include "huggingface/directory/carried.h"
#include "huggingface/weights/expert_files.h"
#include "tidepool/model_graph.h"
#include "tidepool/state_stream.h"

namespace tidepool {

inline constexpr const char* optimizer_file_name = "optimizer.safetensors";

// Symbolic link in a run directory to the checkpoint with the lowest eval_loss.
inline constexpr const char* best_checkpoint_link = "checkpoint-best";

struct CheckpointOptions {
  std::string run_dir;
  Bytes buffer{4 * mib};                // all the memory for tensors of a save or restore; at least 64 KiB
  Bytes max_shard_size{5'000'000'000};  // of tensors in one file of weights
  std::string source_config;            // config.json of the base model; empty: none
  std::vector<CarriedFile> carried;     // files to copy into every checkpoint
  bool read_back = false;               // save() reads the files back before it renames the directory
};

struct SavedCheckpoint {
  std::string path;
  u64 weights_xxh3 = 0;
  Bytes bytes{};  // of all files
};

// A verified checkpoint: every file is as it was written, except the files that restore() reads: it verifies
// these itself.
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
  std::optional<FoundCheckpoint> found;   // none: start from the beginning
  std::vector<SteppedOver> stepped_over;  // newer ones that failed verification, newest first
};

struct Rotation {
  u64 saved_step = 0;                   // just saved: never deleted
  u64 total_limit = 0;                  // 0: keep all
  u64 best_step = 0;                    // 0: none; this checkpoint is kept, and counted
  std::vector<std::string> distrusted;  // paths that failed verification: deleted first
};

// THREADS: one at a time. All methods block.
class CheckpointStore {
 public:
  // Creates run_dir and allocates the buffer.
  // REQUIRES: `graph` outlives the store.
  static Result<std::unique_ptr<CheckpointStore>> create(const CheckpointOptions&, const ModelGraph& graph,
                                                         std::unique_ptr<Files> = create_posix_files());

  // Removes incomplete directories of killed runs, and moves back a checkpoint that was set aside for a
  // replacement that was never finished.
  // RETURNS: names of what was removed, for the log.
  // REQUIRES: no other process writes to run_dir (the trainer holds the directory's lock), and nothing was
  // saved yet.
  Result<std::vector<std::string>> sweep();

  // Saves the state. The checkpoint is durable on return.
  // Error: io; nothing new is left behind, and older checkpoints are unchanged.
  Result<SavedCheckpoint> save(const TrainerState&, StateReader&);

  // Deletes the oldest checkpoints above the limit. Checkpoints with a step beyond saved_step are neither
  // counted nor deleted: they were skipped on resume, and the run will reach their steps again.
  // RETURNS: the deleted paths.
  // REQUIRES: save() has returned.
  Result<std::vector<std::string>> rotate(const Rotation&);

  // Frees space before a save of `saved_step` is repeated, which failed for lack of space. Deletes what
  // rotate() would delete after the save, but keeps the newest checkpoint that verifies, because the save may
  // fail again.
  // RETURNS: the deleted paths.
  Result<std::vector<std::string>> make_room(const Rotation&);
  // RETURNS: true if a save or a rotation has run out of space since the last call.
  bool take_ran_full() { return files_->take_ran_full(); }

  // Rehearsal: a save of a few bytes with every operation that a save needs; leaves nothing behind. It
  // detects a file system that refuses an operation before there is anything to lose.
  Result<void> rehearse();

  // Finds the newest checkpoint that verifies and is not in `distrusted`.
  // Error: usage if that checkpoint has another model or precision; io if a file cannot be read;
  // corrupt_checkpoint if it has another version. A resumed run must not silently go back to an older one.
  Result<Resumable> find_resumable(const std::vector<std::string>& distrusted = {});

  // Opens one checkpoint by path, and verifies it.
  // Error: corrupt_checkpoint; usage if it has another model, or if there is none.
  Result<FoundCheckpoint> open(const std::string& path);

  // Checks, from small files only, that a checkpoint belongs to this model, before a plan is made for a run
  // that cannot resume. A damaged or missing checkpoint is no error here: find_resumable() and open() report
  // it.
  // Error: usage if the checkpoint belongs to another model.
  static Result<void> check_trained_alike(const std::string& path, const ModelGraph&);

  // Makes `found` the newest checkpoint of run_dir, when a run resumes from it. Later checkpoints belong to
  // an abandoned branch: they are renamed to checkpoint-<step>.abandoned, which no search finds and no
  // rotation deletes. If `found` itself was set aside before, it gets its name back, and `found.path`
  // changes.
  // RETURNS: new paths of the renamed checkpoints, ascending.
  Result<std::vector<std::string>> follow(FoundCheckpoint& found);
  // Sets aside the checkpoints after `step`, as follow() does: the run resumes from a commit of its state.
  // RETURNS: their new paths.
  Result<std::vector<std::string>> set_aside_after(u64 step);
  // Path of the checkpoint that save() makes for a step.
  std::string path_of(u64 step) const;

  // Restores the optimizer's state, parameters and masters from a result of open() or find_resumable(). State
  // in another format than the run's is converted. Hashes the files while reading them. Error:
  // corrupt_checkpoint if a file is not as it was written; the state is unusable then, and finish() was not
  // called.
  Result<void> restore(const FoundCheckpoint&, StateWriter&);

  // XXH3-64 over each tensor's name and parameter bytes in the model's order, for the current state. Equals
  // the hash in the manifest of a checkpoint of this state.
  Result<u64> weights_xxh3(StateReader&);

  CheckpointStore(const CheckpointStore&) = delete;

 private:
  CheckpointStore(const CheckpointOptions&, const ModelGraph&, std::unique_ptr<Files>);

  Result<SavedCheckpoint> write_all(const std::string& directory, const TrainerState&, StateReader&);
  Result<std::vector<std::string>> set_aside(const std::vector<u64>& steps);
  Result<void> put_in_place(const std::string& temporary, const std::string& path);
  Result<FoundCheckpoint> verify(const std::string& path);
  std::vector<u64> to_go(const Rotation&, const std::vector<u64>& steps) const;
  Result<void> remove_checkpoint(u64 step);
  bool is_whole(const std::string& path);
  bool is_restored(const std::string& file) const;
  Result<void> restore_weights(const FoundCheckpoint&, StateWriter&);
  Result<void> convert_optimizer(const FoundCheckpoint&, StateWriter&);
  Result<void> check_model(const FoundCheckpoint&);
  Result<void> compare_model(const std::string& path);
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
  ExpertForm form_;        // of the weights in checkpoints: as the checkpoint that the run resumes from
  bool converts_ = false;  // that checkpoint has the optimizer's state in other formats
  std::unique_ptr<Files> files_;
  std::vector<std::byte> buffer_;
};

// Size of one checkpoint on disk, except for a few KiB of JSON; and the size of its largest file.
Bytes checkpoint_bytes(const ModelGraph&);
Bytes checkpoint_file_bytes_max(const ModelGraph&);

// Steps of the checkpoint-<step> directories in `run_dir`, ascending, not verified.
// RETURNS: an empty list if the directory does not exist.
// Error: io if it cannot be read.
Result<std::vector<u64>> checkpoint_steps(const std::string& run_dir);

struct FoundWeights {
  std::optional<std::string> path;        // none: there is no checkpoint
  std::vector<SteppedOver> stepped_over;  // newer ones whose weights failed verification
};
// Finds the newest checkpoint of `run_dir` whose model verifies. If a running trainer rotates a checkpoint
// away meanwhile, its successor is taken: that is no damage.
// Error: corrupt_checkpoint if no checkpoint verifies.
Result<FoundWeights> find_weights(const std::string& run_dir, Bytes buffer);
// Verifies manifest.json and all files of the model or the adapters: weights, config, tokenizer, templates.
// Skips files that only training needs.
// Error: corrupt_checkpoint; usage if it is not a checkpoint.
Result<void> verify_model(const std::string& checkpoint, Bytes buffer);
// The same for any model directory. A no-op if it is not a checkpoint of Tidepool: other directories have no
// hashes.
Result<void> verify_model_if_hashed(const std::string& directory, Bytes buffer);
// Error that names the fault of each checkpoint.
Error none_is_good(const std::string& run_dir, const std::vector<SteppedOver>&);

}  // namespace tidepool
