#include "config/schema.h"

#include <gmock/gmock.h>

#include <set>
#include <sstream>

#include "base/text/nearest.h"
#include "base/text/value_text.h"
#include "config_files/load_config.h"

namespace tidepool::schema_test {

using ::testing::HasSubstr;

TEST(ConfigSchema, EveryKeyIsUsableAndItsDefaultIsInRange) {
  std::set<std::string> seen;
  for (const Field& field : schema()) {
    SCOPED_TRACE(field.key);
    EXPECT_TRUE(seen.insert(std::string(field.section) + "." + std::string(field.key)).second);
    EXPECT_EQ(find_fields(field.section, field.key).size(), 1u);
    EXPECT_FALSE(field.help.empty());
    EXPECT_FALSE(field.help.ends_with('.'));
    if (field.required || type_name(field) == "text") continue;
    if (type_name(field) == "list of text" && default_text(field) != "[]") continue;  // set entry by entry
    const Config plain{.model = default_model(example_family(field))};
    Config config = plain;
    EXPECT_TRUE(set_value(field, config, default_text(field))) << default_text(field);
    EXPECT_EQ(config, plain);
  }
}

TEST(ConfigSchema, EffectiveConfigReadsBackTheSame) {
  Config c;
  c.data.train = {"a b.txt", "quote\"back\\slash", "tab\there"};
  c.memory.budgets = {.device = Bytes{gib + 1}, .host = Bytes{3 * mib}, .disk = disk_auto};
  c.memory.home = HomePolicy::mixed;
  c.train.precision = Precision::fp32;
  c.train.learning_rate = 0.1 + 0.2;
  c.train.adam_epsilon = 1e-8;
  c.train.seed = ~u64{0};
  c.train.lr_scheduler_type = "linear";
  c.output.trace = false;
  const auto back = parse_config(to_yaml(c), "effective.yaml", {});
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, c);
  EXPECT_EQ(to_yaml(*back), to_yaml(c));
}

TEST(ConfigSchema, HelpFits80Columns) {
  std::istringstream lines(config_help());
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_THAT(config_help(), HasSubstr("learning_rate"));
  EXPECT_THAT(config_markdown(), HasSubstr("| `learning_rate` | 5e-05 |"));
}

TEST(ConfigSchema, ValuesPrintAsText) {
  EXPECT_EQ(format_size(Bytes{1536 * mib}), "1536MiB");
  EXPECT_EQ(format_size(Bytes{20 * gib}), "20GiB");
  EXPECT_EQ(format_size(Bytes{1001}), "1001B");
  EXPECT_EQ(format_size(Bytes{0}), "0");
  EXPECT_EQ(*parse_integer("1e6"), 1000000u);
  EXPECT_EQ(*parse_integer("18446744073709551615"), ~u64{0});
  EXPECT_FALSE(parse_integer("18446744073709551616"));
  EXPECT_FALSE(parse_integer(""));
  EXPECT_FALSE(parse_size("99999999999TiB"));
  EXPECT_TRUE(*parse_boolean("Yes"));
}

TEST(Nearest, CountsSlips) {
  EXPECT_EQ(edit_distance("abc", "abc"), 0u);
  EXPECT_EQ(edit_distance("abc", "acb"), 1u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  constexpr std::array<std::string_view, 2> known = {"train", "report"};
  EXPECT_EQ(nearest("trian", known), "train");
  EXPECT_EQ(nearest("zzzzz", known), "");
}

}  // namespace tidepool::schema_test
