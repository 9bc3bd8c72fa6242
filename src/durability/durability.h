// Durability is the state of a run between "a step was begun" and "nothing of it can be lost": one value,
// which one table of transitions changes. Commit, save, resume, replay, speculation and the nodes' votes are
// events of this table (transitions.cpp). Nothing here has a clock, a thread or I/O: whoever trains tells
// what happened, and does what the table answers.
//
//   commit      makes a step durable: the swap file says which slot of each chunk counts from now on
//   save        writes a checkpoint, at rest, or in the background from the slots of the last commit
//   replay      trains steps again from the last commit on, because a norm contradicted what updates assumed
//   resume      begins where the last commit or the last checkpoint ends, whichever is later
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/types.h"

namespace tidepool {

enum class Phase : u8 {
  rests,          // no op is in flight: evaluations, saves and commits at rest
  trains,         // segments follow each other
  comes_to_rest,  // the last segments run; the choice to rest is kept, whatever happens on the way
  abandons,       // a step assumed a wrong norm: ops in flight complete, and nothing of them counts
  rolls_back,     // no op is in flight: the state returns to the last commit
  replans,        // no op is in flight: another plan takes the place of this one
  ended,          // the process does no more than to end a save that is being written
};
inline constexpr size_t phase_count = 7;

enum class SaveState : u8 { none, at_rest, in_background };

// Policy follows from plan and config; only a change of plan changes it.
struct Policy {
  u32 versions = 1;             // Plan::versions: slots of each trained chunk; with one, nothing is committed
  bool waits_for_norm = false;  // Plan::clipping: a step's updates run in the next segment
  bool speculates = false;      // Plan::speculates
  bool several_nodes = false;
  bool saves = true;  // output.save

  auto operator<=>(const Policy&) const = default;
};

// Votes of nodes: a node votes for what it alone has learned, and all hear of it with a step's numbers.
inline constexpr u64 vote_rest = 1, vote_stop = 2, vote_save = 4;

struct Durability {
  Policy policy;
  Phase phase = Phase::rests;
  SaveState save = SaveState::none;
  bool update_pends = false;         // gradients of the last issued step wait for their update
  bool best_unsaved = false;         // the best evaluation is newer than the last checkpoint
  bool best_is_being_saved = false;  // and is in the checkpoint that is being written
  bool stop_is_voted = false;
  u64 votes = 0;   // of all nodes, which led to this rest
  u64 issued = 0;  // the last step whose forward was given to the engine
  // The last step whose numbers are known and count. Steps end in order.
  u64 counted = 0;
  u64 logged = 0;                 // the last step that was logged: up to here, training is replay
  u64 evaluated = 0;              // the last step with an evaluation
  u64 rested = 0;                 // the step of the last rest
  u64 chosen = 0;                 // the last step whose commit was chosen
  std::optional<u64> committing;  // the step whose commit is being written
  std::optional<u64> committed;   // of the last durable commit
  std::optional<u64> saving, saved;
  std::optional<u64> wrong;  // the step that assumed a wrong norm, and will be replayed
  std::optional<u64> bad;    // a step whose numbers cannot be trained on: the run ends

  auto operator<=>(const Durability&) const = default;
};

enum class Event : u8 {
  // The engine asks for the next segment.
  run_continues,  // nothing asks the run to rest or to end
  rest_is_due,    // evaluation, save or another choice is due, once at least one step was trained
  run_ends,       // no step is left, or a signal has asked to stop
  votes_are_heard,
  // A step's norm has ended.
  step_counts,
  step_is_wrong,  // its updates have assumed another norm
  step_is_bad,    // after step_counts: its numbers end the run
  // Commits, by ops of the plan or at rest.
  commit_is_chosen,  // the next segment commits this step
  commit_begins,
  commit_is_durable,
  commit_fails,
  commit_is_taken_over,  // from an earlier process
  // At rest.
  comes_to_rest,  // the engine has returned
  state_is_back,  // at the last commit
  evaluated,
  best_is_found,
  save_begins_at_rest,
  save_begins_in_background,
  save_succeeds,
  save_fails,
  plan_changes,
  plan_is_changed,
  run_is_complete,
  run_is_interrupted,
  run_breaks,  // an error ends it
  killed,      // and resumed
};
inline constexpr size_t event_count = static_cast<size_t>(Event::killed) + 1;

// Action is what a transition asks of whoever told the event.
enum class Action : u8 {
  none,
  start_forward_backward,
  start_body,
  start_drain,
  start_nothing,  // the engine comes to rest
  log_step,
  replay_step,  // as log_step, but an earlier try has logged the step
  ignore_step,  // it was in flight when a step before it turned out wrong or bad
  abandon,
  roll_back,
  keep_file,  // the swap file outlives the process
  end_with_error,
  forget_commit,  // all is saved elsewhere
};

struct Happened {
  Event event{};
  u64 value = 0;       // the event's step, or votes
  Policy policy = {};  // of plan_is_changed
};

struct Transition {
  Durability next;
  Action action = Action::none;
  std::string_view never = {};  // the reason why the event cannot happen in this state; empty: it can
};

Transition transition(const Durability&, const Happened&);

// ---- Questions to a state.

// True if the payload of a commit may be supplied now: else the step stays uncommitted.
bool may_commit(const Durability&, u64 step);
// With two versions no step is committed while a save reads the last commit: no slot would be left to write
// to.
bool commits_pause(const Durability&);
// True if a save of the present step may read the slots of its commit while the run trains on. Updates that
// speculate need commits: without them more and more steps would be replayed.
bool may_save_in_background(const Durability&);
// True if votes can be heard: the numbers of the step before the last are then known on every node.
bool hears_votes(const Durability&);
// True if the last commit is newer than the last checkpoint.
bool commit_is_newest(const Durability&);

// ---- Beginning and resume.

// RETURNS: the state of a run before its first step, or of one that resumes after `step`.
// `saved`: the checkpoint in output.dir that it resumes from.
Durability durability_at(const Policy&, u64 step, std::optional<u64> saved);

enum class ResumeSource : u8 { nothing, commit, checkpoint };
enum class Asked : u8 { anew, automatic, checkpoint, commit };  // by --resume
struct Remains {
  Asked asked = Asked::anew;
  bool several_nodes = false;             // they resume from checkpoints only
  std::optional<u64> commit, checkpoint;  // steps that were found
};
// RETURNS: true if the run may resume from a commit, unless a newer checkpoint is found.
bool may_resume_from_commit(const Remains&);
ResumeSource resume_source(const Remains&);

// ---- For people.

std::string_view name(Phase);
std::string_view name(Event);
// A state in one line, without fields that say nothing. Made without an allocation: steps log it.
struct StateText {
  std::array<char, 512> chars;
  size_t size = 0;
  std::string_view view() const { return {chars.data(), size}; }
};
StateText to_text(const Durability&);
// RETURNS: the table of docs/architecture/durability.md.
std::string table_text();
// True for events of each step, which would fill a log.
bool is_routine(Event);

}  // namespace tidepool
