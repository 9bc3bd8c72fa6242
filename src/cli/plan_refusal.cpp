#include "cli/plan_refusal.h"

#include <boost/json.hpp>
#include <span>

#include "base/json/text.h"

namespace tidepool {
namespace {

boost::json::object settings_of(const Change& change) {
  boost::json::object out;
  for (const Setting& setting : change.settings) out[setting.key] = setting.value;
  return out;
}

}  // namespace

std::string refusal_json(const Error& error) {
  boost::json::object out;
  if (error.kind == ErrorKind::does_not_fit) out["fits"] = false;
  out["exit_code"] = exit_code(error);
  out["message"] = error.message;
  std::span<const Change> changes = error.changes;
  out["advice"] = changes.empty() ? boost::json::object() : settings_of(changes.front());
  if (!changes.empty()) changes = changes.subspan(1);
  boost::json::array alternatives;
  for (const Change& change : changes) alternatives.push_back(settings_of(change));
  if (error.kind == ErrorKind::does_not_fit) out["alternatives"] = std::move(alternatives);
  return json_text(out, JsonStyle::pretty);
}

}  // namespace tidepool
