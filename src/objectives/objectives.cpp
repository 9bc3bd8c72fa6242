#include <algorithm>
#include <array>

#include "objectives/cpo/cpo.h"
#include "objectives/dpo/dpo.h"
#include "objectives/next_token/next_token.h"
#include "objectives/orpo/orpo.h"
#include "objectives/reward/reward.h"
#include "objectives/sequence_classification/sequence_classification.h"
#include "objectives/simpo/simpo.h"

namespace tidepool {

const Objective& objective(ObjectiveType type) {
  static constexpr std::array<Objective, objective_count> rows = {
      next_token, sequence_classification, reward, dpo, orpo, cpo, simpo};
  return rows[static_cast<u32>(type)];
}

ObjectiveRule objective_rule(const ObjectiveConfig& config) {
  const Objective& of = objective(config.type);
  return of.rule == nullptr ? ObjectiveRule{} : of.rule(config);
}

u32 sequence_tokens_max(const ObjectiveConfig& config, u32 row_places) {
  // The last token of a completion is only a target; a score is that of the last token's own place.
  const bool scored = objective(config.type).documents == Documents::scored_pairs;
  const u32 fits = row_places / 2 + (scored ? 0 : 1);
  return config.max_length == 0 ? fits : std::min(config.max_length, fits);
}

}  // namespace tidepool
