#include "data/batches/packing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"
#include "data/documents/answer_tokens.h"
#include "tidepool/ignored_target.h"

namespace tidepool {

namespace {

constexpr u64 pieces_max = 0xffff'fff0;
constexpr size_t read_tokens = 4096;  // on the stack: threads share nothing and nothing is allocated

}  // namespace

class PackedRows::Packer {
 public:
  Packer(PackedRows& out, const PackOptions& options) : out_(out), options_(options) {}

  Result<void> add(const TokenCache::Document& document) {
    const u64 places = document.tokens - out_.last_tokens();
    if (options_.sequences > 0) return add_unit(document, places);
    out_.full_ += places == options_.row_places;
    if (places <= options_.row_places)
      return put({document.first, static_cast<u32>(places), none, 0}, static_cast<u32>(document.learned));
    ++out_.cut_;
    for (u64 at = 0; at < places; at += options_.row_places) {
      const u32 count = static_cast<u32>(std::min<u64>(options_.row_places, places - at));
      TRY_ASSIGN(const u64 learned, out_.cache_->learned_in(document.first + at + 1, count));
      if (learned > 0) TRY(put({document.first + at, count, none, 0}, static_cast<u32>(learned)));
    }
    return {};
  }

 private:
  Result<void> add_unit(const TokenCache::Document& document, u64 places) {
    const bool of_pair = options_.sequences > 1;
    // Each rollout says what it shares with the one before it, and so with the first of the row no more than
    // the least of them.
    const SharedPrompt prompt = {
        of_pair ? document.shared.tokens : std::min(document.shared.tokens, tokens_of_run_),
        document.shared.follows};
    const u32 shared = options_.shares ? prompt.places() : 0;
    const bool joins = !of_pair && shared > 0 && joins_last(document, places - shared);
    tokens_of_run_ = joins ? prompt.tokens : ~0u;
    if (of_pair || joins) places -= shared;
    if (places > options_.row_places)
      return Error{ErrorKind::bad_input,
                   fmt::format("{}: a unit has {} places, more than a row; remove {} to have it made again",
                               out_.cache_->directory(), places, out_.cache_->directory())};
    if (out_.cache_->has_values()) out_.values_.push_back(static_cast<float>(document.value));
    const u64 targets = options_.count_tokens ? document.learned : 1;
    return put({document.first, static_cast<u32>(places), none, of_pair || joins ? shared : 0},
               static_cast<u32>(targets), joins ? last_row_ : none);
  }

  // RETURNS: true if a document of a group goes behind the one before it, whose prompt it sees.
  bool joins_last(const TokenCache::Document& document, u64 places) const {
    return document.shared.follows && last_row_ != none && options_.together &&
           out_.rows_[last_row_].places + places <= options_.row_places;
  }

  // `row`: where the piece goes; none: where it fits best.
  Result<void> put(const Piece& given, u32 targets, u32 row = none) {
    if (out_.pieces_.size() == pieces_max)
      return Error{ErrorKind::bad_input,
                   fmt::format("{}: more than {} documents", out_.cache_->directory(), pieces_max)};
    const u32 piece = static_cast<u32>(out_.pieces_.size()), places = given.places;
    out_.pieces_.push_back(given);
    out_.filled_ += places;
    out_.saved_ += given.shared;
    if (row == none) row = row_for(places);
    last_row_ = row;
    Row& to = out_.rows_[row];
    (to.first_piece == none ? to.first_piece : out_.pieces_[to.last_piece].next) = piece;
    to.last_piece = piece;
    to.targets += targets;
    to.places += places;
    if (to.places == options_.row_places || !options_.together) std::erase(open_, row);
    return {};
  }

  u32 row_for(u32 places) {
    u32 best = none;
    for (const u32 row : open_) {
      if (out_.rows_[row].places + places > options_.row_places) continue;
      if (best == none || out_.rows_[row].places > out_.rows_[best].places) best = row;
    }
    if (best != none) return best;
    if (open_.size() == options_.open_rows) open_.erase(open_.begin());
    open_.push_back(static_cast<u32>(out_.rows_.size()));
    out_.rows_.push_back({none, none, 0, 0});
    return open_.back();
  }

  PackedRows& out_;
  const PackOptions& options_;
  std::vector<u32> open_;    // oldest first
  u32 last_row_ = none;      // of the last document
  u32 tokens_of_run_ = ~0u;  // of the prompt that the rollouts since the row's last whole one share
};

Result<PackedRows> PackedRows::pack(const TokenCache& cache, u64 documents, const DocumentAt& document,
                                    const PackOptions& options) {
  CHECK(options.row_places >= 1 && options.open_rows >= 1, options.row_places, options.open_rows);
  PackedRows out;
  out.cache_ = &cache;
  out.row_places_ = options.row_places;
  out.sequences_ = options.sequences;
  out.prompts_ = options.prompts;
  out.labels_ = options.labels;
  Packer packer(out, options);
  for (u64 i = 0; i < documents; ++i) {
    TRY_ASSIGN(const TokenCache::Document found, document(i));
    if (found.learned > 0) TRY(packer.add(found));
  }
  return out;
}

// The sequences of a piece, place by place: where each begins, and what its places see. A sequence that
// shares a prompt sees it from its start on; its own copy is left out, but for the last token.
class PackedRows::Sequences {
 public:
  // `joins`: the first one shares the prompt of the pieces before it.
  Sequences(const Piece& piece, bool joins, Beginning& row, const BatchArrays& out)
      : out_(out), shared_(piece.shared), at_(row.at), begin_(row.at), of_piece_(row.at) {
    if (!joins) row.prompt = at_;
    start_ = row.prompt;
    if (joins) leave_prompt_out();
  }

  u32 at() const { return at_; }
  u32 of_piece() const { return of_piece_; }
  // RETURNS: true if the next token of the piece has no place.
  bool leaves_out() { return left_out_ > 0 && left_out_-- > 0; }
  void take_place() {
    if (!out_.starts.empty()) out_.starts[at_] = static_cast<i32>(start_);
    if (!out_.holes.empty()) out_.holes[at_] = hole_;
    ++at_;
  }
  void end() {
    const auto length = static_cast<i32>(at_ - begin_);
    if (!out_.sequences.empty()) out_.sequences[begin_] = begin_ == of_piece_ ? length : -length;
    begin_ = at_;
  }
  void begin_next() {
    end();
    start_ = begin_;
    if (shared_ == 0) return;
    start_ = of_piece_;
    leave_prompt_out();
  }

 private:
  void leave_prompt_out() {
    left_out_ = shared_;
    hole_ = {static_cast<i32>(start_ + shared_), static_cast<i32>(begin_)};
  }

  const BatchArrays& out_;
  const u32 shared_;
  u32 at_, begin_;  // begin_: of the sequence
  const u32 of_piece_;
  u32 start_ = 0, left_out_ = 0;
  KeyHole hole_;
};

// Reads one token more than places: it is only a target, or the first token of the next round.
Result<void> PackedRows::read_piece(const Piece& piece, u32 vocab_size, const BatchArrays& out,
                                    Beginning& beginning) const {
  std::array<u32, read_tokens> buffer;
  std::array<float, read_tokens> references, numbers;  // numbers: labels, or log-probabilities of samples
  const u64 of_place = out.distributions.size() / out.tokens.size();
  const bool sampled = !out.old_logps.empty(), unknown = sampled && cache_->counts().unknown_logps > 0,
             referenced = !out.references.empty() || unknown;
  if (referenced) CHECK(cache_->references() != nullptr, cache_->directory());
  const u32 tokens = piece.places + piece.shared + last_tokens();
  Sequences sequences(piece, sequences_ < 2 && piece.shared > 0, beginning, out);
  bool in_prompt = prompts_;
  for (u32 done = 0; done + 1 < tokens;) {
    const u32 count = std::min<u32>(tokens - 1 - done, read_tokens - 1);
    TRY(cache_->read(piece.first_token + done, std::span(buffer).first(count + 1)));
    if (referenced)
      TRY(cache_->references()->read(piece.first_token + done, std::span(references).first(count + 1)));
    if (sampled || labels_)
      TRY(cache_->read_numbers(piece.first_token + done, std::span(numbers).first(count + 1)));
    if (of_place > 0)  // of no units, so places follow each other as tokens do
      TRY(read_distributions(piece.first_token + done + 1,
                             out.distributions.subspan(sequences.at() * of_place, count * of_place)));
    for (u32 i = 0; i < count; ++i) {
      const u32 id = id_of_token(buffer[i]), next_id = id_of_token(buffer[i + 1]);
      if (id >= vocab_size || next_id >= vocab_size)
        return Error{ErrorKind::bad_input,
                     fmt::format("{}/tokens.bin: token {} is {}, but the model's vocabulary has {}; remove "
                                 "{} to have it made again",
                                 cache_->directory(), piece.first_token + done + i + (id < vocab_size),
                                 std::max(id, next_id), vocab_size, cache_->directory())};
      if (sequences_ > 1 && begins_sequence(buffer[i + 1])) {
        sequences.begin_next();
        continue;
      }
      if (sequences.leaves_out()) continue;
      const u32 at = sequences.at();
      in_prompt = in_prompt && !is_learned(buffer[i + 1]);
      if (in_prompt && !out.values.empty()) out.values[sequences.of_piece()] += 1;
      out.tokens[at] = static_cast<i32>(id);
      const i32 target = labels_ ? static_cast<i32>(numbers[i + 1]) : static_cast<i32>(next_id);
      out.targets[at] = is_learned(buffer[i + 1]) || in_prompt ? target : ignored_target;
      if (!out.references.empty()) out.references[at] = references[i + 1];
      if (sampled && has_loss(out.targets[at])) {
        const float old = numbers[i + 1];
        out.old_logps[at] = std::isnan(old) ? references[i + 1] : old;
      }
      sequences.take_place();
    }
    done += count;
  }
  sequences.end();
  beginning.at = sequences.at();
  return {};
}

Result<void> PackedRows::read_distributions(u64 first_token, std::span<float> out) const {
  if (cache_->numbers() > 0) return cache_->read_numbers(first_token, out);
  CHECK(cache_->references() != nullptr, cache_->directory());
  return cache_->references()->read(first_token, out);
}

Result<void> PackedRows::read(u64 row, u32 vocab_size, const BatchArrays& out) const {
  CHECK(row < rows_.size() && out.tokens.size() == row_places_ && out.targets.size() == row_places_, row,
        rows_.size(), out.tokens.size());
  Beginning begin;
  for (u32 piece = rows_[row].first_piece; piece != none; piece = pieces_[piece].next) {
    if (!values_.empty() && !out.values.empty()) out.values[begin.at] = values_[piece];
    TRY(read_piece(pieces_[piece], vocab_size, out, begin));
  }
  const u32 at = begin.at;
  make_empty({out.tokens.subspan(at), out.targets.subspan(at), {}});
  if (!out.starts.empty()) {
    for (u32 i = at; i < row_places_; ++i) out.starts[i] = static_cast<i32>(i);
    std::ranges::fill(out.holes.empty() ? out.holes : out.holes.subspan(at), KeyHole{});
  }
  return {};
}

PackedRows::Range PackedRows::tokens_of(u64 row) const {
  const Piece &first = pieces_[rows_[row].first_piece], &last = pieces_[rows_[row].last_piece];
  return {first.first_token, last.first_token + last.places + last_tokens()};
}

Bytes PackedRows::memory_bytes() const {
  return Bytes{pieces_.capacity() * sizeof(Piece) + rows_.capacity() * sizeof(Row) +
               values_.capacity() * sizeof(float)};
}

}  // namespace tidepool
