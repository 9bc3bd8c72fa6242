// The training data as sequences. Files lie end to end as one row of tokens; its tail is held out.
//
//   [0, train_tokens)               train: sequence i reads tokens [i T, i T + T], the last being a target
//   [train_tokens, tokens)          validation: the same, whole sequences only
//
// The last training sequence of an epoch may be cut short by the split; what is missing has the target
// -100. Nothing is held in memory but the list of files: every read goes to the page cache.
#pragma once

#include "tidepool/ignored_target.h"
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "config/config.h"
#include "data/token_file.h"

namespace tidepool {


class Dataset {
 public:
  // Checks everything that can be checked before training. ErrorKind::bad_input names the file and
  // what is needed; ErrorKind::usage if the vocabulary cannot hold text.
  static Result<std::unique_ptr<Dataset>> open(const DataConfig&, u32 vocab_size, u32 sequence_length,
                                               u64 seed);
  Dataset(const Dataset&) = delete;

  u64 tokens() const { return tokens_; }
  u64 train_tokens() const { return train_tokens_; }
  u64 train_sequences() const;  // per epoch
  u64 validation_sequences() const { return validation_sequences_; }
  u32 sequence_length() const { return sequence_length_; }

  // The epoch is index / train_sequences(), each in its own order. `tokens` and `targets` are [T].
  // A pure function; any thread may call at any time. Errors as TokenFile::read.
  Result<void> train_sequence(u64 index, std::span<i32> tokens, std::span<i32> targets) const;
  Result<void> validation_sequence(u64 index, std::span<i32> tokens, std::span<i32> targets) const;

  // Targets that are not ignored in train_sequence(index): T, but for the last one of the data.
  u32 train_targets(u64 index) const;

  // Same text: same sequences in the same order. Covers contents, cut, split, seed and shuffle; not
  // paths, so data may move. (Token files over TokenFile::scan_limit are sampled.)
  const std::string& fingerprint() const { return fingerprint_; }

  Bytes memory_bytes() const;  // what it holds; reads take 16 KiB of stack beside

 private:
  Dataset(const DataConfig&, u32 vocab_size, u32 sequence_length, u64 seed);
  Result<void> open_files(const DataConfig&);
  Result<void> check_format() const;
  Result<void> split(const DataConfig&);
  Result<void> take_fingerprint(const DataConfig&);
  u64 train_index(u64 index) const;
  Result<void> read_tokens(u64 first, std::span<i32> out) const;
  Result<void> read_sequence(u64 first, u32 count, std::span<i32> tokens, std::span<i32> targets) const;

  const u32 vocab_size_;
  const u32 sequence_length_;
  const u64 seed_;
  const bool shuffle_;
  std::vector<TokenFile> files_;
  std::vector<u64> file_begin_;  // by file: its first token in the row
  u64 tokens_ = 0;
  u64 train_tokens_ = 0;
  u64 validation_sequences_ = 0;
  std::string fingerprint_;
};

}  // namespace tidepool
