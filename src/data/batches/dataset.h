// The training data as sequences of T places; what they are made of is up to the two kinds there are: tokens
// in a row (token_dataset.h), and documents (document_dataset.h).
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

struct DataProgress {
  u64 bytes = 0, bytes_total = 0;  // of the files
  u64 documents = 0, tokens = 0;
};

enum class DataUse : u8 {
  training,
  counting,  // sequences alone: nothing is tokenized or read through, and there is no fingerprint
};

// Where documents are made tokens, and with what.
struct DataPlace {
  std::string cache;  // where caches lie; REQUIRES for documents: not empty
  std::string
      model_directory;       // its tokenizer and chat template, where data.tokenizer names none; empty: bytes
  CorePool* pool = nullptr;  // null: one thread
  bool short_files = false;  // tokens in a row: less than a sequence will do
  DataUse use = DataUse::training;
  std::function<void(const DataProgress&)> progress = [](const DataProgress&) {};
};

// Held-out sequences that belong together, for figures of their own.
struct HeldOutPart {
  std::string name;  // a path; empty: there is one part only
  u64 sequences = 0;
  bool operator==(const HeldOutPart&) const = default;
};

class Dataset {
 public:
  // Checks everything that can be checked before training; documents are tokenized, or a cache of that is
  // found. ErrorKind::bad_input names the file and what is needed; ErrorKind::usage if the vocabulary cannot
  // hold text.
  static Result<std::unique_ptr<Dataset>> open(const DataConfig&, u32 vocab_size, u32 sequence_length,
                                               u64 seed, const DataPlace& = {});
  Dataset() = default;
  Dataset(const Dataset&) = delete;
  virtual ~Dataset() = default;

  virtual u64 tokens() const = 0;
  virtual u64 train_sequences() const = 0;  // per epoch
  virtual u64 validation_sequences() const = 0;
  virtual u32 sequence_length() const = 0;

  // The epoch is index / train_sequences(), each in its own order. Arrays are [T]; `starts` may be empty.
  // A pure function; any thread may call at any time. Errors of reading.
  virtual Result<void> train_sequence(u64 index, const BatchArrays&) const = 0;
  virtual Result<void> validation_sequence(u64 index, const BatchArrays&) const = 0;

  // validation_sequence's, in order.
  virtual std::vector<HeldOutPart> held_out_parts() const { return {{"", validation_sequences()}}; }

  // Of train_sequence(index): targets that are not ignored, and places with a token, whether it is learned or
  // not.
  virtual u32 train_targets(u64 index) const = 0;
  virtual u32 train_tokens(u64 index) const = 0;

  // Same data: same sequences in the same order. Covers contents, cut, split, seed and shuffle; not paths, so
  // data may move.
  virtual const std::string& fingerprint() const = 0;

  // For people: one line each, of what was found and made.
  virtual std::vector<std::string> notes() const { return {}; }
  virtual Bytes memory_bytes() const = 0;  // what it holds
};

}  // namespace tidepool
