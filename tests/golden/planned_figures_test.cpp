// Planned figures in the documents are what `tidepool plan` says. tests/golden/planned/*.txt lists for each
// page the plans, and the text that stands in the page between <!-- planned: NAME --> and <!-- planned: end
// -->, with the figures' places.
//
//   page docs/1x4090.md
//   plan a cheap configs/1x4090/gpt-7b.yaml machine=configs/machines/1x4090-24g-128g.yaml{block_efficiency:
//   0.5} block shapes | 32 x 4096 | {a.parameters} | {a.rate} tokens/s | end
//
// Braces after a machine file change its values, `key: value; key: value`. Plans that are not cheap take
// seconds each, and are made with TIDEPOOL_TEST_ALL_CASES=1 only; without it the text around their figures is
// compared. scripts/planned_figures.sh writes the pages.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <regex>
#include <sstream>

#include "base/steady_seconds.h"
#include "base/text/units.h"
#include "base/types.h"
#include "tests/support/cases.h"
#include "tests/support/checkpoint_fixture.h"
#include "tests/support/command_run.h"
#include "tests/support/file_text.h"
#include "tests/support/places.h"

namespace tidepool::planned_figures_test {

namespace json = boost::json;
using test::file_text;
using test::write_text;

struct PlanLine {
  bool cheap = false;
  std::vector<std::string> words;
};

struct Block {
  std::string name;
  std::vector<std::string> lines;
};

struct Page {
  std::string path;
  std::map<std::string, PlanLine> plans;
  std::vector<Block> blocks;
};

Page read_page(const std::string& list) {
  Page page;
  std::istringstream in(file_text(list));
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (inside) {
      inside = line != "end";
      if (inside) page.blocks.back().lines.push_back(line);
      continue;
    }
    std::istringstream words(line);
    std::string kind, name;
    if (!(words >> kind) || kind == "#") continue;
    words >> name;
    if (kind == "page") page.path = name;
    if (kind == "block") page.blocks.push_back({name, {}}), inside = true;
    if (kind != "plan") continue;
    PlanLine& plan = page.plans[name];
    for (std::string word; words >> word;) {
      // Braces may hold blanks.
      for (std::string more; word.find('{') != word.npos && word.find('}') == word.npos && words >> more;)
        word += ' ' + more;
      if (word == "cheap")
        plan.cheap = true;
      else
        plan.words.push_back(word);
    }
  }
  return page;
}

// A word of a plan for use from any directory; a machine file with changes is written to `folder`.
std::string resolved(std::string word, const std::string& folder) {
  const size_t at = word.find("configs/");
  if (at == word.npos) return word;
  const std::string before = word.substr(0, at);
  word.erase(0, at);
  const size_t brace = word.find('{');
  if (brace == word.npos) return before + source_file(word);
  const std::string file = word.substr(0, brace);
  std::string text = file_text(source_file(file));
  std::istringstream changes(word.substr(brace + 1, word.size() - brace - 2));
  for (std::string change; std::getline(changes, change, ';');) {
    change.erase(0, change.find_first_not_of(' '));
    const std::string key = change.substr(0, change.find(':'));
    const std::regex line("(^|\\n)( *)" + key + ":[^\\n]*");
    EXPECT_TRUE(std::regex_search(text, line)) << file << " has no " << key;
    text = std::regex_replace(text, line, "$1$2" + change, std::regex_constants::format_first_only);
  }
  const std::string changed = folder + "/" + std::filesystem::path(file).filename().string();
  write_text(changed, text);
  return before + changed;
}

// Three significant digits with commas: "2,750", "83.8".
std::string rate_text(double x) {
  if (x < 100) return fmt::format("{:.1f}", x);
  const double unit = std::pow(10, std::max(0.0, std::floor(std::log10(x)) - 2));
  std::string digits = fmt::format("{:.0f}", std::round(x / unit) * unit);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), ",");
  return digits;
}

// GiB: "0", "0.6", "47", "1,250".
std::string gib_text(double bytes) {
  const double x = bytes / static_cast<double>(gib);
  if (x < 0.05) return "0";
  return x < 10 ? fmt::format("{:.1f}", x) : x < 100 ? fmt::format("{:.0f}", x) : rate_text(x);
}

class Figures {
 public:
  explicit Figures(const std::string& text) : plan_(json::parse(text)) {}

  // Figure of that name, without a plan's own unit.
  std::string text(const std::string& name) const {
    if (name == "parameters") return count_text(at("/parameters"));
    if (name == "active") return count_text(at("/active_parameters"));
    if (name == "rate") return rate_text(at("/tokens_per_second"));
    if (name == "busiest_from") return count_text(at("/compute_busiest_from_tokens"));
    if (name == "step") return seconds_text(at("/predicted_step_seconds"));
    if (name == "least") return seconds_text(at("/least_step_seconds"));
    if (name == "of_least")
      return fmt::format("{:.2f}", at("/least_step_seconds") / at("/predicted_step_seconds"));
    if (name == "over_least")
      return fmt::format("{:.1f}", at("/predicted_step_seconds") / at("/least_step_seconds"));
    if (name == "disk_read" || name == "disk_write") return gib_text(at("/links/" + name + "/planned_bytes"));
    if (name == "tflops") return fmt::format("{:.0f}", tflops());
    if (name == "binds") {
      std::string text = binds_text(json::value_to<std::string>(plan_.at("binds")));
      return text.substr(0, text.rfind(" bind"));
    }
    if (name == "net_share") {
      const double share = 100 * at("/exposed_seconds/net") / at("/predicted_step_seconds");
      return share < 0.5 ? "" : fmt::format(", {:.0f} %", share);
    }
    if (name.starts_with("tflops/")) return fmt::format("{:.2f} x", tflops() / std::stod(name.substr(7)));
    ADD_FAILURE() << "no figure is named " << name;
    return "?";
  }

 private:
  double at(const std::string& pointer) const { return json::value_to<double>(plan_.at_pointer(pointer)); }
  // 8 N per token, as PatrickStar counts.
  double tflops() const {
    return 8 * at("/parameters") * at("/tokens_per_step") / at("/predicted_step_seconds") / 1e12;
  }

  json::value plan_;
};

class PlannedFigures : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    rewrites_ = std::getenv("TIDEPOOL_REWRITE_GOLDEN") != nullptr;
    page_ = read_page(source_file("tests/golden/planned/" + GetParam() + ".txt"));
    for (const auto& [name, plan] : page_.plans)
      if (plan.cheap || rewrites_ || test::wants_all_cases()) make(name, plan);
  }

  void make(const std::string& name, const PlanLine& plan) {
    std::vector<std::string> words = {"plan"};
    for (const std::string& word : plan.words) words.push_back(resolved(word, dir_.path()));
    words.push_back("--json");
    const double begin = steady_seconds();
    const test::CommandOutcome done = test::run_command(words);
    if (rewrites_)  // which plans are cheap
      fmt::print(stderr, "{}: {} in {:.1f} s\n", page_.path, name, steady_seconds() - begin);
    ASSERT_EQ(done.code, 0) << name << ": " << done.err << done.out;
    made_.emplace(name, done.out);
  }

  // The line with its figures, as pieces: between them are figures whose plans were not made.
  std::vector<std::string> filled(const std::string& line) const {
    static const std::regex place(R"(\{(\w+)\.([^}]+)\})");
    std::vector<std::string> pieces = {""};
    size_t begin = 0;
    for (std::sregex_iterator at(line.begin(), line.end(), place), end; at != end; ++at) {
      pieces.back() += line.substr(begin, static_cast<size_t>(at->position()) - begin);
      begin = static_cast<size_t>(at->position() + at->length());
      EXPECT_TRUE(page_.plans.contains((*at)[1])) << "no plan is named " << (*at)[1] << ": " << line;
      if (const auto figures = made_.find((*at)[1]); figures != made_.end())
        pieces.back() += figures->second.text((*at)[2]);
      else
        pieces.push_back("");
    }
    pieces.back() += line.substr(begin);
    return pieces;
  }

  static bool matches(const std::string& line, const std::vector<std::string>& pieces) {
    if (pieces.size() == 1) return line == pieces[0];
    if (!line.starts_with(pieces.front()) || !line.ends_with(pieces.back())) return false;
    size_t at = pieces.front().size();
    for (size_t i = 1; i + 1 < pieces.size(); ++i) {
      at = line.find(pieces[i], at);
      if (at == line.npos) return false;
      at += pieces[i].size();
    }
    return at + pieces.back().size() <= line.size();
  }

  void compare(const Block& block, const std::string& there) const {
    std::istringstream in(there);
    std::string line;
    for (const std::string& wanted : block.lines) {
      const std::vector<std::string> pieces = filled(wanted);
      ASSERT_TRUE(std::getline(in, line)) << page_.path << ", " << block.name << ": ends before " << wanted;
      EXPECT_TRUE(matches(line, pieces)) << page_.path << ", " << block.name << ":\n  page  " << line
                                         << "\n  plans " << fmt::format("{}", fmt::join(pieces, "..."))
                                         << "\nscripts/planned_figures.sh writes the pages anew";
    }
    EXPECT_FALSE(std::getline(in, line))
        << page_.path << ", " << block.name << ": more than planned: " << line;
  }

  std::string written(const Block& block) const {
    std::string text;
    for (const std::string& line : block.lines) text += filled(line).front() + "\n";
    return text;
  }

  const test::TemporaryDirectory dir_;
  bool rewrites_ = false;
  Page page_;
  std::map<std::string, Figures> made_;
};

TEST_P(PlannedFigures, ArePlansFigures) {
  const std::string path = source_file(page_.path);
  std::string text = file_text(path);
  ASSERT_FALSE(page_.blocks.empty());
  for (const Block& block : page_.blocks) {
    const std::string mark = "<!-- planned: " + block.name + " -->\n";
    const size_t begin = text.find(mark), end = text.find("<!-- planned: end -->", begin);
    ASSERT_TRUE(begin != text.npos && end != text.npos) << page_.path << " has no block " << block.name;
    const size_t from = begin + mark.size();
    if (rewrites_) text.replace(from, end - from, written(block));
    compare(block, text.substr(from, text.find("<!-- planned: end -->", from) - from));
  }
  if (rewrites_) write_text(path, text);
}

// Every block of a page is written from a list.
TEST(PlannedPages, EveryBlockHasAList) {
  std::map<std::string, size_t> listed;
  for (const auto& entry : std::filesystem::directory_iterator(source_file("tests/golden/planned"))) {
    const Page page = read_page(entry.path());
    listed[page.path] += page.blocks.size();
  }
  for (const auto& entry : std::filesystem::recursive_directory_iterator(source_file("docs"))) {
    if (entry.path().extension() != ".md") continue;
    const std::string text = file_text(entry.path()),
                      name = std::filesystem::relative(entry.path(), source_file(""));
    size_t blocks = 0;
    for (size_t at = 0; (at = text.find("<!-- planned: end -->", at)) != text.npos; ++at) ++blocks;
    EXPECT_EQ(blocks, listed.contains(name) ? listed.at(name) : 0) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Pages, PlannedFigures,
                         testing::Values("1x4090", "4x4090", "8xv100", "gemma4", "hybrids", "long-sequences",
                                         "moe-plans", "optimizers", "several-nodes"),
                         [](const auto& page) {
                           std::string name = page.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace tidepool::planned_figures_test
