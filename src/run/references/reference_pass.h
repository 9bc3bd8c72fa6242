// The reference model of an objective: forward passes over the documents, before training, whose results are
// kept in files beside the documents' caches. Nothing of that model stays in memory.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "config/config.h"
#include "data/batches/token_cache.h"
#include "tidepool/plan.h"

namespace tidepool {

struct ReferenceRequest {
  const Config& config;
  bool quiet = false;                                                       // true: print no progress
  std::function<void(const std::string&)> say = [](const std::string&) {};  // lines for people
};

// Attaches the log-probabilities of the config's reference model to the caches. Those of which no file is
// there are made: within the budgets, on one of the run's devices, continuing where an earlier pass was
// stopped. If another process is making a file, waits for it. A no-op if neither the objective nor its
// documents need a reference.
// RETURNS: what identifies the reference model, its weights and how it computes; empty: none is needed.
// Errors: usage, if objective.reference cannot be one; as make_plan(), Session::create(), load_weights() and
// TokenReferences::open().
Result<std::string> attach_references(const ReferenceRequest&, std::span<TokenCache* const>);

// RETURNS: the plan of the passes that the objective needs; none: it needs none, whatever the documents.
// Errors: as attach_references().
Result<std::optional<Plan>> plan_references(const Config&);

}  // namespace tidepool
