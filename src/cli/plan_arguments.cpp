#include "cli/plan_arguments.h"

#include <fmt/format.h>

#include <array>

namespace tidepool {
namespace {

// RETURNS: the option that replaces the table; null if the table is printed.
const char* printed_instead(const PlanArguments& a) {
  if (a.text) return "--text";
  if (!a.explain.empty()) return "--explain";
  if (a.largest) return "--max";
  if (a.longest) return "--max-length";
  return a.json ? "--json" : nullptr;
}

Result<void> check_one_view(const PlanArguments& a) {
  const std::array<std::pair<bool, const char*>, 5> views = {{{a.text, "--text"},
                                                              {!a.explain.empty(), "--explain"},
                                                              {a.largest, "--max"},
                                                              {a.longest, "--max-length"},
                                                              {a.json, "--json"}}};
  const char* first = nullptr;
  for (const auto& [given, view] : views) {
    if (!given) continue;
    if (first != nullptr)
      return usage_error(fmt::format("{} and {} cannot be combined: give only one of them", first, view));
    first = view;
  }
  return {};
}

// Refuses arguments that need the table if no table is printed: --gantt and --what-if are printed under it
// (--what-if also under --max-length), and tokens= adds a row to it or to --json.
Result<void> check_what_the_table_takes(const PlanArguments& a) {
  const char* instead = printed_instead(a);
  if (instead == nullptr) return {};
  const char* added = a.gantt ? "--gantt" : a.what_if && !a.longest ? "--what-if" : nullptr;
  if (added != nullptr)
    return usage_error(fmt::format(
        "{} is printed under the table, but {} prints no table: leave one of them out", added, instead));
  if (a.tokens > 0 && !a.json)
    return usage_error(fmt::format(
        "tokens= asks for days of training, which {} does not print: leave one of them out", instead));
  return {};
}

Result<void> check_machine(const PlanArguments& a) {
  if (!a.config.machine.file.empty()) return {};
  if (a.largest || a.longest)
    return usage_error(fmt::format("{} needs a machine: add machine=FILE, for example from configs/machines",
                                   printed_instead(a)));
  const char* timed = a.gantt ? "--gantt" : a.what_if ? "--what-if" : a.tokens > 0 ? "tokens=" : nullptr;
  if (timed == nullptr) return {};
  return usage_error(fmt::format(
      "{} needs predicted times: add machine=FILE, from 'tidepool probe' or configs/machines", timed));
}

}  // namespace

Result<void> check_plan_arguments(const PlanArguments& a) {
  TRY(check_one_view(a));
  if (!a.segment.empty() && a.explain.empty())
    return usage_error("--segment needs --explain: add --explain op:N or --explain chunk:N");
  TRY(check_what_the_table_takes(a));
  return check_machine(a);
}

}  // namespace tidepool
