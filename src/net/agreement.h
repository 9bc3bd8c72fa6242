// Agreement checks before the first step that all nodes run the same thing: version, config, plan, data,
// model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "net/transport.h"

namespace tidepool {

// Statement is what one node says of itself.
struct Statement {
  struct Fact {
    std::string key, value;  // "plan", "3f9c..."

    bool operator==(const Fact&) const = default;
  };
  std::vector<Fact> facts;       // in the order in which they are compared: causes before effects
  std::optional<Error> refusal;  // why this node cannot take part, for example because its job does not fit
};

// Exchanges the statements of all nodes and compares them. All nodes get the same result.
// Errors: a node's refusal, of its kind, with the node's name; ErrorKind::usage for the first fact that
// differs, with the nodes, the key and both values; the transport's.
Result<void> agree(Transport&, const Statement&);

// The parts of agree(), for tests.
std::string encode(const Statement&);
Result<Statement> decode_statement(const std::string&);
// `name`: of a node.
Result<void> compare(const std::vector<Statement>& by_node, const std::vector<std::string>& names);

}  // namespace tidepool
