// Opens the dataset that fits a config's files.
#include "data/batches/open_dataset.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>
#include <utility>

#include "data/batches/held_out_files.h"
#include "data/batches/open_documents.h"
#include "data/batches/token_dataset.h"
#include "data/files/token_file.h"

namespace tidepool {
namespace {

// A sequence needs at least a first token and a second one to predict.
constexpr u64 tokens_least = 2;

// Device and inode: two names of the same file have the same identity.
std::pair<u64, u64> identity_of(const FoundFile& file) {
  struct stat st {};
  return ::stat(file.path.c_str(), &st) == 0 ? std::pair<u64, u64>{st.st_dev, st.st_ino}
                                             : std::pair<u64, u64>{};
}

// Warnings about held-out files whose loss would be misleading.
std::vector<std::string> notes_of(const std::vector<SourceFiles>& train, const SourceFiles& held_out) {
  std::vector<std::string> out;
  std::set<std::pair<u64, u64>> trained;
  for (const SourceFiles& source : train)
    for (const FoundFile& file : source.found) trained.insert(identity_of(file));
  u64 both = 0;
  for (const FoundFile& file : held_out.found) both += trained.contains(identity_of(file)) ? 1 : 0;
  if (both > 0)
    out.push_back(fmt::format(
        "data: files of data.validation that are also in data.train, and trained on: {} of {}; their loss "
        "says nothing about other texts: leave these files out of data.train",
        both, held_out.found.size()));
  const bool tokens =
      std::ranges::any_of(train, [](const SourceFiles& source) { return source.holds(FileKind::tokens); });
  if (tokens != held_out.holds(FileKind::tokens))
    out.push_back(
        fmt::format("data: data.train is read as {}, data.validation as {}: their losses cannot be compared",
                    tokens ? "tokens in a row" : "documents", tokens ? "documents" : "tokens in a row"));
  return out;
}

// The keys of lines that an objective takes.
std::string_view keys_of(Documents documents) {
  switch (documents) {
    case Documents::any:
      return "\"text\", \"messages\" or \"prompt\"";
    case Documents::labelled:
      return "\"text\" and \"label\"";
    case Documents::pairs:
    case Documents::prompted_pairs:
    case Documents::scored_pairs:
      return "\"chosen\" and \"rejected\"";
    case Documents::judged:
      return "\"prompt\", \"completion\" and \"label\"";
    case Documents::rollouts:
      return "\"prompt\", \"completions\" and \"rewards\"";
    case Documents::token_labels:
      return "\"tokens\" and \"labels\"";
    case Documents::distributions:
      return "\"input_ids\", \"teacher_topk_ids\" and \"teacher_topk_logps\"";
  }
  return "";
}

// Only records have labels or units.
Result<void> check_are_records(const std::vector<SourceFiles>& sources, Documents documents) {
  for (const SourceFiles& source : sources)
    for (size_t i = 0; i < source.found.size(); ++i)
      if (source.kinds[i] != FileKind::records)
        return Error{ErrorKind::usage,
                     fmt::format("{}: holds no records; this objective takes JSONL files whose lines have {}",
                                 source.found[i].path, keys_of(documents))};
  return {};
}

}  // namespace

Result<std::unique_ptr<Dataset>> open_sources(const std::vector<SourceFiles>& sources,
                                              const DataConfig& config, u32 vocab_size, u32 sequence_length,
                                              u64 seed, const DataPlace& place) {
  const auto tokens =
      std::ranges::find_if(sources, [](const SourceFiles& s) { return s.holds(FileKind::tokens); });
  const Documents documents = config.units.documents;
  if (documents != Documents::any || config.labelled)
    TRY(check_are_records(sources, documents != Documents::any ? documents : Documents::labelled));
  if (config.units.taught && tokens != sources.end())
    return Error{ErrorKind::usage,
                 fmt::format("{}: holds tokens in a row, or text without a tokenizer, and a teacher reads "
                             "documents; write JSONL, or name a tokenizer with data.tokenizer",
                             tokens->found[0].path)};
  if (tokens == sources.end()) {
    TRY_ASSIGN(OpenedDocuments opened, open_documents(sources, config, vocab_size, sequence_length, place));
    TRY_ASSIGN(std::unique_ptr<DocumentDataset> made,
               DocumentDataset::create(config, std::move(opened.sources), vocab_size, sequence_length, seed,
                                       std::move(opened.notes)));
    return std::unique_ptr<Dataset>(std::move(made));
  }
  if (!config.weights.empty())
    return Error{ErrorKind::bad_input,
                 fmt::format("{}: holds tokens, or text without a tokenizer, but "
                             "data.weights mixes documents only; leave data.weights out",
                             tokens->found[0].path)};
  for (const FoundFile& file : tokens->found) {
    TRY_ASSIGN(const TokenFile opened, TokenFile::open(file.path, config.format));
    if (opened.format() == DataFormat::text) TRY(check_no_other_tokenizer(place.model_directory));
  }
  TRY_ASSIGN(std::unique_ptr<TokenDataset> made,
             TokenDataset::open(config, tokens->found, vocab_size, sequence_length, seed,
                                place.short_files ? tokens_least : 0, place.use));
  return std::unique_ptr<Dataset>(std::move(made));
}

Result<std::unique_ptr<Dataset>> Dataset::open(const DataConfig& config, u32 vocab_size, u32 sequence_length,
                                               u64 seed, const DataPlace& place) {
  TRY_ASSIGN(const std::vector<SourceFiles> sources,
             all_sources(config, has_tokenizer(config, place.model_directory)));
  if (config.validation.empty())
    return open_sources(sources, config, vocab_size, sequence_length, seed, place);
  DataConfig rest = config;
  rest.validation_fraction = 0;
  TRY_ASSIGN(std::unique_ptr<Dataset> train,
             open_sources(sources, rest, vocab_size, sequence_length, seed, place));
  TRY_ASSIGN(HeldOutFiles files, HeldOutFiles::open(config, vocab_size, sequence_length, place));
  std::vector<std::string> notes = notes_of(sources, files.files());
  return std::unique_ptr<Dataset>(
      std::make_unique<DatasetAndFiles>(std::move(train), std::move(files), std::move(notes)));
}

}  // namespace tidepool
