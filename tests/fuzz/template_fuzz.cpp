// Fuzzes chat templates; an accepted template is rendered over a conversation.
#include "base/check.h"
#include "huggingface/jinja/template.h"
#include "tests/fuzz/fuzz.h"

namespace tidepool::fuzz {
namespace {

jinja::Value message(const char* role, const char* content) {
  jinja::Dict out;
  out.set("role", role);
  out.set("content", content);
  return out;
}

}  // namespace

void template_(std::string_view source) {
  const auto parsed = jinja::Template::parse(source, "fuzz");
  if (!parsed) return check_refusal(parsed.error());
  jinja::Dict variables;
  variables.set("messages",
                jinja::Value(jinja::List{message("system", "s"), message("user", "\u00e9 <think> a\n b"),
                                         message("assistant", "")}));
  variables.set("tools", jinja::Value(jinja::None{}));
  variables.set("bos_token", "<s>");
  variables.set("add_generation_prompt", jinja::Value(true));
  const Result<jinja::Rendered> made = (*parsed)->render(variables, {});
  if (!made) check_refusal(made.error());
}

}  // namespace tidepool::fuzz
