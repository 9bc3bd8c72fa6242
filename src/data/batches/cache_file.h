// Writes files of a cache directory.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"

namespace tidepool {

// RETURNS: an error of the last system call: "PATH: cannot WHAT: <reason of the system>. <advice>".
Error cache_fault(std::string_view what, const std::string& path);
Result<void> write_cache_file(const Fd&, const std::string& path, std::span<const std::byte>);
// Makes the content durable, and closes the file.
Result<void> finish_cache_file(Fd&, const std::string& path);
// RETURNS: true if this process now owns the file: not if another process has locked or removed it.
bool lock_cache_file(const Fd&);

}  // namespace tidepool
