// What the files of a source are: tokens as they lie, text for a tokenizer, or records.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "config/config.h"
#include "data/files/find_files.h"

namespace tidepool {

enum class FileKind : u8 { tokens, text, records };

struct SourceFiles {
  std::vector<FoundFile> found;
  std::vector<FileKind> kinds;
  bool holds(FileKind kind) const { return std::ranges::find(kinds, kind) != kinds.end(); }
};

// By its name: .jsonl or .ndjson, packed or not.
bool is_jsonl(const std::string& path);

// What the files of one source are; empty ones that are not named by themselves are left out. Text that is
// neither packed nor met by a tokenizer is tokens as it lies: its bytes. ErrorKind::bad_input where tokens
// and documents are mixed; ErrorKind::usage where data.records says what records are, and a .json is none.
Result<SourceFiles> files_of(std::vector<FoundFile>, const DataConfig&, bool tokenizer);
// One source for each entry of data.train where there are weights, else one of all. ErrorKind::usage where
// data.records says what records are, and there are none.
Result<std::vector<SourceFiles>> all_sources(const DataConfig&, bool tokenizer);

// Yes: data.validation, if there is any, is all that will be read.
enum class HeldOutAlone : u8 { no, yes };
// RETURNS: true if a sequence may hold several documents, because files of data.train or data.validation hold
// documents and not tokens in a row. Reads no more than how files begin; errors as of files_of.
Result<bool> may_share_rows(const DataConfig&, bool tokenizer, HeldOutAlone = HeldOutAlone::no);

}  // namespace tidepool
