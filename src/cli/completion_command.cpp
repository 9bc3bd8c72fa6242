#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "cli/cli.h"
#include "cli/command.h"
#include "config/schema.h"
#include "report/print_text.h"

namespace tidepool {
namespace {

// RETURNS: the fixed beginnings of an option's values: "op:N|chunk:N" -> "op: chunk:", "auto|PATH" -> "auto".
std::string beginnings_of(std::string_view value) {
  std::string out;
  for (std::string word; !value.empty();) {
    const size_t bar = value.find('|');
    word = value.substr(0, bar);
    value = bar == std::string_view::npos ? "" : value.substr(bar + 1);
    word.erase(std::ranges::find_if(word, [](unsigned char c) { return std::isupper(c); }), word.end());
    if (!word.empty()) out += (out.empty() ? "" : " ") + word;
  }
  return out;
}

Result<void> run_completion(const Arguments& arguments) {
  TRY(check_form(arguments, {.name = "completion", .options = {}, .words_max = 0}));
  print_text("{}", bash_completion());
  return {};
}

}  // namespace

std::string bash_completion() {
  std::string names, keys, cases, values, takes_keys;
  for (const Command* listed : commands()) {
    const Command& command = *listed;
    names += fmt::format("{} ", command.name);
    std::string options = "--help";
    for (const Option& option : command.options) {
      options += fmt::format(" --{}", option.name);
      const std::string beginnings = beginnings_of(option.value);
      if (!beginnings.empty())
        values += fmt::format("    {}:--{}) words=\"{}\" ;;\n", command.name, option.name, beginnings);
    }
    if (command.name == bench_command.name) options += " " + beginnings_of(command.words);
    if (command.words.find("key=value") != std::string_view::npos)
      takes_keys += fmt::format("{}{}", takes_keys.empty() ? "" : "|", command.name);
    cases += fmt::format("    {}) words=\"{}\" ;;\n", command.name, options);
  }
  for (const Field& field : schema()) keys += fmt::format("{}.{}= ", field.section, field.key);
  return fmt::format(
      R"(# Completion of tidepool's commands, options and config keys for bash.
_tidepool() {{
  local now="${{COMP_WORDS[COMP_CWORD]}}" words=""
  if [[ $COMP_CWORD -eq 1 ]]; then
    mapfile -t COMPREPLY < <(compgen -W "{}--help --version" -- "$now")
    return
  fi
  case "${{COMP_WORDS[1]}}:${{COMP_WORDS[COMP_CWORD-1]}}" in
{}  esac
  if [[ -n "$words" ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$now"; compgen -f -- "$now")
    [[ "${{COMPREPLY[0]}}" == *: ]] && compopt -o nospace
    return
  fi
  case "${{COMP_WORDS[1]}}" in
{}  esac
  case "${{COMP_WORDS[1]}}" in
    {}) [[ $COMP_CWORD -gt 2 ]] && words+=" {}" ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$now"; compgen -f -- "$now")
  [[ "${{COMPREPLY[0]}}" == *= ]] && compopt -o nospace
}}
complete -F _tidepool tidepool
)",
      names, values, cases, takes_keys, keys);
}

constinit const Command completion_command = {
    .name = "completion",
    .summary = "a completion script for bash",
    .run = run_completion,
    .more = "\nUse it with  source <(tidepool completion)\n",
};

}  // namespace tidepool
