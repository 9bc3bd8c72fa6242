// Durability for people: names, and a state in one line.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "durability/durability.h"

namespace tidepool {
namespace {

constexpr std::array<std::string_view, phase_count> phase_names = {
    "rests", "trains", "comes_to_rest", "abandons", "rolls_back", "replans", "ended"};

constexpr std::array<std::string_view, event_count> event_names = {"run_continues",
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

}  // namespace

std::string_view name(Phase phase) { return phase_names[static_cast<size_t>(phase)]; }
std::string_view name(Event event) { return event_names[static_cast<size_t>(event)]; }

StateText to_text(const Durability& s) {
  StateText text;
  const auto add = [&](fmt::string_view format, const auto&... args) {
    char* const end = text.chars.data() + text.size;
    const size_t room = text.chars.size() - text.size;
    text.size += std::min(room, fmt::format_to_n(end, room, fmt::runtime(format), args...).size);
  };
  const auto add_step = [&](std::string_view what, const std::optional<u64>& step) {
    if (step) add(", {} {}", what, *step);
  };
  const auto add_flag = [&](std::string_view what, bool is_set) {
    if (is_set) add(", {}", what);
  };
  add("{}: issued {}, counted {}, logged {}", name(s.phase), s.issued, s.counted, s.logged);
  add_step("committed", s.committed);
  add_step("committing", s.committing);
  add_step("saved", s.saved);
  add_step(s.save == SaveState::in_background ? "saving in the background" : "saving at rest", s.saving);
  add_step("wrong", s.wrong);
  add_step("bad", s.bad);
  add_flag("update pends", s.update_pends);
  add_flag("best unsaved", s.best_unsaved);
  add_flag("best is being saved", s.best_is_being_saved);
  add_flag("stop is voted", s.stop_is_voted);
  if (s.votes != 0) add(", votes {}", s.votes);
  add("; {} version{}", s.policy.versions, s.policy.versions == 1 ? "" : "s");
  add_flag("updates wait for the norm", s.policy.waits_for_norm);
  add_flag("updates speculate", s.policy.speculates);
  return text;
}

bool is_routine(Event event) {
  return event == Event::run_continues || event == Event::step_counts || event == Event::commit_is_chosen ||
         event == Event::commit_begins;
}

}  // namespace tidepool
