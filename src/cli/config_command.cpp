#include <array>

#include "cli/command.h"
#include "cli/config_words.h"
#include "config/families_page.h"
#include "config/schema.h"
#include "report/print_text.h"

namespace tidepool {
namespace {

constexpr std::array options_of_config = {
    Option{"markdown", "", "all keys as a page of documentation"},
    Option{"families", "", "all families of models as a page of documentation"},
};

Result<void> run_config(const Arguments& arguments) {
  if (arguments.has("markdown")) {
    constexpr std::array<std::string_view, 1> options = {"markdown"};
    TRY(check_form(arguments, {.name = "config --markdown", .options = options, .words_max = 0}));
    print_text("{}", config_markdown());
  } else if (arguments.has("families")) {
    constexpr std::array<std::string_view, 1> options = {"families"};
    TRY(check_form(arguments, {.name = "config --families", .options = options, .words_max = 0}));
    print_text("{}", families_markdown());
  } else if (arguments.positional().empty()) {
    print_text("{}", config_help());
  } else {
    TRY_ASSIGN(const Config config, config_of(arguments.positional()));
    print_text("{}", to_yaml(config));
  }
  return {};
}

}  // namespace

constinit const Command config_command = {
    .name = "config",
    .words = "[CONFIG.yaml [key=value ...]]",
    .summary = "all config keys, or the effective config",
    .options = options_of_config,
    .run = run_config,
};

}  // namespace tidepool
