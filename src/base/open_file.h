// Opens files for reading and writing. Every path that a user or another program can make passes here, so
// that no command waits for a pipe's other end, touches a device, or writes through a link into a file that
// is not its own.
//
// A file that is written is a regular file. A link is refused there, even one that leads to a regular file. A
// link that is read is followed: the files of a hub's cache are links to blobs.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/errno_text.h"
#include "base/fd.h"
#include "base/result.h"
#include "base/types.h"

namespace tidepool {

// RegularFile is an open file, or the reason why there is none.
struct RegularFile {
  Fd fd;
  std::string irregular;  // "a pipe", "a link to /a/b": something else is there, and was not opened
  int error_number = 0;   // of the system call that failed
  explicit operator bool() const { return static_cast<bool>(fd); }
  // "is a pipe", or the system's text. REQUIRES: there is no file.
  std::string reason() const;
};

// Opens for reading; follows links. `flags`: of open(2), such as O_DIRECT. Never blocks; the returned file
// does.
RegularFile open_to_read(const std::string& path, int flags = 0);
// Opens for reading a file that a run wrote: as open_to_read(), but a link is refused.
RegularFile open_own_to_read(const std::string& path, int flags = 0);
// Opens for writing, or for both with O_RDWR in `flags`; refuses links. O_CREAT, O_EXCL, O_TRUNC, O_APPEND
// and O_DIRECT mean what they mean to open(2). Never blocks; the returned file does.
RegularFile open_to_write(const std::string& path, int flags, mode_t mode = 0666);

// Opens a pipe that a shell passes, as /dev/stdin or `<(command)`; reads do not block. None if `path` is
// anything else, also a pipe with a name of its own (mkfifo), which nobody may ever write to.
Fd open_passed_pipe(const std::string& path);

// RETURNS: what is at `path` if that is no regular file: "a pipe", "a socket", "a device", "a directory", "a
// link to /a/b". Empty: a regular file, or nothing.
std::string irregular_file(const std::string& path);

// Error of a file that cannot be opened or made: "cannot write /a/b: it is a pipe; move it away, or name
// another file", or "cannot OPERATION /a/b: <reason of the system>. <advice>".
Error cannot_write(const char* operation, const std::string& path, const RegularFile&, FileUse);

}  // namespace tidepool
