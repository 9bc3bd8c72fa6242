// Reads and writes machine files: commented YAML, written by `tidepool probe` and by hand.
// docs/machine-files.md describes them for users.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "tidepool/machine.h"

namespace tidepool {

// Errors: ErrorKind::usage, naming file, line and key: unreadable, not YAML, unknown key (with the nearest
// known key), wrong type, a rate that is not positive, a missing required key.
Result<Machine> load_machine(const std::string& path);
Result<Machine> parse_machine(std::string_view yaml, std::string_view file_name);

// Extra text for the comment above a key, by "section.key" ("copies.h2d"; "name").
using MachineRemarks = std::map<std::string, std::string>;

// Writes a comment per key with its meaning and unit. parse_machine(to_yaml(m)) equals m.
std::string to_yaml(const Machine&, const MachineRemarks& = {});

}  // namespace tidepool
