// SwapFile owns the swap file of one job and locks the directory that holds it.
//
// A swap directory holds two files of ours: `tidepool.job` (pid and boot id of the job, and the lock: the job
// holds its flock as long as it lives) and `tidepool.swap` (the chunks). Both are removed when the job ends.
// Both keep their names while the job runs: unlinking early would free the space after a kill too, but then a
// full disk shows no file to blame. So kill -9 leaves both files, unlocked, and the next job in this
// directory recognises and clears them: unless a state was committed in the swap file (io/state_journal.h),
// which only the job that resumes from it takes over.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "io/directory_lock.h"

namespace tidepool {

struct FoundState;

inline constexpr const char* swap_file_name = "tidepool.swap";
inline constexpr const char* swap_file_of_copy = "tidepool.swap.copy";
inline constexpr const char* swap_job_name = "tidepool.job";

struct SwapFileOptions {
  std::string dir;            // made if missing; its parent must exist
  Bytes bytes{};              // a multiple of frame_alignment, not 0
  bool own_dir = false;       // only jobs use it: removed at the end, whoever made it
  bool makes_parent = false;  // the parent is made too if it is missing, and its own parent must exist
  std::string file = swap_file_name;
  enum class Found : u8 { refuse, take_over, discard };
  Found committed = Found::refuse;  // what happens to a swap file in which a state was committed
  // The committed state as it was read before the directory was locked. Null: none was found.
  const FoundState* found = nullptr;
};

class SwapFile {
 public:
  // Locks the directory, clears a dead job's leftovers, and reserves all the space now, so that a full disk
  // is found before the first step.
  // Errors: ErrorKind::io names the directory and says what to do: missing parent, not writable, tmpfs,
  // locked by a live job, too little space, file size limit. ErrorKind::usage: a state was committed there,
  // or another job has changed `found` before the directory was locked.
  static Result<std::unique_ptr<SwapFile>> create(const SwapFileOptions&);
  // Removes both files, and the directory if create() made it and nothing else is in it. A file that is kept
  // stays.
  ~SwapFile();
  SwapFile(const SwapFile&) = delete;
  SwapFile& operator=(const SwapFile&) = delete;

  // The file holds a state that another process can resume from, so it stays at the end, or no longer.
  void keep(bool);
  // Gives the file another name in its directory, in place of the file that has it, if any. Durable on
  // return.
  Result<void> rename_to(const std::string& name);

  int fd() const { return fd_; }
  const std::string& path() const { return path_; }
  Bytes bytes() const { return bytes_; }
  // False if the file system refuses O_DIRECT: then reads may come from the page cache.
  bool direct() const { return direct_; }
  // Makes the range read as zeros from now on: the file system marks it so, or zeros are written.
  Result<void> clear(u64 offset, Bytes);
  // Lines to print for people: leftovers cleared, no O_DIRECT, space reserved by writing zeros.
  std::span<const std::string> notes() const { return notes_; }

 private:
  SwapFile() = default;
  Result<void> make_parent();
  Result<void> lock_directory();
  Result<void> clear_way(SwapFileOptions::Found);
  Result<void> open_file();
  Result<void> take_space();
  Result<void> sync_names() const;
  Result<void> write_zeros(u64 begin, Bytes, std::string_view why);

  std::string dir_, path_;
  Bytes bytes_{};
  int fd_ = -1;
  DirectoryLock lock_;
  bool direct_ = true;
  bool made_dir_ = false;
  bool takes_over_ = false;
  bool keep_ = false;
  std::string made_parent_;  // empty: it was there
  RemovedAtSuddenEnd parent_leftover_, dir_leftover_, leftover_;
  std::vector<std::string> notes_;
};

// Clears a dead job's leftovers in `options.dir` for a job that needs no swap file. Ignores `options.bytes`.
// RETURNS: a line that says so; empty if there was nothing to clear, or if a live job holds the directory.
std::string clear_swap_litter(const SwapFileOptions& options);

// RETURNS: the largest swap file possible in `dir`: free space of the file system (at the nearest directory
// that exists) plus the space of a swap file already there, because a dead job's file is cleared before ours
// is made.
Result<Bytes> swap_space(const std::string& dir);

}  // namespace tidepool
