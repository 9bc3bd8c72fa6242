// Reading whole ranges and whole small files, with errors that name the file.
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

// `error_kind` is what a missing or short file is to the caller: bad_input of the user's model,
// corrupt_checkpoint of ours. Anything else that keeps it from being read (a fault of the device,
// permissions, too many open files) says nothing about its content and is ErrorKind::io.
Result<InputFile> open_input(const std::string& path, ErrorKind error_kind);
Result<void> read_exactly(const Fd&, const std::string& path, u64 offset, std::span<std::byte> out,
                          ErrorKind error_kind);
Result<std::string> read_small_file(const std::string& path, u64 bytes_max, ErrorKind error_kind);

// "a directory", "a pipe", "a device": what the path names where that is there and no regular file; else
// empty.
std::string_view irregular_kind(const std::string& path);

// What people write and name: a config, a machine file.
struct WrittenFile {
  std::string_view what;    // "the config"
  std::string_view advice;  // "name a YAML file"
  u64 bytes_max = mib;      // more is another kind of file
  ErrorKind error_kind = ErrorKind::usage;
  Nanos patience{10'000'000'000};  // with a pipe, each time that nothing comes
};
// The whole text. Pipes are read too, such as /dev/stdin and `<(sed ... config.yaml)`; devices, sockets and
// directories are not. Waits for no writer longer than `patience`. What is wrong with the path is
// `error_kind`, a read that fails ErrorKind::io.
Result<std::string> read_written_file(const std::string& path, const WrittenFile&);

// RETURNS: true if something of that name is there. A path that cannot be looked at counts as missing.
bool is_there(const std::string& path);

}  // namespace tidepool
