#include "data/records/sharegpt.h"

#include <fmt/format.h>

#include <boost/json/value.hpp>

#include "base/json/large_integers.h"
#include "base/text/lowercase.h"
#include "huggingface/jinja/from_json.h"

namespace tidepool {

namespace {

jinja::Value function_of(jinja::Value function) {
  jinja::Dict out;
  out.set("type", jinja::Value("function"));
  out.set("function", std::move(function));
  return jinja::Value(std::move(out));
}

Result<jinja::Value> json_in(std::string_view text) {
  const Result<ExactJson> parsed = parse_exact_json(text, ErrorKind::bad_input, "");
  if (!parsed) return Error{ErrorKind::bad_input, "is text that is not JSON"};
  return jinja::from_json(parsed->value, parsed->large);
}

}  // namespace

std::string_view role_of_speaker(std::string_view from) {
  const std::string speaker = lowercase(from);
  if (speaker == "human" || speaker == "user") return "user";
  if (speaker == "gpt" || speaker == "assistant" || speaker == "model" || speaker == "chatgpt" ||
      speaker == "bot")
    return "assistant";
  if (makes_calls(speaker)) return "assistant";
  if (speaker == "system") return "system";
  if (speaker == "tool" || speaker == "observation" || speaker == "function_response" ||
      speaker == "tool_response")
    return "tool";
  return "";
}

bool makes_calls(std::string_view from) {
  const std::string speaker = lowercase(from);
  return speaker == "function_call" || speaker == "tool_call";
}

Result<jinja::Value> calls_in(std::string_view value) {
  const Error wrong{
      ErrorKind::bad_input,
      "must be JSON text of a call, {\"name\": ..., \"arguments\": {...}}, or of a list of calls"};
  const Result<jinja::Value> parsed = json_in(value);
  if (!parsed) return wrong;
  const jinja::List calls = parsed->list() ? *parsed->list() : jinja::List{*parsed};
  jinja::List out;
  for (const jinja::Value& call : calls) {
    if (!call.dict()) return wrong;
    const jinja::Value *name = call.dict()->find("name"), *arguments = call.dict()->find("arguments");
    if (name == nullptr || !name->text()) return wrong;
    jinja::Dict function;
    function.set("name", *name);
    function.set("arguments", arguments ? *arguments : jinja::Value(jinja::Dict()));
    out.push_back(function_of(jinja::Value(std::move(function))));
  }
  if (out.empty()) return wrong;
  return jinja::Value(std::move(out));
}

Result<jinja::Value> tools_in(std::string_view text) {
  TRY_ASSIGN(jinja::Value tools, json_in(text));
  if (!tools.list()) return Error{ErrorKind::bad_input, "is JSON text of something else than a list"};
  return tools;
}

jinja::Value as_functions(const jinja::Value& tools) {
  jinja::List out;
  for (const jinja::Value& tool : *tools.list()) {
    const bool bare = tool.dict() && tool.dict()->find("name") && !tool.dict()->find("function");
    out.push_back(bare ? function_of(tool) : tool);
  }
  return jinja::Value(std::move(out));
}

}  // namespace tidepool
