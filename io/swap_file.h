// The swap file and the directory that belongs to one job.
//
// A swap directory holds two files of ours: `tidepool.job` (pid and boot id of the job, and the lock:
// flock is held as long as the job lives) and `tidepool.swap` (the chunks). Both are removed when the job
// ends. They keep their names while it runs: unlinking early would free them after a kill too, but then a
// full disk shows no file to blame. So kill -9 leaves both, without the lock, and the next job in this
// directory recognises and clears them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "io/directory_lock.h"

namespace tidepool {

struct SwapFileOptions {
  std::string dir;       // made if missing; its parent must exist
  Bytes bytes{};         // a multiple of frame_alignment, not 0
  bool own_dir = false;  // nobody's but the jobs': removed at the end, whoever made it
};

class SwapFile {
 public:
  // Locks the directory, clears a dead job's litter, and takes all the space now, so that a full disk is
  // found before the first step. Errors (ErrorKind::io) name the directory and say what to do: missing
  // parent, not writable, tmpfs, locked by a live job, too little space, file size limit.
  static Result<std::unique_ptr<SwapFile>> create(const SwapFileOptions&);
  // Removes both files, and the directory if create() made it and nothing else is in it.
  ~SwapFile();
  SwapFile(const SwapFile&) = delete;
  SwapFile& operator=(const SwapFile&) = delete;

  int fd() const { return fd_; }
  const std::string& path() const { return path_; }
  Bytes bytes() const { return bytes_; }
  // False where the file system refuses O_DIRECT: then reads may come from the page cache.
  bool direct() const { return direct_; }
  // The range reads as zeros from now on: the file system marks it so, or zeros are written.
  Result<void> clear(u64 offset, Bytes);
  // Lines for people: litter cleared, no O_DIRECT, space taken the slow way. Print them.
  std::span<const std::string> notes() const { return notes_; }

 private:
  SwapFile() = default;
  Result<void> lock_directory();
  Result<void> open_file();
  Result<void> take_space();
  Result<void> write_zeros(u64 begin, Bytes, std::string_view why);

  std::string dir_, path_;
  Bytes bytes_{};
  int fd_ = -1;
  DirectoryLock lock_;
  bool direct_ = true;
  bool made_dir_ = false;
  RemovedAtSuddenEnd dir_leftover_, leftover_;
  std::vector<std::string> notes_;
};

// For a job that needs no swap file: clears what a dead one left in `options.dir`, and says so. Empty: there
// was nothing, or a live job has it. `options.bytes` is not looked at.
std::string clear_swap_litter(const SwapFileOptions& options);

inline constexpr const char* swap_file_name = "tidepool.swap";
inline constexpr const char* swap_job_name = "tidepool.job";

// Most that a swap file in `dir` may take: what the file system (of the nearest directory that exists) has
// free, and what a swap file already there would give back: a dead job's is cleared before ours is made.
Result<Bytes> swap_space(const std::string& dir);

}  // namespace tidepool
