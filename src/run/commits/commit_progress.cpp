#include "run/commits/commit_progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/check.h"

namespace tidepool {
namespace {

constexpr u64 losses_max = mib;  // steps
constexpr u64 text_bytes_max = mib, evaluation_bytes_max = 192;

// The payload begins with these numbers; losses and text follow.
struct Fixed {
  u64 step = 0, tokens = 0;
  double seconds = 0, scale = 1;
  u64 good_steps = 0, skipped_steps = 0;
  u64 losses = 0, text_bytes = 0;
};
static_assert(sizeof(Fixed) == 64);

}  // namespace

u64 CommitProgress::bytes_max(u64 steps, u64 evaluations) {
  return sizeof(Fixed) + std::min(steps, losses_max) * sizeof(double) + text_bytes_max +
         std::min(evaluations, losses_max) * evaluation_bytes_max;
}

void CommitProgress::rested(const TrainerState& state) {
  TrainerState without = state;
  without.losses.clear();
  std::string text = to_text(without);
  has_news_ = has_news_ || text != text_;
  text_ = std::move(text);
  losses_ = &state.losses;
}

void CommitProgress::step_done(const TrainerState& state, u64 step, double seconds) {
  losses_ = &state.losses;
  numbers_[step % steps_held] = {.step = step,
                                 .tokens = state.tokens,
                                 .seconds = seconds,
                                 .loss_scale = state.loss_scale.value_or(StoredLossScale{})};
}

std::optional<std::span<const std::byte>> CommitProgress::payload(u64 step) {
  // The text of a run that was given more evaluations since its file was made may not fit.
  if (!may_commit(durability_.state(), step) || sizeof(Fixed) + text_.size() > bytes_max_)
    return std::nullopt;
  durability_.tell(Event::commit_begins, step);
  if (file_ != nullptr) file_->begins(step);
  has_news_ = false;
  const Numbers& now = numbers_[step % steps_held];
  CHECK(now.step == step && losses_ != nullptr && losses_->size() >= step, step, now.step);
  const u64 room = (bytes_max_ - sizeof(Fixed) - text_.size()) / sizeof(double);
  const u64 losses = std::min(step, room);
  const Fixed fixed{.step = step,
                    .tokens = now.tokens,
                    .seconds = now.seconds,
                    .scale = now.loss_scale.scale,
                    .good_steps = now.loss_scale.good_steps,
                    .skipped_steps = now.loss_scale.skipped_steps,
                    .losses = losses,
                    .text_bytes = text_.size()};
  payload_.resize(sizeof fixed + losses * sizeof(double) + text_.size());
  std::byte* to = payload_.data();
  std::memcpy(to, &fixed, sizeof fixed);
  std::memcpy(to += sizeof fixed, losses_->data() + (step - losses), losses * sizeof(double));
  std::memcpy(to + losses * sizeof(double), text_.data(), text_.size());
  return std::span<const std::byte>(payload_);
}

Result<TrainerState> progress_of_commit(std::string_view payload, const std::string& path) {
  Fixed fixed;
  const Error damaged{
      ErrorKind::bad_input,
      fmt::format("{}: its commit is not one that this Tidepool writes. Nothing was changed", path)};
  if (payload.size() < sizeof fixed) return damaged;
  std::memcpy(&fixed, payload.data(), sizeof fixed);
  payload.remove_prefix(sizeof fixed);
  const u64 losses = fixed.losses;
  if (losses > fixed.step || losses > payload.size() / sizeof(double) ||
      payload.size() - losses * sizeof(double) != fixed.text_bytes)
    return damaged;
  TRY_ASSIGN(TrainerState state, parse_trainer_state(payload.substr(losses * sizeof(double)), path));
  state.step = fixed.step;
  state.tokens = fixed.tokens;
  state.seconds = fixed.seconds;
  if (state.loss_scale) state.loss_scale = {fixed.scale, fixed.good_steps, fixed.skipped_steps};
  state.losses.assign(fixed.step - losses, std::numeric_limits<double>::quiet_NaN());
  state.losses.resize(fixed.step);
  std::memcpy(state.losses.data() + (fixed.step - losses), payload.data(), losses * sizeof(double));
  return state;
}

}  // namespace tidepool
