// HeldOutFiles are separate files for evaluation (data.validation). They are held out whole: every token
// counts once, in the order of the files. Each file is a part of its own, unless there are many.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/batches/dataset.h"
#include "data/files/source_files.h"

namespace tidepool {

class HeldOutFiles {
 public:
  // With more files, all become one part: each part needs a tokenizer and a cache, which are small but not
  // free.
  static constexpr size_t parts_max = 16;

  // Reads the files as data.train would be read.
  // REQUIRES: config.validation is not empty.
  // Error: as Dataset::open().
  static Result<HeldOutFiles> open(const DataConfig&, u32 vocab_size, u32 sequence_length, const DataPlace&);

  u64 sequences() const;
  Result<void> sequence(u64 index, const BatchArrays&) const;  // REQUIRES: index < sequences()
  std::vector<HeldOutPart> parts() const;
  const SourceFiles& files() const { return files_; }
  std::string fingerprint() const;
  // Messages of the files, without those in `said_before`.
  std::vector<std::string> notes(const std::vector<std::string>& said_before = {}) const;
  Bytes memory_bytes() const;
  std::vector<TokenCache*> caches() const;

 private:
  SourceFiles files_;
  std::vector<std::string> names_;
  std::vector<std::unique_ptr<Dataset>>
      parts_;  // each trains on the whole file, unshuffled; those sequences are the held-out ones
};

// Training data together with held-out files.
class DatasetAndFiles final : public Dataset {
 public:
  // `notes`: messages that concern both.
  DatasetAndFiles(std::unique_ptr<Dataset> train, HeldOutFiles files, std::vector<std::string> notes);

  u64 tokens() const override { return train_->tokens(); }
  u64 train_sequences() const override { return train_->train_sequences(); }
  u64 validation_sequences() const override { return files_.sequences(); }
  u32 sequence_length() const override { return train_->sequence_length(); }
  Result<void> train_sequence(u64 index, const BatchArrays& out) const override {
    return train_->train_sequence(index, out);
  }
  Result<void> validation_sequence(u64 index, const BatchArrays& out) const override {
    return files_.sequence(index, out);
  }
  std::vector<HeldOutPart> held_out_parts() const override { return files_.parts(); }
  u32 train_targets(u64 index) const override { return train_->train_targets(index); }
  u32 train_tokens(u64 index) const override { return train_->train_tokens(index); }
  const std::string& fingerprint() const override { return fingerprint_; }
  std::vector<std::string> notes() const override;
  Bytes memory_bytes() const override { return train_->memory_bytes() + files_.memory_bytes(); }
  std::vector<TokenCache*> caches() override;

 private:
  const std::unique_ptr<Dataset> train_;
  const HeldOutFiles files_;
  const std::vector<std::string> notes_;
  const std::string fingerprint_;
};

}  // namespace tidepool
