#include "cli/plan_refusal.h"

#include <boost/json.hpp>
#include <string_view>

#include "json/text.h"

namespace tidepool {
namespace {

// Messages write advice as one could type it: "set memory.host=1122MiB; or use ...".
boost::json::object advice_of(std::string_view message) {
  constexpr std::string_view set = " set ";
  boost::json::object out;
  for (size_t at = message.find(set); at != message.npos; at = message.find(set, at)) {
    at += set.size();
    const std::string_view word = message.substr(at, message.find_first_of("; ", at) - at);
    if (const size_t equals = word.find('='); equals != word.npos)
      out[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return out;
}

}  // namespace

std::string refusal_json(const Error& error) {
  boost::json::object out;
  if (error.kind == ErrorKind::does_not_fit) out["fits"] = false;
  out["exit_code"] = exit_code(error);
  out["message"] = error.message;
  out["advice"] = advice_of(error.message);
  return json_text(out, JsonStyle::pretty);
}

}  // namespace tidepool
