// Which kind of dataset a config's files are.
#include <fmt/format.h>

#include <algorithm>

#include "data/open_documents.h"
#include "data/token_dataset.h"

namespace tidepool {

Result<std::unique_ptr<Dataset>> Dataset::open(const DataConfig& config, u32 vocab_size, u32 sequence_length,
                                               u64 seed, const DataPlace& place) {
  TRY_ASSIGN(const bool tokenizer, has_tokenizer(config, place.model_directory));
  TRY_ASSIGN(const std::vector<SourceFiles> sources, all_sources(config, tokenizer));
  const auto tokens =
      std::ranges::find_if(sources, [](const SourceFiles& s) { return s.holds(FileKind::tokens); });
  if (tokens == sources.end()) {
    TRY_ASSIGN(OpenedDocuments opened, open_documents(sources, config, vocab_size, place));
    TRY_ASSIGN(std::unique_ptr<DocumentDataset> made,
               DocumentDataset::create(config, std::move(opened.sources), vocab_size, sequence_length, seed,
                                       std::move(opened.notes)));
    return std::unique_ptr<Dataset>(std::move(made));
  }
  if (!config.weights.empty())
    return Error{ErrorKind::bad_input, fmt::format("{}: is tokens, or text without a tokenizer, and "
                                                   "data.weights mixes documents only; leave the weights out",
                                                   tokens->found[0].path)};
  TRY_ASSIGN(std::unique_ptr<TokenDataset> made,
             TokenDataset::open(config, tokens->found, vocab_size, sequence_length, seed));
  return std::unique_ptr<Dataset>(std::move(made));
}

}  // namespace tidepool
