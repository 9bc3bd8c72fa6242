#include <array>

#include "objectives/next_token/next_token.h"
#include "objectives/sequence_classification/sequence_classification.h"

namespace tidepool {

const Objective& objective(ObjectiveType type) {
  static constexpr std::array<Objective, objective_count> rows = {next_token, sequence_classification};
  return rows[static_cast<u32>(type)];
}

}  // namespace tidepool
