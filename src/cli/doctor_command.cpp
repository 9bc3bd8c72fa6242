#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "cli/command.h"
#include "cli/config_words.h"
#include "cli/doctor.h"
#include "fit/executor_choice.h"
#include "report/print_text.h"
#include "run/open_data.h"
#include "run/weights/base_model.h"

namespace tidepool {

namespace {

constexpr std::array options_of_doctor = {
    Option{"dir", "DIR", "without CONFIG: directory for the swap file", "."},
};

constexpr size_t doctor_columns = 80;
constexpr size_t text_column = 24;  // "  warn  transparent huge"

// Wraps `text` to the part of 80 columns that the table's first two columns leave.
std::string wrapped(std::string_view text) {
  std::string out;
  size_t column = text_column;
  while (!text.empty()) {
    const size_t space = text.find(' ');
    const std::string_view word = text.substr(0, space);
    if (column > text_column && column + word.size() >= doctor_columns) {
      out += '\n' + std::string(text_column, ' ');
      column = text_column;
    } else if (column > text_column) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    text = space == std::string_view::npos ? "" : text.substr(space + 1);
  }
  return out;
}

void append(std::vector<Finding>& all, std::vector<Finding> more) {
  std::ranges::move(more, std::back_inserter(all));
}

// Prints the findings.
// RETURNS: an error only if training is impossible.
Result<void> doctor(const DoctorArguments& arguments) {
  std::vector<Finding> findings = examine_cores(arguments);
  Wanted wanted;
  if (arguments.config) {
    const Result<Job> job = make_job(*arguments.config);
    findings.push_back(examine_output(*arguments.config, job));
    findings.push_back(examine_data(*arguments.config));
    // examine_gpus() reports GPUs that cannot be used.
    if (check_executor(*arguments.config)) append(findings, examine_plan(job, wanted));
  }
  append(findings, examine_memory(wanted));
  append(findings, examine_disk(arguments.swap_dir, wanted));
  print_text("{}", findings_text(findings));

  const auto count = [&](Health health) { return std::ranges::count(findings, health, &Finding::health); };
  const auto fail = std::ranges::find(findings, Health::fail, &Finding::health);
  if (fail != findings.end()) {
    return Error{fail->kind, fmt::format("training is not possible here: {}: {}", fail->what, fail->found)};
  }
  if (count(Health::warn) == 0) {
    print_text("\nTraining works; nothing needs a fix.\n");
  } else {
    print_text("\nTraining works; {} thing{} could be better.\n", count(Health::warn),
               count(Health::warn) == 1 ? "" : "s");
  }
  return {};
}

Result<void> run_doctor(const Arguments& arguments) {
  if (arguments.positional().empty()) return doctor({.swap_dir = arguments.text("dir")});
  TRY(check_form(arguments, {.name = "doctor CONFIG.yaml", .options = {}}));
  TRY_ASSIGN(Config config, config_of(arguments.positional()));
  TRY(check_base_is_named(config));
  static_cast<void>(resolve_executor(config));  // error ignored: a finding below says why it cannot be used
  look_at_rows(config);
  return doctor({.swap_dir = swap_directory(config),
                 .executor = config.machine.executor,
                 .gpus = config.machine.gpus(),
                 .exchange = config.machine.parallel != Parallel::layers,
                 .precision = config.train.precision,
                 .config = std::move(config)});
}

}  // namespace

std::string findings_text(const std::vector<Finding>& findings) {
  constexpr std::array<std::string_view, 3> names = {"ok", "warn", "FAIL"};
  std::string out;
  for (const Finding& finding : findings) {
    out += fmt::format("  {:<5} {:<15} {}\n", names[static_cast<u32>(finding.health)], finding.what,
                       wrapped(finding.found));
    if (!finding.fix.empty())
      out += fmt::format("{:{}}{}\n", "", text_column, wrapped("fix: " + finding.fix));
  }
  return out;
}

constinit const Command doctor_command = {
    .name = "doctor",
    .words = "[CONFIG.yaml [key=value ...]]",
    .summary = "check what this machine lacks or limits",
    .options = options_of_doctor,
    .run = run_doctor,
    .launched = Command::Launched::each_runs,
};

}  // namespace tidepool
