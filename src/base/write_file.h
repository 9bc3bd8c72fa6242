// Writers of small files: a file that is replaced whole, and a log that is appended to. Whatever ends the
// process or the machine, readers see the old text or the new one, and of a log at most the last record torn.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/errno_text.h"
#include "base/fd.h"
#include "base/result.h"
#include "base/types.h"

namespace tidepool {

// ErrorKind::io where something is there that is no regular file: a pipe would make a writer wait for ever,
// and a device would be replaced by a file.
Result<void> check_can_be_file(const std::string& path);

// The new text of a file, on its way. It is written to `path`.tmp-<pid>, which follows no link and replaces
// nothing, and takes its place, with its permissions, at commit(). A link at `path` is replaced, not
// followed. Errors are ErrorKind::io and name operation, path, reason and what to do; `use` decides the
// advice. THREADS: one writer of a path per process at a time; processes do not disturb each other.
class FileReplacement {
 public:
  // Clears what dead writers of this file left.
  static Result<FileReplacement> begin(const std::string& path, FileUse use);
  Result<void> append(std::string_view);
  // Durable on return: fsync of the file, rename, fsync of its directory.
  Result<void> commit();

  // Without commit() nothing stays of it.
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
  Error error(const char* operation) const;  // of errno

  std::string path_, temporary_;  // the second is empty: there is none
  FileUse use_;
  Fd fd_;
};

Result<void> replace_file(const std::string& path, std::string_view text, FileUse use);

// The directory and those above it that are missing, each durable in the one above.
Result<void> make_directories(const std::string& path, FileUse use);
// Makes a directory's entries durable. A file system that knows no such thing is no error.
Result<void> sync_directory(const std::string& path, FileUse use);

// A file that is only appended to, record by record. One thread at a time.
class AppendLog {
 public:
  static Result<AppendLog> open(const std::string& path, FileUse use);
  // All of the record, or an error and none of it: what was begun is cut off, at the latest before the next
  // record. A kill loses nothing that was appended; a power cut may lose what came after the last sync().
  Result<void> append(std::string_view record);
  Result<void> sync();

 private:
  AppendLog(std::string path, FileUse use, Fd fd, u64 end)
      : path_(std::move(path)), use_(use), fd_(std::move(fd)), end_(end) {}
  Result<void> cut_torn_record();

  std::string path_;
  FileUse use_;
  Fd fd_;
  u64 end_;  // of the last whole record
  bool torn_ = false;
};

}  // namespace tidepool
