#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "cli/commands.h"
#include "inference/generate.h"
#include "report/print_text.h"

namespace tidepool {

Result<void> generate(const GenerateArguments& arguments) {
  TRY(generate_text({.path = arguments.path,
                     .overrides = arguments.overrides,
                     .generate = arguments.generate,
                     .seed = arguments.seed,
                     .threads = arguments.threads,
                     .note = [](const std::string& line) { print_text(stderr, "{}\n", line); }},
                    [terminal = ::isatty(STDOUT_FILENO) == 1](std::string_view text) {
                      // A model may have learned control characters; a file or a pipe gets each byte.
                      if (terminal)
                        try_print_text(stdout, text);
                      else
                        std::fwrite(text.data(), 1, text.size(), stdout);
                      std::fflush(stdout);
                    }));
  std::fputc('\n', stdout);
  return {};
}

}  // namespace tidepool
