// Fuzzes a checkpoint's trainer_state.json. An accepted file is the same after it is written and read.
#include "base/check.h"
#include "checkpoint/trainer_state.h"
#include "tests/fuzz/fuzz.h"

namespace tidepool::fuzz {

void trainer_state(std::string_view input) {
  const Result<TrainerState> state = parse_trainer_state(input, "fuzz.json");
  if (!state) return check_refusal(state.error(), {ErrorKind::corrupt_checkpoint});
  const std::string text = to_text(*state);
  const Result<TrainerState> again = parse_trainer_state(text, "fuzz.json");
  CHECK(again.has_value(), again.error().message, text);
  CHECK(to_text(*again) == text, text);  // NaN is not equal to itself
}

}  // namespace tidepool::fuzz
