// Writers of small files: FileReplacement replaces a file whole, AppendLog appends to a log. If the process
// or the machine stops at any moment, readers see the old text or the new text, and in a log at most the last
// record is torn.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/errno_text.h"
#include "base/fd.h"
#include "base/result.h"
#include "base/types.h"

namespace tidepool {

// ErrorKind::io if something exists at `path` that is not a regular file: a pipe, a device, a link.
Result<void> check_can_be_file(const std::string& path);

// FileReplacement writes a new text to `path`.tmp-<pid>, which follows no link and replaces nothing.
// The temporary file takes the permissions of the old file, and commit() renames it to `path`. Anything but a
// regular file at `path` is refused, also a link: neither the link nor its target is changed. Errors are
// ErrorKind::io and name operation, path, reason and what to do; `use` selects the advice. THREADS: one
// writer per path and process at a time; processes do not disturb each other.
class FileReplacement {
 public:
  // Removes temporary files that dead writers of this file left.
  static Result<FileReplacement> begin(const std::string& path, FileUse use);
  Result<void> append(std::string_view);
  // Durable on return: fsync of the file, rename, fsync of its directory.
  Result<void> commit();

  // Without commit() the temporary file is removed.
  ~FileReplacement() { drop(); }
  FileReplacement(FileReplacement&& o) noexcept
      : path_(std::move(o.path_)),
        temporary_(std::exchange(o.temporary_, {})),
        use_(o.use_),
        fd_(std::move(o.fd_)) {}
  FileReplacement& operator=(FileReplacement&&) = delete;

 private:
  FileReplacement(std::string path, FileUse use);
  void drop();
  Error error(const char* operation) const;  // for the current errno

  std::string path_, temporary_;  // temporary_ is empty if there is no temporary file
  FileUse use_;
  Fd fd_;
};

Result<void> replace_file(const std::string& path, std::string_view text, FileUse use);

// Creates the directory and its missing parents, each durable in its parent.
Result<void> make_directories(const std::string& path, FileUse use);
// Makes a directory's entries durable. If the file system cannot sync directories, that is no error.
Result<void> sync_directory(const std::string& path, FileUse use);

// AppendLog is a file that is only appended to, record by record.
// THREADS: one at a time.
class AppendLog {
 public:
  static Result<AppendLog> open(const std::string& path, FileUse use);
  // Appends the whole record, or returns an error and appends nothing: a partial record is cut off, at the
  // latest before the next record. A kill loses nothing that was appended; a power cut may lose records after
  // the last sync().
  Result<void> append(std::string_view record);
  Result<void> sync();

 private:
  AppendLog(std::string path, FileUse use, Fd fd, u64 end)
      : path_(std::move(path)), use_(use), fd_(std::move(fd)), end_(end) {}
  Result<void> cut_torn_record();

  std::string path_;
  FileUse use_;
  Fd fd_;
  u64 end_;  // end of the last whole record
  bool torn_ = false;
};

}  // namespace tidepool
