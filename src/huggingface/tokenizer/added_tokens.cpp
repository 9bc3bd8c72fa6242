#include "huggingface/tokenizer/added_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "huggingface/tokenizer/characters.h"
#include "huggingface/tokenizer/pattern.h"

namespace tidepool {

void TokenFinder::add(std::string_view content, u32 index) {
  if (!begins_[static_cast<u8>(content[0])]) ++leads_;
  begins_[static_cast<u8>(content[0])] = true;
  only_lead_ = content[0];
  u32 at = 0;
  for (const char byte : content) {
    auto& children = nodes_[at].children;
    const auto place = std::ranges::lower_bound(children, byte, {}, &std::pair<char, u32>::first);
    if (place != children.end() && place->first == byte) {
      at = place->second;
      continue;
    }
    const u32 next = static_cast<u32>(nodes_.size());
    children.insert(place, {byte, next});
    nodes_.emplace_back();
    at = next;
  }
  if (nodes_[at].index == none) nodes_[at].index = index;
}

const TokenFinder::Node* TokenFinder::child(const Node& node, char byte) const {
  const auto place = std::ranges::lower_bound(node.children, byte, {}, &std::pair<char, u32>::first);
  return place != node.children.end() && place->first == byte ? &nodes_[place->second] : nullptr;
}

bool TokenFinder::find(std::string_view text, size_t from, Found& found) const {
  if (leads_ == 0) return false;
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (leads_ == 1) {
      const void* place = std::memchr(text.data() + begin, only_lead_, text.size() - begin);
      if (!place) return false;
      begin = static_cast<size_t>(static_cast<const char*>(place) - text.data());
    } else if (!begins_[static_cast<u8>(text[begin])]) {
      continue;
    }
    bool any = false;
    const Node* node = nodes_.data();
    for (size_t at = begin; at < text.size() && (node = child(*node, text[at])); ++at) {
      if (node->index == none) continue;
      found = {.begin = begin, .end = at + 1, .index = node->index};
      any = true;
    }
    if (any) return true;
  }
  return false;
}

void AddedTokenScan::add(const AddedToken& token) {
  finder_.add(token.found_as, static_cast<u32>(tokens_.size()));
  tokens_.push_back(token);
}

Result<void> AddedTokenScan::prepare() {
  if (std::ranges::none_of(tokens_, &AddedToken::single_word)) return {};
  TRY_ASSIGN(Regex word, Regex::compile(fmt::format("[{}]", rust_word)));
  word_.push_back(std::move(word));
  return {};
}

bool AddedTokenScan::stands_alone(std::string_view text, const TokenFinder::Found& found,
                                  MatchState& state) const {
  Match match;
  const auto is_word = [&](size_t begin) {
    const std::string_view character = text.substr(begin, character_bytes(text[begin]));
    return word_[0].find(character, 0, state, match) == Regex::Found::yes;
  };
  return !(found.begin > 0 && is_word(character_before(text, found.begin))) &&
         !(found.end < text.size() && is_word(found.end));
}

size_t AddedTokenScan::spaces_before(std::string_view text, size_t at) const {
  while (at > 0) {
    const size_t before = character_before(text, at);
    if (!is_white_space(character_at(text, before))) break;
    at = before;
  }
  return at;
}

size_t AddedTokenScan::spaces_behind(std::string_view text, size_t at) const {
  while (at < text.size() && is_white_space(character_at(text, at))) at += character_bytes(text[at]);
  return at;
}

}  // namespace tidepool
