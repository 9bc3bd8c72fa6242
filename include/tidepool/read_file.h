// Reading whole ranges and whole small files, with errors that name the file.
#pragma once

#include <span>
#include <string>

#include "tidepool/fd.h"
#include "tidepool/result.h"
#include "tidepool/types.h"

namespace tidepool {

struct InputFile {
  Fd fd;
  u64 bytes = 0;
};

// `error_kind` is what a missing or short file is to the caller: bad_input of the user's model,
// corrupt_checkpoint of ours. Anything else that keeps it from being read (a fault of the device, permissions,
// too many open files) says nothing about its content and is ErrorKind::io.
Result<InputFile> open_input(const std::string& path, ErrorKind error_kind);
Result<void> read_exactly(const Fd&, const std::string& path, u64 offset, std::span<std::byte> out,
                          ErrorKind error_kind);
Result<std::string> read_small_file(const std::string& path, u64 bytes_max, ErrorKind error_kind);

}  // namespace tidepool
