// TokenDataset is a row of consecutive tokens: token files, or text files as bytes, one behind the other. The
// end of the row is held out.
//
//   [0, train_tokens)               train: sequence i reads tokens [i T, i T + T], the last being a target
//   [train_tokens, tokens)          validation: the same, whole sequences only
//
// The split may cut the last training sequence of an epoch short; missing targets are padding. Only the list
// of files is kept in memory: every read goes to the page cache.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "data/batches/dataset.h"
#include "data/files/find_files.h"
#include "data/files/token_file.h"

namespace tidepool {

class TokenDataset final : public Dataset {
 public:
  // As Dataset::open(), with files that are already found. `least_tokens`: fewer tokens are an error; 0
  // stands for one sequence and its last target.
  static Result<std::unique_ptr<TokenDataset>> open(const DataConfig&, const std::vector<FoundFile>&,
                                                    u32 vocab_size, u32 sequence_length, u64 seed,
                                                    u64 least_tokens = 0, DataUse = DataUse::training);

  u64 tokens() const override { return tokens_; }
  u64 train_tokens() const { return train_tokens_; }
  u64 train_sequences() const override;
  u64 validation_sequences() const override { return validation_sequences_; }
  u32 sequence_length() const override { return sequence_length_; }
  Result<void> train_sequence(u64 index, const BatchArrays&) const override;
  Result<void> validation_sequence(u64 index, const BatchArrays&) const override;
  u32 train_targets(u64 index) const override;  // T, except for the last sequence
  u32 train_tokens(u64 index) const override { return train_targets(index); }

  // Token files larger than TokenFile::scan_limit are sampled.
  const std::string& fingerprint() const override { return fingerprint_; }
  Bytes memory_bytes() const override;  // reads take 16 KiB of stack besides

 private:
  TokenDataset(const DataConfig&, u32 vocab_size, u32 sequence_length, u64 seed);
  Result<void> open_files(const DataConfig&, const std::vector<FoundFile>&);
  Result<void> check_format() const;
  Result<void> check_enough(u64 least_tokens) const;
  void split(const DataConfig&);
  Result<void> take_fingerprint(const DataConfig&);
  u64 train_index(u64 index) const;
  Result<void> read_tokens(u64 first, std::span<i32> out) const;
  Result<void> read_sequence(u64 first, u32 count, const BatchArrays&) const;

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
