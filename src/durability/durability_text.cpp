// Durability for people: names, a state in one line, the table of transitions.
#include <fmt/format.h>

#include <array>
#include <iterator>

#include "durability/durability.h"
#include "durability/transition_table.h"

namespace tidepool {
namespace {

constexpr std::array<std::string_view, phase_count> phase_names = {
    "rests", "trains", "comes_to_rest", "abandons", "rolls_back", "replans", "ended"};

constexpr std::array<std::string_view, event_count> event_names = {"goes_on",
                                                                   "rest_is_due",
                                                                   "run_ends",
                                                                   "votes_are_heard",
                                                                   "step_counts",
                                                                   "step_is_wrong",
                                                                   "step_is_bad",
                                                                   "commit_is_chosen",
                                                                   "commit_begins",
                                                                   "commit_is_durable",
                                                                   "commit_fails",
                                                                   "commit_is_taken_over",
                                                                   "comes_to_rest",
                                                                   "state_is_back",
                                                                   "evaluated",
                                                                   "best_is_found",
                                                                   "save_begins_at_rest",
                                                                   "save_begins_in_background",
                                                                   "save_succeeds",
                                                                   "save_fails",
                                                                   "plan_changes",
                                                                   "plan_is_changed",
                                                                   "run_is_complete",
                                                                   "run_is_interrupted",
                                                                   "run_breaks",
                                                                   "killed"};

constexpr std::array<std::string_view, 13> action_names = {"none",          "start_forward_backward",
                                                           "start_body",    "start_drain",
                                                           "start_nothing", "log_step",
                                                           "replay_step",   "ignore_step",
                                                           "abandon",       "roll_back",
                                                           "keep_file",     "end_with_error",
                                                           "forget_commit"};

}  // namespace

std::string_view name(Phase phase) { return phase_names[static_cast<size_t>(phase)]; }
std::string_view name(Event event) { return event_names[static_cast<size_t>(event)]; }
std::string_view name(Action action) { return action_names[static_cast<size_t>(action)]; }

std::string to_text(const Durability& s) {
  fmt::memory_buffer line;
  auto out = std::back_inserter(line);
  fmt::format_to(out, "{}: issued {}, counted {}, logged {}", name(s.phase), s.issued, s.counted, s.logged);
  const auto add = [&](std::string_view what, const std::optional<u64>& step) {
    if (step) fmt::format_to(out, ", {} {}", what, *step);
  };
  add("committed", s.committed);
  add("committing", s.committing);
  add("saved", s.saved);
  add(s.save == SaveState::in_background ? "saving in the background" : "saving at rest", s.saving);
  add("wrong", s.wrong);
  add("bad", s.bad);
  const auto flag = [&](std::string_view what, bool is_set) {
    if (is_set) fmt::format_to(out, ", {}", what);
  };
  flag("update pends", s.update_pends);
  flag("best unsaved", s.best_unsaved);
  flag("best is being saved", s.best_is_being_saved);
  flag("stop is voted", s.stop_is_voted);
  if (s.votes != 0) fmt::format_to(out, ", votes {}", s.votes);
  fmt::format_to(out, "; {} version{}{}{}", s.policy.versions, s.policy.versions == 1 ? "" : "s",
                 s.policy.waits_for_norm ? ", updates wait for the norm" : "",
                 s.policy.speculates ? ", updates speculate" : "");
  return {line.data(), line.size()};
}

// Cells that cannot happen stand in brackets.
std::string table_text() {
  std::string text = "| event |";
  for (const std::string_view phase : phase_names) text += fmt::format(" {} |", phase);
  text += "\n|---|";
  for (size_t i = 0; i < phase_count; ++i) text += "---|";
  text += "\n";
  for (const Row& row : transition_table()) {
    text += fmt::format("| {} |", name(row.event));
    for (const Cell& cell : row.cells)
      text +=
          cell.handler != nullptr ? fmt::format(" **{}** |", cell.text) : fmt::format(" ({}) |", cell.text);
    text += "\n";
  }
  return text;
}

bool is_routine(Event event) {
  return event == Event::goes_on || event == Event::step_counts || event == Event::commit_is_chosen ||
         event == Event::commit_begins;
}

}  // namespace tidepool
