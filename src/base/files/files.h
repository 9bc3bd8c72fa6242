// Files is the file system as checkpoints use it, wrapped once so that tests can fail any single operation.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/errno_text.h"
#include "base/result.h"
#include "base/types.h"

namespace tidepool {

// OutputFile is a file being written. If it is destroyed before finish(), its content must not be trusted.
class OutputFile {
 public:
  virtual ~OutputFile() = default;
  // Appends all bytes; short writes are continued. Blocks.
  virtual Result<void> append(std::span<const std::byte>) = 0;
  // Sets permissions, as chmod does. Without a call: 0644 less the umask.
  // REQUIRES: nothing appended yet.
  virtual Result<void> set_mode(u32) { return {}; }
  // When it returns, all appended bytes are on the medium, or the error says that they may not be.
  virtual Result<void> finish() = 0;
};

// Errors are ErrorKind::io and name operation, path and reason.
// THREADS: one at a time.
class Files {
 public:
  virtual ~Files() = default;
  // Creates a file, or empties an existing file. Reserves `expected` bytes at once if the file system can, so
  // that a full disk is found before the long write and not after it.
  virtual Result<std::unique_ptr<OutputFile>> create(const std::string& path, Bytes expected) = 0;
  virtual Result<void> make_directory(const std::string& path) = 0;
  // Makes the directory's entries durable: files created in it, renames into and out of it.
  virtual Result<void> sync_directory(const std::string& path) = 0;
  // Renames atomically.
  // REQUIRES: `to` is an empty directory or does not exist.
  virtual Result<void> rename(const std::string& from, const std::string& to) = 0;
  // Removes a file, or a directory with all its content. No error if nothing exists at `path`.
  virtual Result<void> remove(const std::string& path) = 0;
  // RETURNS: true if an operation has failed since the last call because the disk was full.
  virtual bool take_ran_full() { return false; }
};

// `use` selects the advice in errors.
std::unique_ptr<Files> create_posix_files(FileUse use = FileUse::run);

// "cannot write FILE: No space left on device ...": what failed, and what to do.
Error output_error(const char* operation, const std::string& path, int error_number,
                   FileUse use = FileUse::run);

}  // namespace tidepool
