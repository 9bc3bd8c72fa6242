#include "cli/plan_refusal.h"

#include <algorithm>
#include <boost/json.hpp>
#include <string_view>

#include "json/text.h"
#include "trainer/alternatives.h"

namespace tidepool {
namespace {

// Every KEY=VALUE of a text: messages write advice as one could type it.
boost::json::object settings_of(std::string_view text) {
  boost::json::object out;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find_first_of("; ,"));
    if (const size_t equals = word.find('='); equals != word.npos)
      out[word.substr(0, equals)] = word.substr(equals + 1);
    text.remove_prefix(std::min(word.size() + 1, text.size()));
  }
  return out;
}

boost::json::array alternatives_of(std::string_view text) {
  constexpr std::string_view between = ", or ";
  boost::json::array out;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(between));
    out.push_back(settings_of(one));
    text.remove_prefix(std::min(one.size() + between.size(), text.size()));
  }
  return out;
}

}  // namespace

std::string refusal_json(const Error& error) {
  boost::json::object out;
  if (error.kind == ErrorKind::does_not_fit) out["fits"] = false;
  out["exit_code"] = exit_code(error);
  out["message"] = error.message;
  const std::string_view message = error.message;
  const size_t others = message.find(alternatives_words);
  out["advice"] = settings_of(message.substr(0, others));
  if (error.kind == ErrorKind::does_not_fit)
    out["alternatives"] =
        alternatives_of(others == message.npos ? "" : message.substr(others + alternatives_words.size()));
  return json_text(out, JsonStyle::pretty);
}

}  // namespace tidepool
