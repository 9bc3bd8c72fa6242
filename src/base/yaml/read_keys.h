// read_keys() reads maps of YAML files that people write. Each key is a plain word and occurs once, and every
// error names its place, FILE:LINE.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace YAML {
class Exception;
class Node;
}  // namespace YAML

namespace tidepool {

// ErrorKind::usage, "PLACE: TEXT".
Error fault_at(const std::string& place, std::string_view text);

// RETURNS: ErrorKind::usage for a text that YAML refuses, with the line; also what to do about a tab there.
Error not_yaml(std::string_view file, std::string_view text, const YAML::Exception&);

std::string place_in(std::string_view file, const YAML::Node&);

// RETURNS: the one document of a file; null if it is empty. ErrorKind::usage if a second one follows: `---`
// in a text that was put together of two, of which the second would be ignored. Throws YAML::Exception.
Result<YAML::Node> only_document(std::string_view file, std::string_view text);

using ReadKey =
    std::function<Result<void>(const std::string& place, const std::string& key, const YAML::Node& value)>;

// Calls `read` for each entry of a map, in order.
// REQUIRES: IsMap().
Result<void> read_keys(std::string_view file, const YAML::Node& map, const ReadKey& read);

// Reads the map that is a section's body; an error if the body is no map.
Result<void> read_section(std::string_view file, std::string_view section, const YAML::Node& keys,
                          const ReadKey& read);

}  // namespace tidepool
