// What a model directory holds beside config.json and weights and every tool looks for: the tokenizer in all
// forms, the chat template, how to generate.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/files.h"
#include "checkpoint/manifest.h"

namespace tidepool {

struct CarriedFile {
  std::string name;  // in the directory that is written
  std::string path;  // where its bytes are; empty: `text` is all of it
  std::string text;
};

inline constexpr const char* chat_template_file = "chat_template.jinja";

// Those of them that are there, in an order that never changes.
std::vector<CarriedFile> carried_files(const std::string& directory);
// Those that belong to the tokenizer: they come from one place.
bool is_tokenizer_file(std::string_view name);

// Streams it through `buffer` into `directory`. Durable on return. What cannot be read is ErrorKind::io.
Result<ManifestEntry> write_carried(Files&, const std::string& directory, const CarriedFile&,
                                    std::span<std::byte> buffer);
// As temporary files that take their places one by one; whatever else of carried_files() is there goes. The
// directory is made, and durable on return.
Result<void> replace_carried(Files&, const std::string& directory, const std::vector<CarriedFile>&,
                             std::span<std::byte> buffer);

}  // namespace tidepool
