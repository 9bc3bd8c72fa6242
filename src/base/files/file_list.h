// Lists of files with their length and XXH3: what checkpoints and run directories say of the files in them.
// One function checks a file against its entry.
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

// The only folder that a listed directory has: transformers looks there for templates with names.
inline constexpr std::string_view template_folder = "additional_chat_templates/";

// A file beside the list or in that folder: no path to elsewhere, and nothing that JSON would have to escape.
bool is_file_name(std::string_view name);

struct ListedFile {
  std::string file;
  u64 bytes = 0;
  u64 xxh3 = 0;
  bool operator==(const ListedFile&) const = default;
};

// Null: there is none of that name.
const ListedFile* find_listed(std::span<const ListedFile>, std::string_view file);

// `  "files": {...},` in lines that are ended: an entry of an object that goes on behind it.
std::string file_list_text(std::span<const ListedFile>);
// The value of that entry; none where it is no such list.
std::optional<std::vector<ListedFile>> parse_file_list(const boost::json::value*);

// 16 hex digits; none where it is no such text.
std::optional<u64> parse_hash(const boost::json::value*);

// Checks that the file is there and as long as it was. Errors as of check_file.
Result<void> check_length(const std::string& directory, const ListedFile&);
// Streams `directory`/`file` through `buffer`, and compares length and hash. The error names file and reason:
// corrupt_checkpoint where the file is another or missing, io where it cannot be read.
Result<void> check_file(const std::string& directory, const ListedFile&, std::span<std::byte> buffer);

// List of the files that a run keeps of its model directory (docs/file-formats.md), beside them.
inline constexpr const char* kept_list_file = "checksums.json";
std::string kept_list_text(std::span<const ListedFile>);
// ErrorKind::corrupt_checkpoint where it is damaged. None where there is none: the run is of an older
// Tidepool.
Result<std::optional<std::vector<ListedFile>>> read_kept_list(const std::string& directory);

}  // namespace tidepool
