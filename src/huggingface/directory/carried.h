// What a model directory holds beside config.json and weights and every tool looks for: the tokenizer in all
// forms, the chat template, how to generate.
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
  std::string name;  // in the directory that is written
  std::string path;  // where its bytes are; empty: `text` is all of it
  std::string text;
  std::optional<u64> xxh3 = {};  // what the bytes must come to; none: not known
};

inline constexpr const char* chat_template_file = "chat_template.jinja";

// Those of them that are there, in an order that never changes. ErrorKind::bad_input where one is a link that
// leads out: see carried_file().
Result<std::vector<CarriedFile>> carried_files(const std::string& directory);
// Those that belong to the tokenizer: they come from one place.
bool is_tokenizer_file(std::string_view name);

// One file of a model directory that is to be copied elsewhere. A link is followed where it stays within the
// directory, or within the repository of Hugging Face's cache that the directory is a snapshot of
// (models--ORG--NAME/snapshots/REV/FILE -> ../../blobs/HASH); any other could lead to somebody's secrets, and
// is ErrorKind::bad_input, as is a Git LFS pointer. None: no regular file is there.
Result<std::optional<CarriedFile>> carried_file(const std::string& directory, std::string_view name);

// Streams it through `buffer` into `directory`, with the mode of its source. Durable on return. What cannot
// be read is ErrorKind::io; another content than `xxh3` says is corrupt_checkpoint.
Result<ListedFile> write_carried(Files&, const std::string& directory, const CarriedFile&,
                                 std::span<std::byte> buffer);
// The same under a temporary name that takes the file's place. The caller syncs the directory.
Result<ListedFile> replace_carried_file(Files&, const std::string& directory, const CarriedFile&,
                                        std::span<std::byte> buffer);
// replace_carried_file() of each; whatever else of carried_files() is there goes. Behind them kept_list_file,
// which lists them. The directory is made, and durable on return.
Result<void> replace_carried(Files&, const std::string& directory, const std::vector<CarriedFile>&,
                             std::span<std::byte> buffer);
Result<void> write_kept_list(Files&, const std::string& directory, std::span<const ListedFile>,
                             std::span<std::byte> buffer);

}  // namespace tidepool
