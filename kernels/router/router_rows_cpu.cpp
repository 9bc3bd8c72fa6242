#include "kernels/router/router_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cross_entropy/logits_rows.h"

namespace tidepool {
namespace {

constexpr u32 key_of_nan = 0;

// Integers in the order of floats: NaN first, and both zeros equal.
u32 key_of(float x) {
  if (std::isnan(x)) return key_of_nan;
  const u32 bits = std::bit_cast<u32>(x + 0.0f);
  return bits >> 31 != 0 ? ~bits : bits | 0x8000'0000;
}
float value_of_key(u32 key) {
  if (key == key_of_nan) return -std::numeric_limits<float>::infinity();
  return std::bit_cast<float>(key >> 31 != 0 ? key & 0x7fff'ffff : ~key);
}

// The k best of the keys that were offered, best first. Of equal keys the one that was offered first is
// better.
struct Best {
  i32* index;  // [k]
  u32 room;
  u32 count = 0;

  void offer(const u32* keys, u32 i) {
    if (count == room && keys[i] <= keys[index[count - 1]]) return;
    u32 at = count < room ? count++ : count - 1;
    for (; at > 0 && keys[i] > keys[index[at - 1]]; --at) index[at] = index[at - 1];
    index[at] = static_cast<i32>(i);
  }
};

u32 group_key(const u32* keys, u32 size) {
  u32 first = key_of_nan, second = key_of_nan;
  for (u32 i = 0; i < size; ++i) {
    if (keys[i] > first) {
      second = first;
      first = keys[i];
    } else {
      second = std::max(second, keys[i]);
    }
  }
  return key_of(value_of_key(first) + (size > 1 ? value_of_key(second) : 0.0f));
}

// Offers experts of the best groups only. group_keys: scratch, [2 groups].
void choose_in_groups(const RouterRule& rule, const u32* keys, u32* group_keys, i32* experts) {
  const u32 size = rule.experts / rule.groups;
  auto* chosen = reinterpret_cast<i32*>(group_keys + rule.groups);
  for (u32 group = 0; group < rule.groups; ++group) {
    group_keys[group] = group_key(keys + u64{group} * size, size);
  }
  Best groups = {chosen, rule.chosen_groups};
  for (u32 group = 0; group < rule.groups; ++group) groups.offer(group_keys, group);
  std::sort(chosen, chosen + groups.count);  // so that experts are offered in ascending order
  Best best = {experts, rule.chosen};
  for (u32 i = 0; i < groups.count; ++i) {
    const u32 begin = static_cast<u32>(chosen[i]) * size;
    for (u32 expert = begin; expert < begin + size; ++expert) best.offer(keys, expert);
  }
}

}  // namespace

float router_softmax(const float* logits, u32 n, float* p) {
  const float maximum = max_row(logits, n), sum = sum_exp_row(logits, maximum, n);
  if (p != logits) std::memcpy(p, logits, n * sizeof(float));
  scaled_exp_row(p, maximum, 1.0f / sum, 0, n);
  return maximum + std::log(sum);
}

Logistic logistic(float x) {
  const float e = std::exp(-std::abs(x)), high = 1.0f / (1.0f + e), low = e * high;
  return x < 0 ? Logistic{low, high} : Logistic{high, low};
}

void chosen_softmax(const float* logits, const i32* experts, u32 chosen, float* q) {
  float maximum = -std::numeric_limits<float>::infinity(), sum = 0;
  for (u32 j = 0; j < chosen; ++j) maximum = std::max(maximum, logits[experts[j]]);
  for (u32 j = 0; j < chosen; ++j) sum += q[j] = std::exp(logits[experts[j]] - maximum);
  for (u32 j = 0; j < chosen; ++j) q[j] /= sum;
}

bool choose_experts(const RouterRule& rule, const float* scores, u32* keys, i32* experts) {
  bool numbers = true;
  for (u32 expert = 0; expert < rule.experts; ++expert) {
    keys[expert] = key_of(scores[expert]);
    numbers = numbers && keys[expert] != key_of_nan;
  }
  if (rule.scores == RouterScores::sigmoid && rule.chosen_groups < rule.groups) {
    choose_in_groups(rule, keys, keys + rule.experts, experts);
    return numbers;
  }
  Best best = {experts, rule.chosen};
  for (u32 expert = 0; expert < rule.experts; ++expert) best.offer(keys, expert);
  return numbers;
}

}  // namespace tidepool
