// Carried files: the files of a model directory that every tool expects beside config.json and weights. These
// are the tokenizer in all its forms, the chat template, and the generation config.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/file_list.h"
#include "base/files/files.h"

namespace tidepool {

struct CarriedFile {
  std::string name;  // in the directory that is written to
  std::string path;  // source of the bytes; empty: `text` is the content
  std::string text;
  std::optional<u64> xxh3 = {};  // expected hash of the bytes; none: not known
};

inline constexpr const char* chat_template_file = "chat_template.jinja";

// Lists the carried files that exist in `directory`, always in the same order.
// Error: bad_input if a file is a link out of the directory, see carried_file().
Result<std::vector<CarriedFile>> carried_files(const std::string& directory);
// Lists the files of `directory` that make numbers of images and videos. They belong to a whole wrapper, and
// not to its text model, so neither checkpoints nor runs carry them. Error: as carried_files().
Result<std::vector<CarriedFile>> processor_files(const std::string& directory);
// True for files of the tokenizer. All of them must come from the same place.
bool is_tokenizer_file(std::string_view name);

// Finds one file of a model directory that is to be copied elsewhere. A link is followed if it stays within
// the directory, or within the repository of Hugging Face's cache of which the directory is a snapshot
// (models--ORG--NAME/snapshots/REV/FILE -> ../../blobs/HASH). Other links are refused, because they could
// lead to somebody's secrets.
// RETURNS: none if there is no regular file.
// Error: bad_input for a link that leads out, and for a Git LFS pointer.
Result<std::optional<CarriedFile>> carried_file(const std::string& directory, std::string_view name);

// Copies the file through `buffer` into `directory`, with the mode of its source. Durable on return.
// Error: io if the source cannot be read; corrupt_checkpoint if the content does not match `xxh3`.
Result<ListedFile> write_carried(Files&, const std::string& directory, const CarriedFile&,
                                 std::span<std::byte> buffer);
// The same, but writes a temporary file and renames it over the old one. The caller syncs the directory.
Result<ListedFile> replace_carried_file(Files&, const std::string& directory, const CarriedFile&,
                                        std::span<std::byte> buffer);
// Makes `directory` if needed, calls replace_carried_file() for each file, deletes all other carried files,
// and writes kept_list_file, which lists the files, last. The directory is durable on return.
Result<void> replace_carried(Files&, const std::string& directory, const std::vector<CarriedFile>&,
                             std::span<std::byte> buffer);
Result<void> write_kept_list(Files&, const std::string& directory, std::span<const ListedFile>,
                             std::span<std::byte> buffer);

}  // namespace tidepool
