#include "net/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace tidepool {
namespace {

constexpr size_t shown_bytes_max = 80;  // of a value in a message
constexpr size_t shown_nodes_max = 8;   // of the nodes that differ

// A length of 8 bytes, then the bytes.
void put(std::string& out, std::string_view text) {
  const u64 bytes = text.size();
  out.append(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
  out += text;
}

class Reader {
 public:
  explicit Reader(std::string_view left) : left_(left) {}

  bool done() const { return left_.empty(); }
  bool good() const { return good_; }
  std::string next() {
    u64 bytes = 0;
    if (left_.size() < sizeof(bytes)) return fail();
    std::memcpy(&bytes, left_.data(), sizeof(bytes));
    left_.remove_prefix(sizeof(bytes));
    if (left_.size() < bytes) return fail();
    std::string out(left_.substr(0, bytes));
    left_.remove_prefix(bytes);
    return out;
  }

 private:
  std::string fail() {
    good_ = false;
    left_ = {};
    return {};
  }

  std::string_view left_;
  bool good_ = true;
};

Error unreadable() {
  return usage_error(
      "a node states its version and config in another form: start the same version of Tidepool on "
      "every node");
}

const Statement::Fact* fact_of(const Statement& s, size_t i) {
  return i < s.facts.size() ? &s.facts[i] : nullptr;
}

// The part of a long value where it differs from `other`.
std::string shown(const std::string& value, const std::string& other) {
  if (value.size() <= shown_bytes_max) return fmt::format("'{}'", value);
  const auto begins_character = [&value](size_t at) { return (static_cast<u8>(value[at]) & 0xc0) != 0x80; };
  size_t begin = static_cast<size_t>(std::ranges::mismatch(value, other).in1 - value.begin());
  begin -= std::min(begin, shown_bytes_max / 4);
  while (begin > 0 && !begins_character(begin)) --begin;
  size_t end = std::min(value.size(), begin + shown_bytes_max);
  while (end < value.size() && !begins_character(end)) --end;
  return fmt::format("'{}{}{}'", begin > 0 ? "..." : "", value.substr(begin, end - begin),
                     end < value.size() ? "..." : "");
}

// RETURNS: what a node says about a key, beside what another node says.
std::string said(const Statement::Fact* fact, const Statement::Fact* other, const std::string& key) {
  if (fact == nullptr || fact->key != key) return "nothing";
  return shown(fact->value, other != nullptr ? other->value : std::string());
}

Result<void> compare_fact(const std::vector<Statement>& by_node, const std::vector<std::string>& names,
                          size_t i) {
  const Statement::Fact* const first = fact_of(by_node[0], i);
  std::string others, key;
  const Statement::Fact* other = nullptr;
  size_t count = 0;
  for (size_t node = 1; node < by_node.size(); ++node) {
    const Statement::Fact* const fact = fact_of(by_node[node], i);
    if (first == nullptr ? fact == nullptr : fact != nullptr && *first == *fact) continue;
    if (count == 0) {
      key = first != nullptr ? first->key : fact->key;
      other = fact;
    }
    if (++count <= shown_nodes_max)
      others += fmt::format(", {} says {}", names[node], said(fact, first, key));
  }
  if (count == 0) return {};
  if (count > shown_nodes_max) others += fmt::format(", and {} more nodes differ", count - shown_nodes_max);
  return usage_error(fmt::format("the nodes differ in {}: {} says {}{}; all nodes need the same", key,
                                 names[0], said(first, other, key), others));
}

}  // namespace

std::string encode(const Statement& statement) {
  std::string out;
  put(out, std::to_string(statement.facts.size()));
  for (const Statement::Fact& fact : statement.facts) {
    put(out, fact.key);
    put(out, fact.value);
  }
  if (statement.refusal) {
    put(out, std::to_string(static_cast<int>(statement.refusal->kind)));
    put(out, statement.refusal->message);
  }
  return out;
}

Result<Statement> decode_statement(const std::string& text) {
  Reader reader(text);
  Statement out;
  const u64 facts = std::strtoull(reader.next().c_str(), nullptr, 10);
  for (u64 i = 0; i < facts && reader.good(); ++i) {
    std::string key = reader.next();
    out.facts.push_back({std::move(key), reader.next()});
  }
  if (!reader.done()) {
    const int kind = std::atoi(reader.next().c_str());
    out.refusal = Error{static_cast<ErrorKind>(kind), reader.next()};
  }
  if (!reader.good() || !reader.done()) return unreadable();
  return out;
}

Result<void> compare(const std::vector<Statement>& by_node, const std::vector<std::string>& names) {
  size_t facts = 0;
  for (size_t node = 0; node < by_node.size(); ++node) {
    facts = std::max(facts, by_node[node].facts.size());
    if (const std::optional<Error>& refusal = by_node[node].refusal)
      return Error{refusal->kind, fmt::format("{} cannot take part: {}", names[node], refusal->message)};
  }
  for (size_t i = 0; i < facts; ++i) TRY(compare_fact(by_node, names, i));
  return {};
}

Result<void> agree(Transport& transport, const Statement& mine) {
  TRY_ASSIGN(const std::vector<std::string> texts, transport.exchange(encode(mine)));
  std::vector<Statement> all;
  std::vector<std::string> names;
  for (u32 node = 0; node < texts.size(); ++node) {
    TRY_ASSIGN(Statement statement, decode_statement(texts[node]));
    all.push_back(std::move(statement));
    names.push_back(transport.name(node));
  }
  return compare(all, names);
}

}  // namespace tidepool
