// Finds an expert's rows and tasks in the offsets that sorting left. Nothing is allocated: a task walks the
// offsets, at most a few hundred numbers.
#pragma once

#include "base/types.h"

namespace tidepool {

struct ExpertRows {
  u32 expert = 0;  // in the range
  u32 begin = 0, count = 0;
};

constexpr ExpertRows rows_of_expert(const i32* offsets, u32 expert) {
  const u32 begin = static_cast<u32>(offsets[expert]);
  return {expert, begin, static_cast<u32>(offsets[expert + 1]) - begin};
}

// tasks(rows): number of tasks of an expert. RETURNS: their sum.
template <class Tasks>
u32 expert_task_count(const i32* offsets, u32 experts, Tasks tasks) {
  u32 sum = 0;
  for (u32 expert = 0; expert < experts; ++expert) sum += tasks(rows_of_expert(offsets, expert));
  return sum;
}

// Calls fn(rows, task): `task` of the sum is this task of that expert.
// REQUIRES: task < expert_task_count()
template <class Tasks, class Fn>
void with_expert_task(const i32* offsets, u32 task, Tasks tasks, Fn fn) {
  for (u32 expert = 0;; ++expert) {
    const ExpertRows rows = rows_of_expert(offsets, expert);
    const u32 count = tasks(rows);
    if (task < count) return fn(rows, task);
    task -= count;
  }
}

}  // namespace tidepool
