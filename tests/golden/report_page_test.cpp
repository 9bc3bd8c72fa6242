// Opens report.html in headless Chromium with the network off: every chart is drawn, and the console is
// silent.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "cli/cli.h"
#include "report/page/html_report.h"
#include "tests/support/child_run.h"
#include "tests/support/file_text.h"
#include "tests/support/train_fixture.h"

namespace tidepool::report_page_test {

using test::file_text;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr u64 page_bytes_max = 2'000'000;

// Does not look for Ubuntu's `chromium-browser`, a snap that cannot read files outside the home directory.
bool have_chromium() { return std::system("command -v chromium >/dev/null 2>&1") == 0; }

struct Opened {
  std::string document, console;
};

Opened open_page(const std::string& page, const test::TrainDir& dir, const std::string& query) {
  const std::string document = dir / "document.html", console = dir / "console.log";
  const std::string command = fmt::format(
      "timeout 500 chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage "
      "--user-data-dir='{}' "
      "--host-resolver-rules='MAP * ~NOTFOUND' --proxy-server=127.0.0.1:9 --enable-logging=stderr --v=0 "
      "--window-size=1200,900 --virtual-time-budget=5000 --dump-dom 'file://{}?{}' >'{}' 2>'{}'",
      dir / "profile", page, query, document, console);
  EXPECT_EQ(std::system(command.c_str()), 0) << file_text(console);
  return {file_text(document), file_text(console)};
}

constexpr std::size_t tag_bytes_max = 600;  // per chart, with all its series in words

void expect_all_drawn(const Opened& opened, const std::vector<std::string>& charts) {
  EXPECT_THAT(opened.document, HasSubstr("data-ready=\"yes\""));
  EXPECT_THAT(opened.document, HasSubstr("data-errors=\"\""));
  EXPECT_THAT(opened.document, Not(HasSubstr("data-drawn=\"no\"")));
  for (const std::string& chart : charts) {
    const std::size_t at = opened.document.find("data-chart=\"" + chart + "\"");
    ASSERT_NE(at, std::string::npos) << chart << " is not on the page";
    EXPECT_THAT(opened.document.substr(at, tag_bytes_max), HasSubstr("data-drawn=\"yes\"")) << chart;
  }
  for (const char* fault : {"CONSOLE", "Uncaught", "Refused to"})
    EXPECT_THAT(opened.console, Not(HasSubstr(fault)));
}

// Keys alone zoom, pan and select; a script of the test records their effect in the document.
void expect_keys_work(const std::string& page, const test::TrainDir& dir) {
  std::string text = file_text(page);
  text.insert(text.rfind("</body>"), R"(<script>
    const chart = (name) => document.querySelector(`[data-chart="${name}"]`);
    const press = (name, keys) => {
      const target = chart(name).querySelector('canvas, svg');
      target.focus();
      for (const key of keys) document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
    };
    const pixels = () => chart('timeline').querySelector('canvas').toDataURL();
    const before = pixels();
    press('timeline', ['ArrowUp', 'ArrowUp', 'ArrowRight', '.', '.']);
    press('lives', ['ArrowDown', 'ArrowDown']);
    press('loss', ['ArrowRight', '+', '-']);
    setTimeout(() => {
      document.documentElement.dataset.zoomed = pixels() === before ? 'no' : 'yes';
      document.documentElement.dataset.selected = chart('timeline').querySelector('.detail').textContent;
    }, 300);
  </script>)");
  const std::string copy = dir / "keys.html";
  std::ofstream(copy) << text;
  const Opened opened = open_page(copy, dir, "");
  EXPECT_THAT(opened.document, HasSubstr("data-errors=\"\""));
  EXPECT_THAT(opened.document, HasSubstr("data-zoomed=\"yes\""));
  EXPECT_THAT(opened.document, ::testing::ContainsRegex("data-selected=\"[a-z_]+ .* op [0-9]+ "));
  EXPECT_THAT(opened.console, Not(HasSubstr("CONSOLE")));
}

const std::vector<std::string> curves = {"loss",  "learning-rate", "grad-norm", "tokens",
                                         "links", "causes",        "wear"};

std::vector<std::string> with_step(std::initializer_list<const char*> more) {
  std::vector<std::string> all = curves;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(ReportPage, ShowsEveryChartInABrowserWithoutANetwork) {
  if (!have_chromium())
    GTEST_SKIP() << "SKIPPED, report.html IS NOT TESTED: there is no chromium here (scripts/setup.sh)";
  const test::TrainDir dir;
  Config config = test::small_config(dir, "a");
  config.memory.home = HomePolicy::disk;
  config.train.max_steps = 6;
  ASSERT_EQ(test::ChildRun(config).wait(), 0) << file_text(config.output.dir + ".log");
  const std::string page = config.output.dir + "/report.html";
  EXPECT_LT(file_text(page).size(), page_bytes_max);
  for (const char* theme : {"theme=light", "theme=dark"})
    expect_all_drawn(open_page(page, dir, theme), with_step({"timeline", "lanes", "memory-device",
                                                             "memory-host", "memory-disk", "lives"}));

  const Opened opened = open_page(page, dir, "");
  for (const char* statistic :
       {"mean of 6 steps, first and last included", "steady step, planned", ">median step<"})
    EXPECT_THAT(opened.document, HasSubstr(statistic));
  expect_keys_work(page, dir);

  // Without a trace of the run, that part of the page says so and the rest is drawn.
  config.output.dir = dir / "b";
  config.output.trace = false;
  ASSERT_EQ(test::ChildRun(config).wait(), 0);
  expect_all_drawn(open_page(config.output.dir + "/report.html", dir, ""), curves);
  ASSERT_EQ(run_cli({"report", dir / "a", dir / "b", "--html", dir / "both.html"}), 0);
  const Opened both = open_page(dir / "both.html", dir, "");
  expect_all_drawn(both, with_step({"timeline", "lanes", "memory-host-a", "lives-a"}));
  EXPECT_THAT(both.document, HasSubstr("data-chart-table=\"comparison\""));
  // Legend keys look like their marks: one run's dots of validation and its line have one colour.
  for (const char* look :
       {"class=\"dot\"", "class=\"line dash\"", "class=\"line broken\"", "class=\"line dotted\""})
    EXPECT_THAT(both.document, HasSubstr(look));
  for (const char* words : {"href=\"#comparison\"", "step, median", "median of the steady ones"})
    EXPECT_THAT(both.document, HasSubstr(words));
}

// The routing of a whole run, and of two runs side by side.
TEST(ReportPage, ShowsTheTokensOfEachExpert) {
  if (!have_chromium())
    GTEST_SKIP() << "SKIPPED, report.html IS NOT TESTED: there is no chromium here (scripts/setup.sh)";
  const test::TrainDir dir;
  Config config = test::small_config(dir, "a");
  config.model = test::small_model(Family::qwen3_moe);
  config.train.max_steps = 10;  // more than the last steps that are kept
  ASSERT_EQ(test::ChildRun(config).wait(), 0) << file_text(config.output.dir + ".log");
  const std::vector<std::string> routing = {"experts", "expert-imbalance", "router-entropy", "router-balance",
                                            "router-z"};
  const std::string page = config.output.dir + "/report.html";
  for (const char* theme : {"theme=light", "theme=dark"}) {
    const Opened opened = open_page(page, dir, theme);
    expect_all_drawn(opened, routing);
    for (const char* words :
         {"data-dropped=\"0\"", "Dropped tokens: 0", "the last 8 steps", "href=\"#experts\""})
      EXPECT_THAT(opened.document, HasSubstr(words));
  }
  ASSERT_EQ(run_cli({"report", dir / "a", dir / "a", "--html", dir / "both.html"}), 0);
  expect_all_drawn(open_page(dir / "both.html", dir, ""), {"experts-a", "experts-b", "router-entropy"});
}

// RETURNS: the y of each point of the chart's last curve.
std::vector<double> heights_of(const std::string& document, const std::string& chart) {
  const std::size_t figure = document.find("data-chart=\"" + chart + "\"");
  const std::string text = document.substr(figure, document.find("</figure>", figure) - figure);
  const std::size_t path = text.rfind("<path d=\"M", text.rfind("stroke-width=\"1.8\""));
  std::istringstream in(text.substr(path + 9, text.find('"', path + 9) - path - 9));
  std::vector<double> out;
  for (std::string word; in >> word;) {
    const std::size_t next = word.find_first_of("ML");
    if (out.empty() && next == 0) {
      out.push_back(0);  // "Mx": its y is the next word
      continue;
    }
    out.back() = std::stod(word.substr(0, next));
    if (next != std::string::npos) out.push_back(0);
  }
  return out;
}

// Regression: a mean over preceding steps fell later than the loss did.
TEST(ReportPage, TheRunningMeanDoesNotLagAndNamesItsWidth) {
  if (!have_chromium())
    GTEST_SKIP() << "SKIPPED, report.html IS NOT TESTED: there is no chromium here (scripts/setup.sh)";
  const test::TrainDir dir;
  RunFiles run{.name = "a"};
  run.report.steps = 200, run.report.steps_per_epoch = 60, run.report.tokens = 400'000;
  run.checkpoints = {100, 200};
  for (u64 step = 0; step < 200; ++step) {
    run.report.losses.push_back(step < 100 ? 4 : 2);
    run.report.each_step_seconds.push_back(0.1);
    run.report.each_grad_norm.push_back(1), run.report.each_learning_rate.push_back(1e-3);
  }
  ASSERT_TRUE(write_html(dir / "page.html", {&run, 1}, FileUse::page));
  const Opened opened = open_page(dir / "page.html", dir, "");
  expect_all_drawn(opened, {"loss", "learning-rate", "grad-norm"});
  for (const char* words : {">mean of 7 steps around each<", ">checkpoint kept<", ">epoch 3<",
                            "checkpoint-100", "400k tokens", "3.33 epochs of 60 steps"})
    EXPECT_THAT(opened.document, HasSubstr(words));
  const std::vector<double> y = heights_of(opened.document, "loss");
  ASSERT_EQ(y.size(), 200u);
  const double middle = (y.front() + y.back()) / 2;
  const auto crossed = std::ranges::find_if(y, [&](double at) { return at > middle; });
  EXPECT_EQ(crossed - y.begin(), 100);
}

}  // namespace tidepool::report_page_test
