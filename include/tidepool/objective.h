// ObjectiveType names what training makes a model better at; src/objectives says what that means for the
// parts of a run.
#pragma once

#include <array>
#include <string_view>

#include "base/types.h"

namespace tidepool {

enum class ObjectiveType : u8 { next_token, sequence_classification };
inline constexpr u32 objective_count = 2;

// As in config files.
inline constexpr std::array<std::string_view, objective_count> objective_names = {"next_token",
                                                                                  "sequence_classification"};
constexpr std::string_view name(ObjectiveType type) { return objective_names[static_cast<u32>(type)]; }

// Sums that the head makes over the targets of a micro-batch, in fp64 and in the order of rows.
enum class Sum : u8 {
  loss,
  correct,  // targets that have the largest logit
};
inline constexpr u32 sum_count = 2;

class Sums {
 public:
  double& operator[](Sum sum) { return values_[static_cast<u32>(sum)]; }
  double operator[](Sum sum) const { return values_[static_cast<u32>(sum)]; }
  void add(const Sums& other) {
    for (u32 i = 0; i < sum_count; ++i) values_[i] += other.values_[i];
  }

 private:
  std::array<double, sum_count> values_{};
};

}  // namespace tidepool
