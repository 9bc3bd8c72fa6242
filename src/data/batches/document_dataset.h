// DocumentDataset makes sequences from documents. Each source's documents are tokenized into a cache. Some
// are held out, the others are packed into rows. Rows come in a seeded random order; several sources are
// mixed by their weights.
//
// Held-out documents and the packing depend only on the documents: neither the seed nor the epoch changes
// them, so runs with different seeds are compared on the same held-out documents.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/batches/dataset.h"
#include "data/batches/mixture.h"
#include "data/batches/packing.h"
#include "data/batches/token_cache.h"

namespace tidepool {

class DocumentDataset final : public Dataset {
 public:
  struct Source {
    std::unique_ptr<TokenCache> cache;
    double weight = 0;
    std::string name = {};  // for the losses of several sources
  };
  // REQUIRES: one source, or a weight above 0 for each.
  // Error: bad_input if there is nothing to learn.
  static Result<std::unique_ptr<DocumentDataset>> create(const DataConfig&, std::vector<Source>,
                                                         u32 vocab_size, u32 sequence_length, u64 seed,
                                                         std::vector<std::string> notes);

  u64 tokens() const override;
  u64 train_sequences() const override { return train_rows_; }
  u64 validation_sequences() const override { return validation_rows_; }
  u32 sequence_length() const override { return sequence_length_; }
  Result<void> train_sequence(u64 index, const BatchArrays&) const override;
  Result<void> validation_sequence(u64 index, const BatchArrays&) const override;
  std::vector<HeldOutPart> held_out_parts() const override;
  u32 train_targets(u64 index) const override;
  u32 train_tokens(u64 index) const override;
  const std::string& fingerprint() const override { return fingerprint_; }
  std::vector<std::string> notes() const override { return notes_; }
  Bytes memory_bytes() const override;
  std::vector<TokenCache*> caches() override;

 private:
  struct Packed {
    std::unique_ptr<TokenCache> cache;
    PackedRows train, validation;
    std::string name = {};
  };
  struct Place {
    const PackedRows* rows;
    u64 row;
  };
  DocumentDataset(const DataConfig&, u32 vocab_size, u32 sequence_length, u64 seed);
  Result<void> pack(const DataConfig&, Source);
  void describe(const DataConfig&);
  Place train_place(u64 index) const;

  const u32 vocab_size_, sequence_length_;
  const u64 seed_;
  const bool shuffle_;
  std::vector<Packed> sources_;
  std::optional<Mixture> mixture_;  // of several sources only
  u64 train_rows_ = 0, validation_rows_ = 0;
  std::string fingerprint_;
  std::vector<std::string> notes_;
};

}  // namespace tidepool
