// Fuzzes machine files.
#include "base/check.h"
#include "machine/machine_file.h"
#include "tests/fuzz/fuzz.h"

namespace tidepool::fuzz {

void machine(std::string_view input) {
  const Result<Machine> machine = parse_machine(input, "fuzz.yaml");
  if (!machine) return check_refusal(machine.error(), {ErrorKind::usage});
  const std::string text = to_yaml(*machine);
  const Result<Machine> again = parse_machine(text, "fuzz.yaml");
  CHECK(again.has_value(), again.error().message, text);
}

}  // namespace tidepool::fuzz
