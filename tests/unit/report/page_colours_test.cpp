// Colours of the page: one meaning, one colour.
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <string>

#include "base/types.h"
#include "optimizers/optimizer.h"
#include "report/page/page_assets.h"

namespace tidepool::page_colours_test {

using Colours = std::map<std::string, std::string>;

// Parses "--m-loss" -> "#2a78d6" from a block of the style sheet.
Colours meanings(std::string_view block) {
  const std::string text(block);
  const std::regex entry("(--m-[a-z0-9-]+): (#[0-9a-f]{6});");
  Colours out;
  for (std::sregex_iterator at(text.begin(), text.end(), entry), end; at != end; ++at)
    EXPECT_TRUE(out.emplace((*at)[1], (*at)[2]).second) << (*at)[1] << " is set twice";
  return out;
}

int distance(const std::string& a, const std::string& b) {
  int sum = 0;
  for (const std::size_t at : {1u, 3u, 5u})
    sum += std::abs(std::stoi(a.substr(at, 2), nullptr, 16) - std::stoi(b.substr(at, 2), nullptr, 16));
  return sum;
}

std::vector<Colours> themes() {
  const std::size_t dark = page_style.find("[data-theme=\"dark\"]");
  return {meanings(page_style.substr(0, dark)),
          meanings(page_style.substr(dark, page_style.find('}', dark) - dark))};
}

// Regression: blue meant the loss, parameters, backward, measurements and a device.
TEST(ReportPageColours, NoColourHasTwoMeanings) {
  constexpr int least = 24;  // of 765: closer colours cannot be told apart
  for (const Colours& colours : themes()) {
    EXPECT_GT(colours.size(), 30u);
    for (auto a = colours.begin(); a != colours.end(); ++a)
      for (auto b = std::next(a); b != colours.end(); ++b)
        EXPECT_GE(distance(a->second, b->second), least) << a->first << " and " << b->first;
  }
}

TEST(ReportPageColours, EveryColourThatIsUsedIsSetInBothThemes) {
  const std::string script(page_script);
  const std::regex used("--m-[a-z0-9-]+");
  u64 found = 0;
  for (std::sregex_iterator at(script.begin(), script.end(), used), end; at != end; ++at, ++found)
    for (const Colours& colours : themes()) EXPECT_TRUE(colours.contains(at->str())) << at->str();
  EXPECT_GT(found, 30u);
}

// Regression: masters and moments were drawn as workspace.
TEST(ReportPageColours, EverySlotOfAnOptimizerHasALookOfItsOwn) {
  const std::string script(page_script);
  const std::size_t begin = script.find("const kindLooks");
  const std::string looks = script.substr(begin, script.find("];", begin) - begin);
  for (u32 optim = 0; optim < optim_count; ++optim)
    for (const Precision precision : {Precision::bf16, Precision::fp16}) {
      const StateSlots slots = state_slots(precision, static_cast<Optim>(optim));
      slots.each([&](Kind slot) {
        EXPECT_NE(looks.find("'" + std::string(slots.name(slot)) + "'"), std::string::npos)
            << slots.name(slot);
      });
    }
}

}  // namespace tidepool::page_colours_test
