// Opens the tokenized documents of a config's sources.
#pragma once

#include <string>
#include <vector>

#include "data/batches/document_dataset.h"
#include "data/documents/open_encoder.h"
#include "data/files/source_files.h"

namespace tidepool {

struct OpenedDocuments {
  std::vector<DocumentDataset::Source> sources;
  std::vector<std::string> notes;  // one line per source
};

// REQUIRES: no source holds tokens; place.cache is set.
// `row_tokens`: a text with a label is cut there.
Result<OpenedDocuments> open_documents(const std::vector<SourceFiles>&, const DataConfig&, u32 vocab_size,
                                       u32 row_tokens, const DataPlace&);

struct ShownDocument {
  struct Run {
    bool learned = false;
    u64 tokens = 0;
    std::string text;
  };
  std::string place;
  u64 tokens = 0, learned = 0;
  std::vector<Run> runs;  // alternating learned and not learned; the first token never is
};
struct ShownDocuments {
  std::vector<ShownDocument> documents;
  std::vector<std::string> notes;
};
// Shows the first documents of each source as training would get them. Writes nothing. A text file is shown
// up to the end of its first part.
Result<ShownDocuments> first_documents(const std::vector<SourceFiles>&, const DataConfig&, u32 vocab_size,
                                       u32 row_tokens, const std::string& model_directory, u64 count);

}  // namespace tidepool
