// Dataset is the training data as sequences of T places. Two kinds implement it: consecutive tokens
// (token_dataset.h) and documents (document_dataset.h).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "config/config.h"
#include "tidepool/batch_arrays.h"
#include "tidepool/core_pool.h"
#include "tidepool/ignored_target.h"

namespace tidepool {

class TokenCache;

struct DataProgress {
  u64 bytes = 0, bytes_total = 0;  // of the files
  u64 documents = 0, tokens = 0;
};

enum class DataUse : u8 {
  training,
  counting,  // only count sequences: nothing is tokenized or read through, and there is no fingerprint
};

// Directories and resources for tokenizing documents.
struct DataPlace {
  std::string cache;  // directory of caches; REQUIRES for documents: not empty
  std::string
      model_directory;  // provides tokenizer and chat template, unless data.tokenizer names one; empty: bytes
  CorePool* pool = nullptr;  // null: one thread
  bool short_files = false;  // consecutive tokens: files shorter than a sequence are allowed
  DataUse use = DataUse::training;
  std::function<void(const DataProgress&)> progress = [](const DataProgress&) {};
};

// Held-out sequences that get a loss of their own.
struct HeldOutPart {
  std::string name;  // a path; empty: the only part
  u64 sequences = 0;
  bool operator==(const HeldOutPart&) const = default;
};

class Dataset {
 public:
  // Checks everything that can be checked before training. Tokenizes documents, or opens their cache.
  // Error: bad_input, naming the file and what is needed; usage if the vocabulary cannot hold text.
  static Result<std::unique_ptr<Dataset>> open(const DataConfig&, u32 vocab_size, u32 sequence_length,
                                               u64 seed, const DataPlace& = {});
  Dataset() = default;
  Dataset(const Dataset&) = delete;
  virtual ~Dataset() = default;

  virtual u64 tokens() const = 0;
  virtual u64 train_sequences() const = 0;  // per epoch
  virtual u64 validation_sequences() const = 0;
  virtual u32 sequence_length() const = 0;

  // Fills arrays of [T]; `starts` may be empty. The epoch is index / train_sequences(); each epoch has its
  // own order. A pure function.
  // THREADS: any, at any time.
  // Error: reading failed.
  virtual Result<void> train_sequence(u64 index, const BatchArrays&) const = 0;
  virtual Result<void> validation_sequence(u64 index, const BatchArrays&) const = 0;

  // The parts of the held-out sequences, in the order of validation_sequence().
  virtual std::vector<HeldOutPart> held_out_parts() const { return {{"", validation_sequences()}}; }

  // Counts for train_sequence(index): targets that are not ignored; places with a token, learned or not.
  virtual u32 train_targets(u64 index) const = 0;
  virtual u32 train_tokens(u64 index) const = 0;

  // Equal for the same sequences in the same order. Covers contents, cuts, split, seed and shuffle, but not
  // paths, so data may move.
  virtual const std::string& fingerprint() const = 0;

  // Messages for people about what was found and made, one line each.
  virtual std::vector<std::string> notes() const { return {}; }
  virtual Bytes memory_bytes() const = 0;  // memory in use

  // The caches of tokenized documents that sequences are read from; none for consecutive tokens.
  virtual std::vector<TokenCache*> caches() { return {}; }
};

}  // namespace tidepool
