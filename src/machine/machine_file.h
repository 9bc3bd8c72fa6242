// Machine files: YAML, commented, written by `tidepool probe` and by hand.
#pragma once

#include <string>
#include <string_view>

#include "tidepool/machine.h"
#include "tidepool/result.h"

namespace tidepool {

// Errors are ErrorKind::usage and name file, line and key: unreadable, not YAML, unknown key (with the
// nearest known one), wrong type, a rate that is not positive, a missing required key.
Result<Machine> load_machine(const std::string& path);
Result<Machine> parse_machine(std::string_view yaml, std::string_view file_name);

// With a comment per key: what it is and its unit. `spread`-like remarks go where the caller puts them.
// parse_machine(to_yaml(m)) gives m again.
std::string to_yaml(const Machine&);

}  // namespace tidepool
