// Which kind of dataset a config's files are.
#include "data/open_dataset.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/held_out_files.h"
#include "data/open_documents.h"
#include "data/token_dataset.h"
#include "data/token_file.h"

namespace tidepool {
namespace {

// Tokens of a sequence need a first one and another to predict.
constexpr u64 tokens_least = 2;

// Of data.train alone.
Result<std::unique_ptr<Dataset>> open_train(const DataConfig& config, u32 vocab_size, u32 sequence_length,
                                            u64 seed, const DataPlace& place) {
  const bool tokenizer = has_tokenizer(config, place.model_directory);
  TRY_ASSIGN(const std::vector<SourceFiles> sources, all_sources(config, tokenizer));
  return open_sources(sources, config, vocab_size, sequence_length, seed, place);
}

}  // namespace

Result<std::unique_ptr<Dataset>> open_sources(const std::vector<SourceFiles>& sources,
                                              const DataConfig& config, u32 vocab_size, u32 sequence_length,
                                              u64 seed, const DataPlace& place) {
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
  for (const FoundFile& file : tokens->found) {
    TRY_ASSIGN(const TokenFile opened, TokenFile::open(file.path, config.format));
    if (opened.format() == DataFormat::text) TRY(check_no_other_tokenizer(place.model_directory));
  }
  TRY_ASSIGN(std::unique_ptr<TokenDataset> made,
             TokenDataset::open(config, tokens->found, vocab_size, sequence_length, seed,
                                place.short_files ? tokens_least : 0));
  return std::unique_ptr<Dataset>(std::move(made));
}

Result<std::unique_ptr<Dataset>> Dataset::open(const DataConfig& config, u32 vocab_size, u32 sequence_length,
                                               u64 seed, const DataPlace& place) {
  if (config.validation.empty()) return open_train(config, vocab_size, sequence_length, seed, place);
  DataConfig rest = config;
  rest.validation_fraction = 0;
  TRY_ASSIGN(std::unique_ptr<Dataset> train, open_train(rest, vocab_size, sequence_length, seed, place));
  TRY_ASSIGN(HeldOutFiles files, HeldOutFiles::open(config, vocab_size, sequence_length, place));
  return std::unique_ptr<Dataset>(std::make_unique<DatasetAndFiles>(std::move(train), std::move(files)));
}

}  // namespace tidepool
