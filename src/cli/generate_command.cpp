#include <fmt/format.h>

#include <cstdio>

#include "cli/commands.h"
#include "trainer/generate.h"

namespace tidepool {

Result<void> generate(const GenerateArguments& arguments) {
  TRY(generate_text({.path = arguments.path,
                     .overrides = arguments.overrides,
                     .generate = arguments.generate,
                     .seed = arguments.seed,
                     .threads = arguments.threads,
                     .note = [](const std::string& line) { fmt::print(stderr, "{}\n", line); }},
                    [](std::string_view text) {
                      std::fwrite(text.data(), 1, text.size(), stdout);
                      std::fflush(stdout);
                    }));
  std::fputc('\n', stdout);
  return {};
}

}  // namespace tidepool
