// PackedRows packs documents into rows of T places.
//
// A place is a token with the token after it as target, so a document of n tokens takes n - 1 places: its
// last token is only a target. Documents longer than a row are cut into rows and a rest. Shorter pieces go,
// in the order of the documents, to the open row with the least room that still fits them. A row is closed
// when it is full, or when it is the oldest of `open_rows`. The packing depends only on the documents and
// their order.
//
// A document that is a unit of sequences, such as a pair, lies in one row: its sequences follow each
// other, each a place shorter than its tokens. A prompt that they share may stand once: the second sequence
// then begins with the prompt's last token, and a hole (KeyHole) keeps it from seeing the first one's
// completion. So may the prompt of documents of one group.
#pragma once

#include <functional>
#include <vector>

#include "data/batches/token_cache.h"
#include "data/documents/answer_tokens.h"
#include "tidepool/batch_arrays.h"

namespace tidepool {

// To be changed whenever the same documents are packed differently, so that no run resumes with other rows.
inline constexpr u32 packing_version = 2;

struct PackOptions {
  u32 row_places = 0;
  bool together = true;       // false: one document per row
  u32 open_rows = 64;         // more fill rows better; 64 reach about 99 % of the best known filling
  u32 sequences = 0;          // of a document that is a unit and lies in one row; 0: documents are no units
  bool count_tokens = false;  // targets of a unit are its tokens; else it is one target
  // Units whose first sequence is learned from its first token on: the value of its place is the number of
  // its places before the first token that is marked as learned.
  bool prompts = false;
  bool labels = false;  // targets are labels, the numbers of the cache's tokens
  bool shares = false;  // shared prompts stand once
};

class PackedRows {
 public:
  // `document(i)` gives the documents to pack, for i in [0, documents), in this order. Memory: 24 bytes per
  // document and 16 per row.
  // REQUIRES: `cache` holds the documents' tokens and outlives the rows.
  using DocumentAt = std::function<Result<TokenCache::Document>(u64)>;
  static Result<PackedRows> pack(const TokenCache& cache, u64 documents, const DocumentAt& document,
                                 const PackOptions&);

  u64 rows() const { return rows_.size(); }
  u32 targets(u64 row) const { return rows_[row].targets; }
  u32 places(u64 row) const { return rows_[row].places; }  // places that hold a document
  u64 cut_documents() const { return cut_; }
  u64 full_documents() const { return full_; }  // as long as a row, so an encoder may have cut them
  u64 filled_places() const { return filled_; }
  u64 saved_places() const { return saved_; }  // of prompts that stand once

  // Fills arrays of T places each; `out.starts` may be empty. An empty place attends only to itself.
  // Error: as TokenCache::read(); bad_input if an id is not below `vocab_size`.
  Result<void> read(u64 row, u32 vocab_size, const BatchArrays& out) const;

  Bytes memory_bytes() const;

  // The tokens of the cache from which a row is read: from the first one's number on, up to the last one's.
  // REQUIRES: rows hold documents in the order of the cache (PackOptions::open_rows == 1), and share nothing.
  struct Range {
    u64 begin = 0, end = 0;
  };
  Range tokens_of(u64 row) const;
  // Calls fn(place, token) for each place of a row: the number in the cache of the token that it predicts.
  // REQUIRES: rows share nothing.
  template <class Fn>
  Result<void> for_targets(u64 row, Fn&& fn) const;

 private:
  struct Piece {
    u64 first_token;
    u32 places, next;  // next: index of the row's next piece; none: last
    u32 shared;        // places of the prompt that stand before
  };
  // First places in a row: of a piece, and of the prompt that it may share.
  struct Beginning {
    u32 at = 0, prompt = 0;
  };
  Result<void> read_piece(const Piece&, u32 vocab_size, const BatchArrays& out, Beginning& begin) const;
  // Reads what a teacher says of the tokens from `first_token` on.
  Result<void> read_distributions(u64 first_token, std::span<float> out) const;
  struct Row {
    u32 first_piece, last_piece, targets, places;
  };
  class Packer;
  class Sequences;

  const TokenCache* cache_ = nullptr;
  u32 row_places_ = 0, sequences_ = 0;
  u32 last_tokens() const { return sequences_ > 1 ? sequences_ : 1; }  // of a piece, only targets
  bool prompts_ = false, labels_ = false;
  std::vector<Piece> pieces_;
  std::vector<float> values_;  // by piece; empty: documents have none
  std::vector<Row> rows_;
  u64 cut_ = 0, full_ = 0, filled_ = 0, saved_ = 0;
};

template <class Fn>
Result<void> PackedRows::for_targets(u64 row, Fn&& fn) const {
  u32 at = 0;
  std::vector<u32> tokens;
  for (u32 piece = rows_[row].first_piece; piece != none; piece = pieces_[piece].next) {
    tokens.resize(pieces_[piece].places + last_tokens());
    TRY(cache_->read(pieces_[piece].first_token, tokens));
    for (u32 i = 1; i < tokens.size(); ++i)
      if (sequences_ < 2 || !begins_sequence(tokens[i])) fn(at++, pieces_[piece].first_token + i);
  }
  return {};
}

}  // namespace tidepool
