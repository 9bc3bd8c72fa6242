// Text that is sealed: JSON whose last entry hashes the lines above it, so that no bit of a small file can
// flip unnoticed.
#pragma once

#include <string>
#include <string_view>

namespace tidepool {

// Closes an object with its seal. `lines`: the object from "{\n" on, without its closing brace, each line
// ended, and a comma behind the last entry.
std::string sealed(std::string lines);
// The same of a whole object, "{\n  ...\n}\n", that has at least one entry.
std::string sealed_object(std::string object);

// Text whose last line is a comment, "# xxh3 of the lines above: HASH", that seals what people may read and
// edit. comment_is_broken(): it has such a line, and that is not what the lines above it come to;
// comment_holds(): it has one, and it is.
std::string sealed_by_comment(std::string text);
bool comment_is_broken(std::string_view text);
bool comment_holds(std::string_view text);

// RETURNS: true if the text is exactly what sealed() made.
bool seal_holds(std::string_view text);

}  // namespace tidepool
