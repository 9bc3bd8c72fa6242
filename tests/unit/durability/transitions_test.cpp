// Every state that a small run can reach, and every event in it: the table has an answer, and no answer loses
// a step. Runs of up to three steps with each policy, so that commits, saves, replays and votes meet in every
// order.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/check.h"
#include "durability/durability.h"

namespace tidepool::transitions_test {

constexpr u64 steps_max = 3;

std::vector<Policy> policies() {
  std::vector<Policy> out;
  for (const bool saves : {false, true}) {
    for (const bool waits : {false, true}) {
      out.push_back({.versions = 1, .waits_for_norm = waits, .saves = saves});
      out.push_back({.versions = 1, .waits_for_norm = waits, .several_nodes = true, .saves = saves});
    }
    for (const u32 versions : {2, 3}) {
      out.push_back({.versions = versions, .saves = saves});
      out.push_back({.versions = versions, .waits_for_norm = true, .saves = saves});
      out.push_back({.versions = versions, .speculates = true, .saves = saves});
    }
  }
  return out;
}

Policy other_policy(Policy policy) {
  policy.speculates = !policy.speculates;
  policy.waits_for_norm = !policy.speculates;
  return policy;
}

// Calls with the event and each value that may matter.
template <class F>
void each_value(Event event, const Durability& state, F f) {
  u64 first = 0, last = 0;
  if (event == Event::votes_are_heard) last = vote_rest | vote_stop | vote_save;
  if (event >= Event::step_counts && event <= Event::commit_is_durable) last = state.issued + 1;
  if (event == Event::commit_is_taken_over || event == Event::state_is_back) last = state.issued + 1;
  const Policy policy = event == Event::plan_is_changed ? other_policy(state.policy) : Policy{};
  for (u64 value = first; value <= last; ++value) f(Happened{event, value, policy});
}

bool asks(Event e) { return e == Event::run_continues || e == Event::rest_is_due || e == Event::run_ends; }
// Two segments run at a time; the small run has few steps, and its pace of commits is not looked at.
bool is_explored(const Durability& s, Event e) {
  if (e == Event::commit_is_chosen) return false;
  return !asks(e) || (s.issued < steps_max && s.issued < s.counted + 2) || e == Event::run_ends;
}

struct From {
  const Durability* state = nullptr;  // null: the run began there
  Happened happened;
};
using Reached = std::map<Durability, From>;  // each state, and how it was reached first

const Reached& reached() {
  static const Reached all = [] {
    Reached found;
    std::deque<const Durability*> open;
    const auto add = [&](const Durability& state, const From& from) {
      if (const auto [at, is_new] = found.emplace(state, from); is_new) open.push_back(&at->first);
    };
    for (const Policy& policy : policies()) add(durability_at(policy, 0, std::nullopt), {});
    for (; !open.empty(); open.pop_front()) {
      const Durability& state = *open.front();
      for (size_t e = 0; e < event_count; ++e)
        if (const Event event = static_cast<Event>(e); is_explored(state, event))
          each_value(event, state, [&](const Happened& happened) {
            if (const Transition t = transition(state, happened); t.never.empty())
              add(t.next, {&state, happened});
          });
    }
    return found;
  }();
  return all;
}

// RETURNS: the events that led to a state, and the state.
std::string path_to(const Durability& state) {
  std::string path;
  for (const Durability* at = &state; at != nullptr;) {
    const From& from = reached().at(*at);
    if (from.state != nullptr)
      path = fmt::format(" {} {}\n", name(from.happened.event), from.happened.value) + path;
    at = from.state;
  }
  return path + std::string(to_text(state).view());
}

// Calls with each transition that can happen in a reachable state, until one is wrong.
template <class F>
void each_transition(F f) {
  for (const auto& [state, from] : reached())
    for (size_t e = 0; e < event_count; ++e) {
      each_value(static_cast<Event>(e), state, [&](const Happened& happened) {
        const Transition t = transition(state, happened);
        if (!t.never.empty()) return;
        f(state, happened, t);
        if (::testing::Test::HasFailure())
          ADD_FAILURE() << path_to(state) << "\n then " << name(happened.event) << " " << happened.value
                        << "\n"
                        << to_text(t.next).view();
      });
      if (::testing::Test::HasFailure()) return;
    }
}

// RETURNS: slots that a chunk needs while updates write: one that is written to, that of the last commit, and
// that of the commit that a save reads.
u32 slots_in_use(const Durability& s) {
  if (!s.committed) return 1;
  const bool held = s.save == SaveState::in_background && s.saving != s.committed;
  return held ? 3 : 2;
}

// An event that cannot happen changes nothing, and asks for nothing.
TEST(Transitions, EveryEventHasAnAnswerInEveryState) {
  RecordProperty("states", static_cast<int>(reached().size()));
  std::map<Event, u64> possible;
  for (const auto& [state, from] : reached())
    for (size_t e = 0; e < event_count; ++e)
      each_value(static_cast<Event>(e), state, [&](const Happened& happened) {
        const Transition t = transition(state, happened);
        possible[happened.event] += t.never.empty();
        if (!t.never.empty())
          ASSERT_TRUE(t.next == state && t.action == Action::none) << name(happened.event);
      });
  for (size_t e = 0; e < event_count; ++e)
    EXPECT_GT(possible[static_cast<Event>(e)], 0u) << name(static_cast<Event>(e));
  fmt::print("{} states\n", reached().size());
}

TEST(Transitions, EveryPhaseIsReached) {
  std::map<Phase, u64> count;
  for (const auto& [state, from] : reached()) ++count[state.phase];
  EXPECT_EQ(count.size(), phase_count);
}

// Only steps that count are committed, none that is bad, and nothing at all with one version.
bool commits_are_legal(const Durability& s) {
  const u64 last = std::max(s.committing.value_or(0), s.committed.value_or(0));
  if (s.policy.versions < 2) return !s.committed && !s.committing;
  return last <= s.counted && (!s.bad || last < *s.bad);
}

// A save at rest reads what updates change; one in the background reads slots that nothing writes to.
bool save_is_legal(const Durability& s) {
  if (s.save != SaveState::none && !s.saving) return false;
  if (s.save == SaveState::at_rest) return s.phase == Phase::rests || s.phase == Phase::ended;
  if (s.save == SaveState::none) return !s.saving;
  return slots_in_use(s) <= s.policy.versions && (s.policy.versions > 2 || !s.committing);
}

// Updates that speculate have a commit to return to, and replay no evaluation.
bool replay_is_legal(const Durability& s) {
  if (s.policy.speculates && (s.phase == Phase::trains || s.wrong))
    if (!s.committed || *s.committed < s.evaluated) return false;
  const bool replays = s.phase == Phase::abandons || s.phase == Phase::rolls_back;
  return s.phase == Phase::ended || s.wrong.has_value() == replays;
}

TEST(Transitions, StatesAreLegal) {
  for (const auto& [s, from] : reached()) {
    const bool quiet = s.phase == Phase::rests || s.phase == Phase::replans;
    const bool legal = s.counted <= s.issued && s.counted <= s.logged && s.saved.value_or(0) <= s.logged &&
                       !(s.policy.waits_for_norm && s.policy.speculates) &&
                       (!quiet || (s.issued == s.counted && !s.update_pends)) && commits_are_legal(s) &&
                       save_is_legal(s) && replay_is_legal(s);
    ASSERT_TRUE(legal) << path_to(s);
  }
}

TEST(Transitions, NothingIsAcknowledgedBeforeItIsDurable) {
  each_transition([](const Durability& from, const Happened& h, const Transition& t) {
    const Durability& to = t.next;
    if (h.event == Event::killed) return;
    if (to.committed != from.committed && to.committed) {
      EXPECT_TRUE(
          (h.event == Event::commit_is_durable && from.committing == h.value && to.committed == h.value) ||
          h.event == Event::commit_is_taken_over);
    }
    if (to.saved != from.saved) {
      EXPECT_TRUE(h.event == Event::save_succeeds && to.saved == from.saving);
    }
  });
}

TEST(Transitions, ACommitIsNeverLost) {
  each_transition([](const Durability& from, const Happened& h, const Transition& t) {
    if (t.action == Action::forget_commit) {
      EXPECT_TRUE(!t.next.committed && t.next.phase == Phase::ended);
    }
    if (h.event == Event::killed || !from.committed) return;
    // It is forgotten once a checkpoint has the same step, or the run is complete and saves nothing.
    if (!t.next.committed) {
      EXPECT_TRUE(t.next.saved >= from.issued || (h.event == Event::run_is_complete && !from.policy.saves));
    } else
      EXPECT_GE(*t.next.committed, *from.committed);
  });
}

TEST(Transitions, ACheckpointIsNeverLost) {
  each_transition([](const Durability& from, const Happened& h, const Transition& t) {
    if (h.event != Event::killed && from.saved) {
      EXPECT_GE(t.next.saved.value_or(0), *from.saved);
    }
  });
}

TEST(Transitions, NoUpdateRunsWhileASaveReadsWhatItChanges) {
  each_transition([](const Durability& from, const Happened&, const Transition& t) {
    const bool starts = t.action == Action::start_forward_backward || t.action == Action::start_body ||
                        t.action == Action::start_drain;
    if (!starts) return;
    EXPECT_NE(from.save, SaveState::at_rest);
    if (from.save == SaveState::in_background) {
      EXPECT_LE(slots_in_use(from), from.policy.versions);
    }
  });
}

TEST(Transitions, EveryPendingUpdateRunsBeforeARest) {
  each_transition([](const Durability& from, const Happened& h, const Transition& t) {
    if (!asks(h.event)) return;
    EXPECT_EQ(t.action == Action::start_drain,
              from.update_pends && t.next.phase == Phase::comes_to_rest && from.phase == Phase::trains);
    if (t.action == Action::start_nothing) {
      EXPECT_FALSE(t.next.update_pends);
    }
  });
}

TEST(Transitions, AChoiceToRestIsKept) {
  each_transition([](const Durability& from, const Happened& h, const Transition& t) {
    if (from.phase == Phase::comes_to_rest && asks(h.event)) {
      EXPECT_EQ(t.action, Action::start_nothing);
    }
  });
}

// A step is logged once, in order; steps up to the last logged one are replayed, and no other.
TEST(Transitions, ReplayEndsWhereTheLogDoes) {
  each_transition([](const Durability& from, const Happened& h, const Transition& t) {
    if (h.event == Event::killed) return;
    if (t.action == Action::log_step) {
      EXPECT_TRUE(h.value == from.logged + 1 && t.next.logged == h.value);
    }
    if (t.action == Action::replay_step) {
      EXPECT_TRUE(h.value <= from.logged && t.next.logged == from.logged);
    }
    if (t.action != Action::log_step) {
      EXPECT_EQ(t.next.logged, from.logged);
    }
    if (h.event == Event::state_is_back) {
      EXPECT_EQ(t.next.issued, *from.committed);
      EXPECT_LT(t.next.issued, *from.wrong);
      EXPECT_EQ(t.next.phase, Phase::rests);
    }
  });
}

TEST(Transitions, WhatIsInFlightAfterAWrongOrBadStepDoesNotCount) {
  each_transition([](const Durability& from, const Happened& h, const Transition& t) {
    if (h.event == Event::step_counts && (from.wrong || from.bad)) {
      EXPECT_EQ(t.action, Action::ignore_step);
      EXPECT_EQ(t.next, from);
    }
  });
}

TEST(Transitions, AKilledRunResumesAtItsLastCommitOrCheckpoint) {
  each_transition([](const Durability& from, const Happened& h, const Transition& t) {
    if (h.event != Event::killed) return;
    const Durability& to = t.next;
    EXPECT_EQ(to.phase, Phase::rests);
    EXPECT_EQ(to.issued, std::max(from.committed.value_or(0), from.saved.value_or(0)));
    EXPECT_TRUE(to.issued == to.counted && to.counted == to.logged);
    EXPECT_TRUE(to.save == SaveState::none && !to.committing && !to.wrong && !to.bad && !to.update_pends);
    EXPECT_TRUE(reached().contains(to)) << to_text(to).view();
  });
}

// From every state the run can end by itself: nothing waits for an event that cannot come.
TEST(Transitions, NoStateIsADeadEnd) {
  std::map<const Durability*, std::vector<const Durability*>> before;
  std::vector<const Durability*> open;
  std::set<const Durability*> ends;
  each_transition([&](const Durability& from, const Happened& h, const Transition& t) {
    if (h.event == Event::killed || h.event == Event::run_breaks) return;
    if (const auto to = reached().find(t.next); to != reached().end()) before[&to->first].push_back(&from);
  });
  for (const auto& [state, from] : reached())
    if (state.phase == Phase::ended && state.save == SaveState::none)
      open.push_back(&state), ends.insert(&state);
  while (!open.empty()) {
    const Durability* const state = open.back();
    open.pop_back();
    for (const Durability* const from : before[state])
      if (ends.insert(from).second) open.push_back(from);
  }
  for (const auto& [state, from] : reached()) ASSERT_TRUE(ends.contains(&state)) << path_to(state);
}

TEST(Transitions, VotesOfOneNodeBringAllToRest) {
  Durability s = durability_at({.waits_for_norm = true, .several_nodes = true}, 0, std::nullopt);
  const auto tell = [&](Event event, u64 value = 0) {
    const Transition t = transition(s, {event, value});
    EXPECT_TRUE(t.never.empty()) << name(event) << ": " << t.never;
    s = t.next;
    return t.action;
  };
  EXPECT_EQ(tell(Event::run_continues), Action::start_forward_backward);
  EXPECT_FALSE(hears_votes(s));  // no step before the last is known
  EXPECT_EQ(tell(Event::run_continues), Action::start_body);
  tell(Event::step_counts, 1);
  EXPECT_TRUE(hears_votes(s));
  tell(Event::votes_are_heard, vote_save | vote_stop);
  EXPECT_EQ(tell(Event::run_continues), Action::start_drain);
  tell(Event::step_counts, 2);
  EXPECT_EQ(tell(Event::run_continues), Action::start_nothing);
  tell(Event::comes_to_rest);
  EXPECT_TRUE(s.stop_is_voted);
  EXPECT_EQ(s.votes, vote_save | vote_stop);
}

TEST(ResumeSource, IsTheLaterOfCommitAndCheckpoint) {
  using enum ResumeSource;
  for (const bool several : {false, true})
    for (const Asked asked : {Asked::anew, Asked::automatic, Asked::checkpoint, Asked::commit})
      for (const std::optional<u64> commit : {std::optional<u64>(), std::optional<u64>(4)})
        for (const std::optional<u64> checkpoint :
             {std::optional<u64>(), std::optional<u64>(3), std::optional<u64>(4), std::optional<u64>(5)}) {
          const ResumeSource source = resume_source({asked, several, commit, checkpoint});
          if (several || !commit || asked == Asked::anew || asked == Asked::checkpoint) {
            EXPECT_EQ(source, checkpoint ? ResumeSource::checkpoint : nothing);
          } else if (asked == Asked::commit)
            EXPECT_EQ(source, ResumeSource::commit);
          else
            EXPECT_EQ(source, checkpoint == 5u ? ResumeSource::checkpoint : ResumeSource::commit);
        }
}

TEST(Durability, IsPrintedInOneLine) {
  Durability s = durability_at({.versions = 3, .speculates = true}, 7, 5);
  s.committed = 7;
  EXPECT_EQ(to_text(s).view(),
            "rests: issued 7, counted 7, logged 7, committed 7, saved 5; 3 versions, updates speculate");
}

}  // namespace tidepool::transitions_test
