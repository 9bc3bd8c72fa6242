// Which documents stand in which row of T places.
//
// A place is a token and the one after it as its target, so a document of n tokens takes n - 1 places: its
// last token is a target only. Longer documents than a row are cut into rows and a rest. What is shorter
// goes, in the order of the documents, to the open row in which least room is left over; a row is closed when
// no place is left, or when it is the oldest of `open_rows`. All of it follows from the documents and their
// order alone.
#pragma once

#include <functional>
#include <vector>

#include "data/batches/token_cache.h"
#include "tidepool/batch_arrays.h"

namespace tidepool {

// Changes with whatever packs the same documents otherwise, so that no run is resumed on other rows.
inline constexpr u32 packing_version = 2;

struct PackOptions {
  u32 row_places = 0;
  bool together = true;  // false: a row has one document
  u32 open_rows = 64;    // more fill rows better: with 64 some 99 % of what is known not to fit better
};

class PackedRows {
 public:
  // `document(i)` for i in [0, documents): in this order. `cache`, where their tokens are, outlives this.
  // Memory: 16 bytes a document and row.
  using DocumentAt = std::function<Result<TokenCache::Document>(u64)>;
  static Result<PackedRows> pack(const TokenCache& cache, u64 documents, const DocumentAt& document,
                                 const PackOptions&);

  u64 rows() const { return rows_.size(); }
  u32 targets(u64 row) const { return rows_[row].targets; }
  u32 places(u64 row) const { return rows_[row].places; }  // with a document in them
  u64 total_targets() const { return total_targets_; }
  u64 cut_documents() const { return cut_; }
  u64 filled_places() const { return filled_; }

  // Fills arrays of T places each; `out.starts` may be empty. Places without a document see themselves only.
  // Errors as TokenCache::read; ErrorKind::bad_input where an id is not below `vocab_size`.
  Result<void> read(u64 row, u32 vocab_size, const BatchArrays& out) const;

  Bytes memory_bytes() const;

 private:
  struct Piece {
    u64 first_token;
    u32 places, next;  // next: index of the row's next piece, none at its end
  };
  struct Row {
    u32 first_piece, last_piece, targets, places;
  };
  class Packer;

  const TokenCache* cache_ = nullptr;
  u32 row_places_ = 0;
  std::vector<Piece> pieces_;
  std::vector<Row> rows_;
  u64 cut_ = 0, filled_ = 0, total_targets_ = 0;
};

}  // namespace tidepool
