// The table of transitions: for each event and phase either what follows, or why it cannot happen.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "durability/durability.h"

namespace tidepool {
namespace {

struct Outcome {
  Action action = Action::none;
  std::string_view never = {};  // the event cannot happen: the reason; the state is then not used
};
// Changes the state as the event does. `value`: as Happened::value.
using Handler = Outcome (*)(Durability&, u64 value);

struct Cell {
  std::string_view text;  // what follows, or why the event cannot happen
  Handler handler = nullptr;

  constexpr Cell(std::string_view text, Handler handler) : text(text), handler(handler) {}
  constexpr Cell(std::string_view reason) : text(reason) {}
  constexpr Cell(const char* reason) : text(reason) {}
};

struct Row {
  Event event{};
  std::array<Cell, phase_count> cells;
};

using S = Durability;

constexpr Outcome never(std::string_view why) { return {.action = Action::none, .never = why}; }

constexpr std::string_view save_reads = "a save at rest reads what updates change";

// ---- the engine asks for the next segment

Outcome first_segment(S& s, u64) {
  if (s.save == SaveState::at_rest) return never(save_reads);
  if (s.policy.speculates && (!s.committed || *s.committed < s.evaluated))
    return never("updates that speculate need a commit, which no evaluation follows");
  s.phase = Phase::trains;
  s.votes = 0;
  ++s.issued;
  s.update_pends = s.policy.waits_for_norm;
  return {Action::start_forward_backward};
}

Outcome last_segment(S& s, u64) {
  if (s.save == SaveState::at_rest) return never(save_reads);
  s.phase = Phase::comes_to_rest;
  if (!s.update_pends) return {Action::start_nothing};
  s.update_pends = false;
  return {Action::start_drain};
}

// Nodes rest after the same step: what one of them learns counts once all have heard it.
bool must_rest(const S& s) {
  if (!s.policy.several_nodes) return s.bad.has_value();
  return s.votes != 0 || (s.bad && *s.bad < s.issued);
}

Outcome next_segment(S& s, u64 value) {
  if (must_rest(s)) return last_segment(s, value);
  ++s.issued;
  s.update_pends = s.policy.waits_for_norm;
  return {Action::start_body};
}

Outcome no_segment(S&, u64) { return {Action::start_nothing}; }

Outcome hear_votes(S& s, u64 votes) {
  if (!hears_votes(s)) return never("the numbers of the step are not known on every node");
  s.votes = votes;
  s.stop_is_voted = s.stop_is_voted || (votes & vote_stop) != 0;
  return {};
}

// ---- steps

Outcome count_step(S& s, u64 step) {
  if (s.bad) return {Action::ignore_step};
  if (step != s.counted + 1 || step > s.issued) return never("steps end in order");
  s.counted = step;
  if (step <= s.logged) return {Action::replay_step};
  s.logged = step;
  return {Action::log_step};
}

Outcome find_wrong(S& s, u64 step) {
  if (!s.policy.speculates) return never("updates have waited for the norm");
  if (s.bad) return {Action::ignore_step};
  if (step != s.counted + 1 || step > s.issued) return never("steps end in order");
  s.wrong = step;
  s.phase = Phase::abandons;
  return {Action::abandon};
}

Outcome find_bad(S& s, u64 step) {
  if (s.bad) return never("the first bad step ends the run");
  if (step != s.counted || step <= s.rested) return never("a step is bad when it has ended");
  if (std::max(s.committed.value_or(0), s.committing.value_or(0)) >= step)
    return never("the step was committed before it was known");
  s.bad = step;
  return {};
}

Outcome ignore(S&, u64) { return {Action::ignore_step}; }

// ---- commits

Outcome choose_commit(S& s, u64 step) {
  if (s.policy.versions < 2) return never("the plan keeps one version");
  if (step > s.issued) return never("the step has not begun");
  s.chosen = step;
  return {};
}

Outcome begin_commit(S& s, u64 step) {
  if (s.committing) return never("one commit is written at a time");
  if (s.save == SaveState::at_rest) return never("a save at rest comes after the commit");
  if (!may_commit(s, step)) return never("no slot may be written over, or the step is bad");
  if (step > s.counted) return never("the step's numbers are not known");
  if (s.committed && step < *s.committed) return never("a later step is committed");
  s.committing = step;
  return {};
}

Outcome commit(S& s, u64 step) {
  if (s.committing != step) return never("another commit is being written, or none");
  const bool first = !s.committed;
  s.committed = step;
  s.committing.reset();
  if (s.chosen < step) s.chosen = step;
  return {first ? Action::keep_file : Action::none};
}

Outcome drop_commit(S& s, u64) {
  if (!s.committing) return never("no commit is being written");
  s.committing.reset();
  return {};
}

Outcome take_over(S& s, u64 step) {
  if (s.policy.versions < 2) return never("the plan keeps one version");
  if (s.committed || s.committing || step != s.counted)
    return never("a commit is taken over by the process that resumes from it");
  s.committed = s.chosen = step;
  return {Action::keep_file};
}

// The file of the last commit is the next plan's.
Outcome take_file(S& s, u64 step) {
  if (s.committing || s.committed != step) return never("the next plan begins from the last commit");
  return {Action::keep_file};
}

// ---- at rest

Outcome rest(S& s, u64) {
  if (s.committing) return never("an op is in flight: the commit");
  s.rested = s.issued;
  if (s.bad) {
    s.phase = Phase::ended;
    return {Action::end_with_error};
  }
  if (s.counted != s.issued) return never("an op is in flight: a norm");
  s.phase = Phase::rests;
  return {};
}

Outcome rest_abandoned(S& s, u64) {
  if (s.committing) return never("an op is in flight: the commit");
  s.phase = Phase::rolls_back;
  return {Action::roll_back};
}

Outcome return_to_commit(S& s, u64 step) {
  if (s.committed != step) return never("the state returns to the last commit");
  s.issued = s.counted = s.rested = s.chosen = step;
  s.wrong.reset();
  s.phase = Phase::rests;
  return {};
}

Outcome evaluate(S& s, u64) {
  s.evaluated = s.issued;
  return {};
}

Outcome find_best(S& s, u64) {
  s.best_unsaved = true;
  return {};
}

Outcome begin_save(S& s, SaveState how) {
  if (s.save != SaveState::none) return never("one save is written at a time");
  if (s.committing) return never("a save comes after the commit");
  s.save = how;
  s.saving = s.issued;
  s.best_is_being_saved = s.best_unsaved;
  s.best_unsaved = false;
  return {};
}

Outcome save_at_rest(S& s, u64) { return begin_save(s, SaveState::at_rest); }

Outcome save_in_background(S& s, u64) {
  if (!may_save_in_background(s)) return never("the step is not committed, or its slots are needed");
  return begin_save(s, SaveState::in_background);
}

Outcome end_save(S& s, bool succeeds) {
  if (s.save == SaveState::none) return never("no save is being written");
  if (succeeds)
    s.saved = std::max(s.saved.value_or(0), *s.saving);
  else
    s.best_unsaved = s.best_unsaved || s.best_is_being_saved;
  s.save = SaveState::none;
  s.saving.reset();
  s.best_is_being_saved = false;
  return {};
}

Outcome save_is_good(S& s, u64) { return end_save(s, true); }
Outcome save_is_lost(S& s, u64) { return end_save(s, false); }

Outcome leave_plan(S& s, u64) {
  if (s.save != SaveState::none) return never("a save reads the session's slots");
  if (s.committing) return never("the commit comes first");
  if (s.committed != s.issued) return never("the next plan begins from a commit of this step");
  s.phase = Phase::replans;
  return {};
}

Outcome enter_plan(S& s, u64) {
  if (s.committing) return never("the commit comes first");
  s.phase = Phase::rests;
  return {};
}

// ---- the end

bool is_saved(const S& s) { return s.saved && *s.saved >= s.issued; }

Outcome complete(S& s, u64) {
  if (s.save != SaveState::none) return never("a save is being written");
  if (s.policy.saves && !is_saved(s)) return never("the last step is saved first");
  s.phase = Phase::ended;
  s.committed.reset();
  return {Action::forget_commit};
}

Outcome interrupt(S& s, u64) {
  if (s.save != SaveState::none) return never("a save is being written");
  s.phase = Phase::ended;
  if (!is_saved(s)) return {};
  s.committed.reset();
  return {Action::forget_commit};
}

Outcome end(S& s, u64) {
  s.phase = Phase::ended;
  return {};
}

// The swap file keeps the last durable commit, output.dir the last checkpoint. All else is gone.
Outcome resume(S& s, u64) {
  const Remains remains{.asked = Asked::automatic,
                        .several_nodes = s.policy.several_nodes,
                        .commit = s.committed,
                        .checkpoint = s.saved};
  const ResumeSource source = resume_source(remains);
  const u64 step = source == ResumeSource::commit       ? *s.committed
                   : source == ResumeSource::checkpoint ? *s.saved
                                                        : 0;
  const std::optional<u64> committed = source == ResumeSource::commit ? s.committed : std::nullopt;
  const std::optional<u64> saved = source == ResumeSource::nothing ? std::nullopt : s.saved;
  s = durability_at(s.policy, step, saved);
  s.committed = committed;
  s.chosen = committed.value_or(0);
  return {};
}

constexpr std::string_view at_rest = "no op is in flight", in_flight = "ops are in flight",
                           is_over = "the run has ended", no_more = "no more segments are asked for",
                           issues_none = "no more ops are issued", loading = "the state is being loaded",
                           first_rest = "the run comes to rest first",
                           by_op = "commits in flight are ops, whose error ends the run",
                           before_first = "before the first step only",
                           at_segment = "between segments, at rest and at the end only";

constexpr Cell first{"first segment", first_segment}, next{"next segment, or the last", next_segment},
    last{"the last segment", last_segment}, none_left{"nothing", no_segment}, votes{"votes", hear_votes},
    counts{"log or replay", count_step}, wrong{"abandon", find_wrong}, bad{"bad", find_bad},
    drops{"ignore", ignore}, chooses{"chosen", choose_commit}, commits{"being written", begin_commit},
    durable{"committed", commit}, undone{"not committed", drop_commit}, taken{"committed", take_over},
    keeps{"keep the file", take_file}, rested{"rests, or ended", rest},
    goes_back{"rolls_back", rest_abandoned}, is_back{"rests", return_to_commit},
    evaluates{"evaluated", evaluate}, best{"best is unsaved", find_best}, saves{"being saved", save_at_rest},
    reads{"being saved", save_in_background}, good{"saved", save_is_good}, lost{"not saved", save_is_lost},
    leaves{"replans", leave_plan}, enters{"rests", enter_plan}, completes{"ended", complete},
    interrupts{"ended", interrupt}, ends{"ended", end},
    resumes{"rests, at the last commit or checkpoint", resume};

constexpr std::array<Row, event_count> rows{{
    {Event::run_continues, {first, next, none_left, issues_none, loading, loading, is_over}},
    {Event::rest_is_due, {first, last, none_left, issues_none, loading, loading, is_over}},
    {Event::run_ends, {last, last, none_left, issues_none, loading, loading, is_over}},
    {Event::votes_are_heard, {at_rest, votes, no_more, issues_none, loading, loading, is_over}},
    {Event::step_counts, {at_rest, counts, counts, drops, at_rest, at_rest, is_over}},
    {Event::step_is_wrong, {at_rest, wrong, wrong, drops, at_rest, at_rest, is_over}},
    {Event::step_is_bad, {at_rest, bad, bad, "nothing counts", at_rest, at_rest, is_over}},
    {Event::commit_is_chosen, {at_rest, chooses, chooses, issues_none, loading, loading, is_over}},
    {Event::commit_begins, {commits, commits, commits, issues_none, loading, commits, is_over}},
    {Event::commit_is_durable, {durable, durable, durable, durable, at_rest, durable, is_over}},
    {Event::commit_fails, {undone, by_op, by_op, by_op, at_rest, undone, is_over}},
    {Event::commit_is_taken_over,
     {taken, before_first, before_first, before_first, before_first, keeps, is_over}},
    {Event::comes_to_rest, {at_rest, in_flight, rested, goes_back, at_rest, at_rest, is_over}},
    {Event::state_is_back,
     {at_rest, in_flight, in_flight, in_flight, is_back, "the next plan does", is_over}},
    {Event::evaluated, {evaluates, in_flight, in_flight, in_flight, loading, loading, is_over}},
    {Event::best_is_found, {best, in_flight, in_flight, in_flight, loading, loading, is_over}},
    {Event::save_begins_at_rest, {saves, in_flight, in_flight, in_flight, loading, loading, is_over}},
    {Event::save_begins_in_background,
     {reads, first_rest, first_rest, first_rest, loading, loading, is_over}},
    {Event::save_succeeds, {good, good, at_segment, at_segment, at_segment, at_segment, good}},
    {Event::save_fails, {lost, lost, at_segment, at_segment, at_segment, at_segment, lost}},
    {Event::plan_changes, {leaves, first_rest, first_rest, first_rest, loading, loading, is_over}},
    {Event::plan_is_changed, {at_rest, in_flight, in_flight, in_flight, loading, enters, is_over}},
    {Event::run_is_complete, {completes, first_rest, first_rest, first_rest, loading, loading, is_over}},
    {Event::run_is_interrupted, {interrupts, first_rest, first_rest, first_rest, loading, loading, is_over}},
    {Event::run_breaks, {ends, ends, ends, ends, ends, ends, ends}},
    {Event::killed, {resumes, resumes, resumes, resumes, resumes, resumes, resumes}},
}};

// Every event has its row, in order, and every cell of it is either a handler or a reason.
constexpr bool has_no_hole() {
  for (size_t e = 0; e < event_count; ++e) {
    if (rows[e].event != static_cast<Event>(e)) return false;
    for (const Cell& cell : rows[e].cells)
      if (cell.text.empty()) return false;
  }
  return true;
}
static_assert(has_no_hole());

}  // namespace

// Cells that cannot happen stand in brackets.
std::string table_text() {
  std::string text = "| event |";
  for (size_t p = 0; p < phase_count; ++p) text += fmt::format(" {} |", name(static_cast<Phase>(p)));
  text += "\n|---|";
  for (size_t i = 0; i < phase_count; ++i) text += "---|";
  text += "\n";
  for (const Row& row : rows) {
    text += fmt::format("| {} |", name(row.event));
    for (const Cell& cell : row.cells)
      text +=
          cell.handler != nullptr ? fmt::format(" **{}** |", cell.text) : fmt::format(" ({}) |", cell.text);
    text += "\n";
  }
  return text;
}

Transition transition(const Durability& state, const Happened& happened) {
  const Cell& cell = rows[static_cast<size_t>(happened.event)].cells[static_cast<size_t>(state.phase)];
  Transition out{.next = state, .action = Action::none, .never = {}};
  if (cell.handler == nullptr) {
    out.never = cell.text;
    return out;
  }
  const Outcome outcome = cell.handler(out.next, happened.value);
  out.action = outcome.action;
  out.never = outcome.never;
  if (!out.never.empty())
    out.next = state;
  else if (happened.event == Event::plan_is_changed)
    out.next.policy = happened.policy;
  return out;
}

}  // namespace tidepool
