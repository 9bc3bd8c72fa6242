// ListedFile holds the length and XXH3 of one file. Checkpoints and run directories keep lists of such
// entries. One function checks a file against its entry.
#pragma once

#include <boost/json/fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

// Only subfolder that a listed directory may have: transformers reads named chat templates from it.
inline constexpr std::string_view template_folder = "additional_chat_templates/";

// True if `file` lies beside the list or in template_folder, and names no other directory and has no
// character that JSON would have to escape.
bool is_file_name(std::string_view name);

struct ListedFile {
  std::string file;
  u64 bytes = 0;
  u64 xxh3 = 0;
  bool operator==(const ListedFile&) const = default;
};

// Null: no file of that name is listed.
const ListedFile* find_listed(std::span<const ListedFile>, std::string_view file);

// `  "files": {...},` as whole lines: an entry of a JSON object that has further entries.
std::string file_list_text(std::span<const ListedFile>);
// Parses the value of that entry; none if it is not such a list.
std::optional<std::vector<ListedFile>> parse_file_list(const boost::json::value*);

// Parses 16 hex digits; none if the value is no such text.
std::optional<u64> parse_hash(const boost::json::value*);

// Checks that the file exists and has the listed length. Errors as in check_file().
Result<void> check_length(const std::string& directory, const ListedFile&);
// Streams `directory`/`file` through `buffer`, and compares length and hash. Errors name file and reason:
// corrupt_checkpoint if the file is missing or differs, io if reading fails.
Result<void> check_file(const std::string& directory, const ListedFile&, std::span<std::byte> buffer);

// List of the files that a run copies from its model directory (docs/file-formats.md). It lies beside them.
inline constexpr const char* kept_list_file = "checksums.json";
std::string kept_list_text(std::span<const ListedFile>);
// RETURNS: the list; none if the file does not exist, because an older Tidepool wrote the run.
// Errors: ErrorKind::corrupt_checkpoint if the list is damaged.
Result<std::optional<std::vector<ListedFile>>> read_kept_list(const std::string& directory);

}  // namespace tidepool
