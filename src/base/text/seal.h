// Seals are hashes at the end of small text files, so that no flipped bit goes unnoticed. In sealed JSON the
// last entry hashes the lines above it.
#pragma once

#include <string>
#include <string_view>

namespace tidepool {

// Closes an object with its seal.
// REQUIRES: `lines` is the object from "{\n" on without its closing brace; each line is ended, and the last
// entry has a comma.
std::string sealed(std::string lines);
// Seals a whole object, "{\n  ...\n}\n".
// REQUIRES: it has at least one entry.
std::string sealed_object(std::string object);

// Seals text that people may read and edit: the last line is a comment, "# xxh3 of the lines above: HASH".
// comment_is_broken(): the text has such a line, and its hash is wrong.
// comment_holds(): the text has such a line, and its hash is right.
std::string sealed_by_comment(std::string text);
bool comment_is_broken(std::string_view text);
bool comment_holds(std::string_view text);

// RETURNS: true if the text is exactly what sealed() made.
bool seal_holds(std::string_view text);

}  // namespace tidepool
