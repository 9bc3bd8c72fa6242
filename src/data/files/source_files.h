// SourceFiles are the files of a source with their kinds: raw tokens, text for a tokenizer, or records.
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

// True for the names *.jsonl and *.ndjson, also compressed, in capital or small letters.
bool is_jsonl(const std::string& path);

// Determines the kind of each file of one source. Skips empty files, unless named explicitly. Uncompressed
// text without a tokenizer counts as tokens: its bytes.
// Error: bad_input if tokens and documents are mixed; usage if data.records is set and a .json file is not
// records.
Result<SourceFiles> files_of(std::vector<FoundFile>, const DataConfig&, bool tokenizer);
// One source per entry of data.train if there are weights, else one source for all entries.
// Error: usage if data.records is set but there are no records.
Result<std::vector<SourceFiles>> all_sources(const DataConfig&, bool tokenizer);

// `yes`: only data.validation will be read, if it is set.
enum class HeldOutAlone : u8 { no, yes };
// RETURNS: true if a sequence may hold several documents, because data.train or data.validation has documents
// and not only consecutive tokens. Reads only the beginnings of files.
// Error: as files_of().
Result<bool> may_share_rows(const DataConfig&, bool tokenizer, HeldOutAlone = HeldOutAlone::no);

}  // namespace tidepool
