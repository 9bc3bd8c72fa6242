// Added tokens: tokens that are searched in the text itself, before the model sees it.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "huggingface/tokenizer/regex.h"

namespace tidepool {

struct AddedToken {
  std::string content;
  std::string found_as;  // text to search for: normalized if `normalized`; decoding also uses it
  u32 id = 0;
  bool single_word = false;
  bool lstrip = false;
  bool rstrip = false;
  bool normalized = false;
  bool special = false;
};

// A trie of token contents by byte. Finds the leftmost match, and of several at that place the longest.
class TokenFinder {
 public:
  void add(std::string_view content, u32 index);  // REQUIRES: not empty; the first of equal contents stays
  bool empty() const { return nodes_.size() == 1; }

  struct Found {
    size_t begin = 0;
    size_t end = 0;
    u32 index = 0;
  };
  // RETURNS: false if no content begins at `from` or later.
  bool find(std::string_view text, size_t from, Found&) const;

 private:
  struct Node {
    std::vector<std::pair<char, u32>> children;  // by byte
    u32 index = none;                            // of the content that ends here
  };
  const Node* child(const Node&, char) const;

  std::vector<Node> nodes_ = std::vector<Node>(1);
  bool begins_[256] = {};
  u32 leads_ = 0;       // number of different first bytes
  char only_lead_ = 0;  // the first byte, if there is only one: searched with memchr
};

// The added tokens that are searched at one stage: in the raw text, or in the normalized text.
class AddedTokenScan {
 public:
  void add(const AddedToken&);
  Result<void> prepare();
  bool empty() const { return finder_.empty(); }

  // Cuts the text into tokens and the pieces between them: calls piece(text) and token(id, text) in order.
  // RETURNS: false as soon as a callback returns false.
  template <class PieceFn, class TokenFn>
  bool scan(std::string_view text, MatchState&, PieceFn&& piece, TokenFn&& token) const;

 private:
  bool stands_alone(std::string_view text, const TokenFinder::Found&, MatchState&) const;
  size_t spaces_before(std::string_view text, size_t at) const;
  size_t spaces_behind(std::string_view text, size_t at) const;

  TokenFinder finder_;
  std::vector<AddedToken> tokens_;
  std::vector<Regex> word_;  // a single element, if a token needs it
};

template <class PieceFn, class TokenFn>
bool AddedTokenScan::scan(std::string_view text, MatchState& state, PieceFn&& piece, TokenFn&& token) const {
  size_t done = 0;
  TokenFinder::Found found;
  for (size_t from = 0; finder_.find(text, from, found);) {
    from = found.end;
    const AddedToken& added = tokens_[found.index];
    if (added.single_word && !stands_alone(text, found, state)) continue;
    if (added.lstrip) found.begin = std::max(spaces_before(text, found.begin), done);
    if (added.rstrip) found.end = spaces_behind(text, found.end);
    if (done < found.begin && !piece(text.substr(done, found.begin - done), done == 0)) return false;
    // A token that is all white space may lie inside the previous token's stripped spaces; then the library
    // drops it.
    if (found.begin < found.end && !token(added.id, text.substr(found.begin, found.end - found.begin)))
      return false;
    done = found.end;
  }
  return done >= text.size() || piece(text.substr(done), done == 0);
}

}  // namespace tidepool
