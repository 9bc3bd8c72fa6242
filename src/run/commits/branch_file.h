// BranchFile is branch.json in a run's directory: it remembers that steps were committed to a swap file,
// which may be on another disk, and of which branch they are. So a resume knows what is missing if that disk
// is not mounted, and which of two states the run trained last (docs/resume.md).
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/types.h"

namespace tidepool {

inline constexpr const char* branch_file_name = "branch.json";

// A run that resumes from a commit stays on its branch. One that begins, or resumes from a checkpoint, begins
// another branch.
struct BranchNote {
  struct Branch {
    std::string id;
    u64 from = 0;  // step at which it begins
    bool operator==(const Branch&) const = default;
  };
  u64 step = 0;                  // the last one that was committed; 0: none, or nothing counts on it any more
  u64 begun = 0;                 // the last one whose commit was begun: it may have been committed too
  std::string swap_dir;          // holds the commit: an absolute path; empty: `swap` in the run's directory
  std::vector<Branch> branches;  // the one that is trained is last
  bool operator==(const BranchNote&) const = default;

  const std::string& id() const { return branches.back().id; }
  bool knows(const std::string& id) const;
  // RETURNS: the step at which the run left this branch; nullopt: it is trained, or unknown.
  std::optional<u64> left_at(const std::string& id) const;
  // Goes back to a branch: those that the run has begun since are unknown from now on.
  void follow(const std::string& id, u64 step);
  // Begins a branch at `step`, of which nothing is committed yet.
  void begin(std::string id, u64 step);
  // RETURNS: true if a later step than `reached` may have been committed.
  bool is_beyond(u64 reached) const { return std::max(step, begun) > reached; }
  // RETURNS: "steps up to 9", "steps up to 9, perhaps 10," or "perhaps steps up to 10".
  std::string committed_steps() const;
};

// RETURNS: an id that no other branch has.
std::string new_branch_id();

// RETURNS: nullopt: the run has committed nothing. Errors: bad_input if the file is damaged.
Result<std::optional<BranchNote>> read_branch_note(const std::string& run_dir);

class BranchFile {
 public:
  BranchFile() = default;  // remembers nothing
  // Writes the note; durable on return.
  static Result<BranchFile> write(const std::string& run_dir, const BranchNote&);

  // The commit of a step begins, or is durable: written in place, without a flush and without an allocation.
  // So a kill at any moment leaves a step that was committed, and one that is at least the last committed
  // one. After a power cut both may be earlier ones. If the file cannot be written, the earlier steps stay.
  // begins() may be called by another thread than committed().
  void begins(u64 step);
  void committed(u64 step);
  // No commit is needed any more. REQUIRES: none is being written.
  void forget() {
    committed(0);
    begins(0);
  }

 private:
  void write_step(u64 step, u64 offset);

  Fd fd_;
};

}  // namespace tidepool
