// From a config to tokenized documents.
#pragma once

#include <string>
#include <vector>

#include "data/batches/document_dataset.h"
#include "data/documents/open_encoder.h"
#include "data/files/source_files.h"

namespace tidepool {

struct OpenedDocuments {
  std::vector<DocumentDataset::Source> sources;
  std::vector<std::string> notes;  // one line a source
};

// REQUIRES: no source holds tokens; place.cache is named.
Result<OpenedDocuments> open_documents(const std::vector<SourceFiles>&, const DataConfig&, u32 vocab_size,
                                       const DataPlace&);

struct ShownDocument {
  struct Run {
    bool learned = false;
    u64 tokens = 0;
    std::string text;
  };
  std::string place;
  u64 tokens = 0, learned = 0;
  std::vector<Run> runs;  // of tokens that are learned, or not; the first token never is
};
struct ShownDocuments {
  std::vector<ShownDocument> documents;
  std::vector<std::string> notes;
};
// The first documents of each source, as training would have them; nothing is written. A text file is as much
// of it as is a part.
Result<ShownDocuments> first_documents(const std::vector<SourceFiles>&, const DataConfig&, u32 vocab_size,
                                       const std::string& model_directory, u64 count);

}  // namespace tidepool
