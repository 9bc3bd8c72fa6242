// ShareGPT's turns, {"from": "human", "value": "..."}, in the form that chat templates expect.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "huggingface/jinja/value.h"

namespace tidepool {

// RETURNS: the role that a speaker, in upper or lower case, has in chat templates; "" if unknown.
std::string_view role_of_speaker(std::string_view from);
inline constexpr std::string_view known_speakers =
    "human, user, gpt, assistant, model, chatgpt, bot, function_call, tool_call, observation, tool, "
    "function_response, tool_response, system";

// True for a turn whose value is calls of tools, as JSON text: {"name": ..., "arguments": {...}}, or a list
// of them.
bool makes_calls(std::string_view from);
// RETURNS: the calls as `tool_calls` of a message.
// Error: without place, if the text is no such JSON.
Result<jinja::Value> calls_in(std::string_view value);

// Tools are lists, or JSON text of lists, as tables need it whose columns have one type.
// Error: without place.
Result<jinja::Value> tools_in(std::string_view text);
// RETURNS: the tools, each as {"type": "function", "function": {...}}; ShareGPT's records may leave the outer
// part out.
jinja::Value as_functions(const jinja::Value& tools);

}  // namespace tidepool
