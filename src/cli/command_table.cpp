#include <array>

#include "cli/command.h"

namespace tidepool {

std::span<const Command* const> commands() {
  static constexpr std::array list = {&train_command,     &plan_command,   &probe_command, &tokenize_command,
                                      &generate_command,  &export_command, &eval_command,  &score_command,
                                      &report_command,    &doctor_command, &bench_command, &config_command,
                                      &completion_command};
  return list;
}

}  // namespace tidepool
