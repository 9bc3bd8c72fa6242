// Compares chat templates with transformers: scripts/make_golden_chat.py made the expected values.
#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <fstream>
#include <sstream>

#include "base/json/text.h"
#include "huggingface/jinja/from_json.h"
#include "huggingface/jinja/template.h"
#include "tests/support/places.h"

namespace tidepool::chat_template_test {

namespace json = boost::json;

std::string read(const std::string& name) {
  std::ostringstream out;
  out << std::ifstream(source_file("tests/golden/chat/") + name).rdbuf();
  return out.str();
}

std::tm new_year() {
  std::tm day{};
  day.tm_year = 125;
  day.tm_mday = 1;
  day.tm_wday = 3;
  return day;
}

Result<jinja::Rendered> render(const json::object& c) {
  const std::string name(c.at("template").as_string());
  TRY_ASSIGN(const std::unique_ptr<const jinja::Template> parsed, jinja::Template::parse(read(name), name));
  jinja::Dict variables;
  variables.set("messages", jinja::from_json(c.at("messages")));
  variables.set("tools", jinja::from_json(c.at("tools")));
  variables.set("documents", jinja::Value(jinja::None{}));
  variables.set("add_generation_prompt", jinja::from_json(c.at("prompt")));
  for (const auto& [key, value] : c.at("arguments").as_object()) variables.set(key, jinja::from_json(value));
  return parsed->render(variables, new_year());
}

TEST(ChatTemplates, RenderAsTransformersDoes) {
  const auto cases = parse_json(read("expected.json"), ErrorKind::bad_input, "expected.json");
  ASSERT_TRUE(cases) << cases.error().message;
  for (const json::value& v : cases->as_array()) {
    const json::object& c = v.as_object();
    SCOPED_TRACE(std::string(c.at("template").as_string()) + ": " + std::string(c.at("name").as_string()));
    const Result<jinja::Rendered> made = render(c);
    if (c.contains("error")) {
      EXPECT_FALSE(made) << made->text;
      continue;
    }
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ(made->text, std::string(c.at("text").as_string()));
    std::vector<jinja::Span> spans;
    for (const json::value& span : c.at("generations").as_array())
      spans.push_back({span.as_array()[0].to_number<u64>(), span.as_array()[1].to_number<u64>()});
    EXPECT_EQ(made->generations, spans);
  }
}

}  // namespace tidepool::chat_template_test
