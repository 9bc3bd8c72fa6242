#include "base/text/checkpoint_name.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

namespace tidepool {
namespace {

constexpr std::array<std::string_view, 4> marks = {"", ".tmp-", ".old-", ".gone-"};
constexpr std::string_view stem = "checkpoint-";

// Reads digits without sign or leading zero, so that each number has exactly one text.
bool take_number(std::string_view& text, u64& out) {
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (ec != std::errc() || (text[0] == '0' && end - text.data() > 1)) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

}  // namespace

std::string to_text(const CheckpointName& n) {
  if (n.mark == CheckpointMark::whole) return fmt::format("{}{}", stem, n.step);
  return fmt::format("{}{}{}{}", stem, n.step, marks[static_cast<u32>(n.mark)], n.pid);
}

std::optional<CheckpointName> parse_checkpoint_name(std::string_view text) {
  CheckpointName out;
  if (!text.starts_with(stem)) return std::nullopt;
  text.remove_prefix(stem.size());
  if (!take_number(text, out.step)) return std::nullopt;
  if (text.empty()) return out;
  for (u32 i = 1; i < marks.size(); ++i) {
    if (!text.starts_with(marks[i])) continue;
    text.remove_prefix(marks[i].size());
    out.mark = static_cast<CheckpointMark>(i);
    if (take_number(text, out.pid) && text.empty()) return out;
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace tidepool
