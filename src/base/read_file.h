// Readers of whole ranges and of whole small files, with errors that name the file.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"
#include "base/types.h"

namespace tidepool {

struct InputFile {
  Fd fd;
  u64 bytes = 0;
};

// `error_kind` says what a missing or short file means to the caller: bad_input for the user's model,
// corrupt_checkpoint for our checkpoints. All other failures (a device error, permissions, too many open
// files) say nothing about the content and are ErrorKind::io.
Result<InputFile> open_input(const std::string& path, ErrorKind error_kind);
Result<void> read_exactly(const Fd&, const std::string& path, u64 offset, std::span<std::byte> out,
                          ErrorKind error_kind);
Result<std::string> read_small_file(const std::string& path, u64 bytes_max, ErrorKind error_kind);

// WrittenFile describes a file that people write and name: a config, a machine file.
struct WrittenFile {
  std::string_view what;    // "the config"
  std::string_view advice;  // "name a YAML file"
  u64 bytes_max = mib;      // a longer file is refused: it cannot be of this kind
  ErrorKind error_kind = ErrorKind::usage;
  Nanos patience{10'000'000'000};  // timeout for a pipe, each time that no bytes arrive
};
// Reads the whole text. Reads pipes that a shell passes, too, such as /dev/stdin and `<(sed ...
// config.yaml)`, and waits for their writer no longer than `patience`. Refuses devices, sockets, directories,
// and pipes with a name. Errors: `error_kind` if the path is at fault, ErrorKind::io if a read fails.
Result<std::string> read_written_file(const std::string& path, const WrittenFile&);

// RETURNS: true if `path` exists. A path that cannot be inspected counts as missing.
bool is_there(const std::string& path);

}  // namespace tidepool
