// override_value() reads the value of `key=value`, as people write it in a shell.
#pragma once

#include <string>

#include "base/result.h"

namespace YAML {
class Node;
}  // namespace YAML

namespace tidepool {

// Only brackets and quotes are parsed as YAML; anything else is taken literally, including colons. `is_list`:
// of a key that holds a list, so "a, b" means [a, b]. Errors: usage, naming `place`.
Result<YAML::Node> override_value(const std::string& place, const std::string& text, bool is_list);

}  // namespace tidepool
