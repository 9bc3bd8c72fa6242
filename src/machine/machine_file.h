// Machine files: YAML, commented, written by `tidepool probe` and by hand. docs/machine-files.md tells
// people about them.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "tidepool/machine.h"

namespace tidepool {

// Errors are ErrorKind::usage and name file, line and key: unreadable, not YAML, unknown key (with the
// nearest known one), wrong type, a rate that is not positive, a missing required key.
Result<Machine> load_machine(const std::string& path);
Result<Machine> parse_machine(std::string_view yaml, std::string_view file_name);

// By "section.key" ("copies.h2d"; "name"): what stands in a comment above the key.
using MachineRemarks = std::map<std::string, std::string>;

// With a comment per key: what it is and its unit. parse_machine(to_yaml(m)) gives m again.
std::string to_yaml(const Machine&, const MachineRemarks& = {});

}  // namespace tidepool
