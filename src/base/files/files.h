// What checkpoints ask of a file system, wrapped once so that tests can fail any single operation.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/errno_text.h"
#include "base/result.h"
#include "base/types.h"

namespace tidepool {

// A file being written. Dropping it before finish() leaves a file that nobody may trust.
class OutputFile {
 public:
  virtual ~OutputFile() = default;
  // Blocks. Short writes are continued.
  virtual Result<void> append(std::span<const std::byte>) = 0;
  // Who may read and write it, as in chmod; without, 0644 as far as umask lets. REQUIRES: nothing appended
  // yet.
  virtual Result<void> set_mode(u32) { return {}; }
  // On return everything appended is on the medium, or an error says that it may not be.
  virtual Result<void> finish() = 0;
};

// Errors are ErrorKind::io and name operation, path and reason. One thread at a time.
class Files {
 public:
  virtual ~Files() = default;
  // A new file, or an existing one emptied. `expected` bytes are reserved at once where the file
  // system can, so that a full disk is found before the long write and not after it.
  virtual Result<std::unique_ptr<OutputFile>> create(const std::string& path, Bytes expected) = 0;
  virtual Result<void> make_directory(const std::string& path) = 0;
  // Makes the directory's entries durable: files created in it, renames into and out of it.
  virtual Result<void> sync_directory(const std::string& path) = 0;
  // Takes the place of an empty directory or of nothing. Atomic.
  virtual Result<void> rename(const std::string& from, const std::string& to) = 0;
  // Whatever is there, with everything in it. Nothing there is no error.
  virtual Result<void> remove(const std::string& path) = 0;
  // RETURNS: true if something has failed for want of room since the last call.
  virtual bool take_ran_full() { return false; }
};

// `use` decides what errors advise.
std::unique_ptr<Files> create_posix_files(FileUse use = FileUse::run);

// "cannot write FILE: No space left on device ...": what happened, and what to do about it.
Error output_error(const char* operation, const std::string& path, int error_number,
                   FileUse use = FileUse::run);

}  // namespace tidepool
