// Compares constructs of Jinja with transformers: scripts/make_golden_jinja.py made the expected values.
#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <fstream>
#include <sstream>

#include "base/json/large_integers.h"
#include "base/json/text.h"
#include "huggingface/jinja/from_json.h"
#include "huggingface/jinja/template.h"
#include "tests/support/places.h"

namespace tidepool::jinja_test {

namespace json = boost::json;

Result<std::string> render(std::string_view source, const jinja::Dict& variables) {
  std::tm new_year{};
  new_year.tm_year = 125;
  new_year.tm_mday = 1;
  new_year.tm_wday = 3;
  TRY_ASSIGN(const std::unique_ptr<const jinja::Template> parsed, jinja::Template::parse(source, "t"));
  TRY_ASSIGN(jinja::Rendered made, parsed->render(variables, new_year));
  return std::move(made.text);
}

TEST(JinjaConstructs, RenderAsTransformersDoes) {
  std::ostringstream text;
  text << std::ifstream(source_file("tests/golden/jinja/expected.json")).rdbuf();
  const auto golden = parse_exact_json(text.str(), ErrorKind::bad_input, "expected.json");
  ASSERT_TRUE(golden) << golden.error().message;
  jinja::Dict variables;
  for (const auto& [name, value] : golden->value.as_object().at("variables").as_object())
    variables.set(name, jinja::from_json(value, golden->large));
  for (const json::value& v : golden->value.as_object().at("cases").as_array()) {
    const std::string source(v.as_object().at("template").as_string());
    const Result<std::string> made = render(source, variables);
    if (const json::value* expected = v.as_object().if_contains("text")) {
      EXPECT_TRUE(made) << source << ": " << made.error().message;
      EXPECT_EQ(made ? *made : "", std::string(expected->as_string())) << source;
    } else {
      EXPECT_FALSE(made) << source << ": " << *made;
    }
  }
}

}  // namespace tidepool::jinja_test
