#include "data/batches/token_dataset.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>

#include "base/check.h"
#include "data/batches/shuffle.h"

namespace tidepool {

namespace {

constexpr u32 byte_vocabulary = 256;

}  // namespace

TokenDataset::TokenDataset(const DataConfig& config, u32 vocab_size, u32 sequence_length, u64 seed)
    : vocab_size_(vocab_size), sequence_length_(sequence_length), seed_(seed), shuffle_(config.shuffle) {}

Result<std::unique_ptr<TokenDataset>> TokenDataset::open(const DataConfig& config,
                                                         const std::vector<FoundFile>& found, u32 vocab_size,
                                                         u32 sequence_length, u64 seed, u64 least_tokens,
                                                         DataUse use) {
  CHECK(sequence_length >= 1, sequence_length);
  std::unique_ptr<TokenDataset> data(new TokenDataset(config, vocab_size, sequence_length, seed));
  TRY(data->open_files(config, found));
  TRY(data->check_format());
  TRY(data->check_enough(least_tokens == 0 ? u64{sequence_length} + 1 : least_tokens));
  data->split(config);
  if (use == DataUse::training) TRY(data->take_fingerprint(config));
  return data;
}

Result<void> TokenDataset::open_files(const DataConfig& config, const std::vector<FoundFile>& found) {
  for (const FoundFile& file : found) {
    TRY_ASSIGN(TokenFile opened, TokenFile::open(file.path, config.format));
    if (opened.tokens() == 0 && file.by != FoundBy::name) continue;  // ignored in a directory
    if (opened.tokens() == 0)
      return bad_input(fmt::format("{}: the data file is empty; put text or tokens into it", file.path));
    file_begin_.push_back(tokens_);
    tokens_ += opened.tokens();
    files_.push_back(std::move(opened));
  }
  if (files_.empty()) return bad_input(fmt::format("{}: holds empty files only", config.train[0]));
  return {};
}

Result<void> TokenDataset::check_format() const {
  const auto is_text = [](const TokenFile& file) { return file.format() == DataFormat::text; };
  const auto text = std::ranges::find_if(files_, is_text);
  const auto ids = std::ranges::find_if_not(files_, is_text);
  if (text != files_.end() && ids != files_.end()) {
    return bad_input(
        fmt::format("{} is text but {} holds token ids; they cannot be mixed: train on files of one kind",
                    text->path(), ids->path()));
  }
  if (text != files_.end() && vocab_size_ < byte_vocabulary) {
    return Error{ErrorKind::usage,
                 fmt::format("{}: text is read as bytes, so model.vocab_size must be at least {}; it is {}",
                             text->path(), byte_vocabulary, vocab_size_)};
  }
  return {};
}

Result<void> TokenDataset::check_enough(u64 least_tokens) const {
  if (tokens_ >= least_tokens) return {};
  const std::string files = fmt::format(
      "{}{}", files_[0].path(), files_.size() > 1 ? fmt::format(" and {} more", files_.size() - 1) : "");
  if (least_tokens <= sequence_length_)
    return bad_input(fmt::format("{}: {} token leaves nothing to predict; at least {} are needed", files,
                                 tokens_, least_tokens));
  return bad_input(
      fmt::format("{}: {} tokens are too few for one sequence; at least {} are needed (train.sequence_length "
                  "{} and a target), so add data or shorten the sequence",
                  files, tokens_, least_tokens, sequence_length_));
}

// Splits the tokens. Validation gets whole sequences, at least one if training keeps at least one too.
void TokenDataset::split(const DataConfig& config) {
  const u64 length = sequence_length_;
  const auto whole_sequences = [&](u64 tokens) { return tokens == 0 ? 0 : (tokens - 1) / length; };
  train_tokens_ = tokens_;
  if (config.validation_fraction <= 0 || tokens_ < 2 * (length + 1)) return;
  const double wanted =
      config.validation_fraction * static_cast<double>(tokens_) / static_cast<double>(length);
  const u64 most = whole_sequences(tokens_ - (length + 1));
  validation_sequences_ = std::clamp<u64>(static_cast<u64>(wanted), 1, most);
  train_tokens_ = tokens_ - (validation_sequences_ * length + 1);
}

Result<void> TokenDataset::take_fingerprint(const DataConfig& config) {
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> hash(XXH3_createState(),
                                                                             XXH3_freeState);
  XXH3_64bits_reset(hash.get());
  const auto add = [&](std::span<const std::byte> bytes) {
    XXH3_64bits_update(hash.get(), bytes.data(), bytes.size());
  };
  for (const TokenFile& file : files_) TRY(file.scan(vocab_size_, add));
  const std::string rest =
      fmt::format("tokens {} of {} bytes, sequences of {}, train {}, validation {}, shuffle {}, seed {}",
                  tokens_, files_[0].token_bytes(), sequence_length_, train_tokens_, validation_sequences_,
                  config.shuffle, config.shuffle ? seed_ : 0);
  add(std::as_bytes(std::span(rest)));
  fingerprint_ = fmt::format("{:016x}", XXH3_64bits_digest(hash.get()));
  return {};
}

u64 TokenDataset::train_sequences() const { return div_up(train_tokens_ - 1, sequence_length_); }

// Index of the sequence at this place of its epoch.
u64 TokenDataset::train_index(u64 index) const {
  const u64 count = train_sequences();
  if (!shuffle_) return index % count;
  return Permutation(count, seed_, index / count)(index % count);
}

u32 TokenDataset::train_targets(u64 index) const {
  const u64 first = train_index(index) * sequence_length_;
  return static_cast<u32>(std::min<u64>(sequence_length_, train_tokens_ - 1 - first));
}

Result<void> TokenDataset::train_sequence(u64 index, const BatchArrays& out) const {
  const u64 first = train_index(index) * sequence_length_;
  const u64 count = std::min<u64>(sequence_length_, train_tokens_ - 1 - first);
  return read_sequence(first, static_cast<u32>(count), out);
}

Result<void> TokenDataset::validation_sequence(u64 index, const BatchArrays& out) const {
  CHECK(index < validation_sequences_, index, validation_sequences_);
  return read_sequence(train_tokens_ + index * sequence_length_, sequence_length_, out);
}

Result<void> TokenDataset::read_sequence(u64 first, u32 count, const BatchArrays& out) const {
  const std::span<i32> tokens = out.tokens, targets = out.targets;
  std::ranges::fill(out.starts, 0);  // the whole sequence is one document
  CHECK(tokens.size() == sequence_length_ && targets.size() == sequence_length_, tokens.size(),
        targets.size());
  CHECK(count >= 1, count);
  TRY(read_tokens(first, tokens.first(count)));
  std::ranges::copy(tokens.subspan(1, count - 1), targets.begin());
  TRY(read_tokens(first + count, targets.subspan(count - 1, 1)));
  make_empty({tokens.subspan(count), targets.subspan(count), {}});
  return {};
}

Result<void> TokenDataset::read_tokens(u64 first, std::span<i32> out) const {
  size_t at = static_cast<size_t>(std::ranges::upper_bound(file_begin_, first) - file_begin_.begin()) - 1;
  while (!out.empty()) {
    const TokenFile& file = files_[at];
    const u64 in_file = first - file_begin_[at];
    const size_t count = std::min<u64>(out.size(), file.tokens() - in_file);
    TRY(file.read(in_file, out.first(count), vocab_size_));
    out = out.subspan(count);
    first += count;
    ++at;
  }
  return {};
}

Bytes TokenDataset::memory_bytes() const {
  u64 bytes =
      sizeof(TokenDataset) + file_begin_.capacity() * sizeof(u64) + files_.capacity() * sizeof(TokenFile);
  for (const TokenFile& file : files_) bytes += file.path().capacity();
  return Bytes{bytes};
}

}  // namespace tidepool
