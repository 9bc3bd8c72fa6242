// Tests `tidepool report` on good and on damaged run directories.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "report/page/html_report.h"
#include "tests/support/checkpoint_fixture.h"
#include "tests/support/command_run.h"
#include "tests/support/file_text.h"

namespace tidepool::report_test {

namespace fs = std::filesystem;
using test::file_text;
using test::TemporaryDirectory;
using test::write_text;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

test::CommandOutcome report(std::vector<std::string> words) {
  words.insert(words.begin(), "report");
  return test::run_command(words);
}

// A run directory of 3 steps without a trace.
class CliReport : public ::testing::Test {
 protected:
  CliReport() { make(run()); }

  std::string run(const std::string& name = "a") const { return dir_.path() + "/" + name; }
  void make(const std::string& path, double speed = 100) const {
    fs::create_directories(path);
    RunReport r{.version = "1",
                .model = "gpt2 </script><b>",
                .steps = 3,
                .losses = {3, 2, 1},
                .tokens_per_second = speed};
    r.config = {{"train.seed", fmt::format("{}", speed)}};
    ASSERT_TRUE(write_report(path, r));
    write_text(path + "/metrics.jsonl", "{\"step\": 1, \"loss\": 3, \"learning_rate\": 0.5}\n");
  }
  void expect_bad_input(const test::CommandOutcome& r, const std::string& says, int code = 4) const {
    EXPECT_EQ(r.code, code) << r.err;
    EXPECT_THAT(r.err, HasSubstr(says));
    EXPECT_EQ(r.out, "");
  }

  TemporaryDirectory dir_;
};

TEST_F(CliReport, WritesThePageAgainAndPrintsItsPath) {
  const test::CommandOutcome r = report({run() + "/"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("The page: " + run() + "/report.html"));
  EXPECT_THAT(r.err, HasSubstr("no step.json, so the page has no timeline"));
  const std::string page = file_text(run() + "/report.html");
  EXPECT_THAT(page, HasSubstr("\"learning_rate\":{\"step\":[1],\"value\":[0.5]"));
  EXPECT_THAT(page, AllOf(HasSubstr("gpt2 \\u003c/script>"), Not(HasSubstr("gpt2 </script>"))));
  EXPECT_EQ(report({run(), "--html", dir_.path() + "/else.html"}).code, 0);
  EXPECT_EQ(file_text(dir_.path() + "/else.html"), page);
  EXPECT_EQ(report({run(), "--html", dir_.path() + "/no/such/place.html"}).code, 6);
  EXPECT_EQ(report({run(), "--html", dir_.path() + "/else.html"}).code, 0);  // overwrites it
  const std::string figures = file_text(run() + "/report.json");
  const test::CommandOutcome over = report({run(), "--html", run() + "/report.json"});
  EXPECT_EQ(over.code, 2);
  EXPECT_THAT(over.err, HasSubstr("report.json: exists, and is not a page"));
  EXPECT_EQ(file_text(run() + "/report.json"), figures);
}

// Regression: the advice was to make the directory writable.
TEST_F(CliReport, AReadOnlyRunIsPrintedAndAdvisesAnotherPage) {
  fs::permissions(dir_.path(), fs::perms(0777));
  fs::permissions(run(), fs::perms(0555));
  const auto as_user = [&] {
    if (getuid() == 0 && setuid(65534) != 0) _exit(93);  // root may write everywhere
    _exit(run_cli({"report", run()}));
  };
  EXPECT_EXIT(as_user(), ::testing::ExitedWithCode(6),
              "Name a file in another\\s+directory with --html\\s+FILE");
}

// Searches for anything that a browser could fetch, and finds nothing.
TEST_F(CliReport, ThePageReferencesNoOtherFile) {
  ASSERT_EQ(report({run()}).code, 0);
  std::string page = file_text(run() + "/report.html");
  const std::string name_space = "http://www.w3.org/2000/svg";  // a name, not an address
  for (std::size_t at; (at = page.find(name_space)) != std::string::npos;) page.erase(at, name_space.size());
  for (const char* address : {"http:", "https:", "src=", "@import", "url(//"})
    EXPECT_THAT(page, Not(HasSubstr(address)));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  for (const char* mark : {"@TITLE@", "@STYLE@", "@DATA@", "@SCRIPT@"})
    EXPECT_THAT(page, Not(HasSubstr(mark)));
}

TEST_F(CliReport, ComparesTwoRunsSideBySide) {
  make(run("b"), 150);
  const test::CommandOutcome r = report({run(), run("b")});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, AllOf(HasSubstr("+50.0%"), HasSubstr("train.seed"), HasSubstr("150\n")));
  EXPECT_THAT(r.out, HasSubstr(run() + "/compare-b.html"));
  EXPECT_THAT(file_text(run() + "/compare-b.html"), HasSubstr("\"name\":\"" + run("b")));
  EXPECT_EQ(report({run(), run("b"), run()}).code, 2);
  // As from `report "$A" "$B"` with B unset: never a page of one run that looks like a comparison.
  expect_bad_input(report({""}), "not set", 2);
  expect_bad_input(report({run(), ""}), "not set", 2);
}

TEST_F(CliReport, NamesAMissingOrBrokenFile) {
  expect_bad_input(report({run("none")}), "is not a directory", 2);
  fs::create_directories(run("empty"));
  expect_bad_input(report({run("empty")}), "holds no report.json", 2);
  expect_bad_input(report({run(), run("empty")}), "holds no report.json", 2);

  const std::string json = file_text(run() + "/report.json");
  write_text(run() + "/report.json", json.substr(0, json.size() / 2));
  expect_bad_input(report({run()}), run() + "/report.json: not valid JSON at byte");
  write_text(run() + "/report.json", "");
  expect_bad_input(report({run()}), "report.json: not valid JSON");
  write_text(run() + "/report.json", "{}");
  expect_bad_input(report({run()}), "report.json: version is missing");
  expect_bad_input(report({run()}), "; 'tidepool train CONFIG --resume auto' writes the report again");
  write_text(run() + "/report.json", json);

  write_text(run() + "/step.json", "{\"format\":1,\"op_kinds\":[");
  expect_bad_input(report({run()}), run() + "/step.json: not valid JSON");
  fs::remove(run() + "/step.json");

  write_text(run() + "/metrics.jsonl", "{\"loss\": 2}\n");
  expect_bad_input(report({run()}), "metrics.jsonl, line 1: step is missing");
}

// Regression: the message said that report.json is missing, and how a killed run gets one.
TEST_F(CliReport, NamesTheRunOfACheckpointAndRefusesAModelDirectory) {
  const std::string checkpoint = run() + "/checkpoint-3";
  fs::create_directories(checkpoint);
  write_text(checkpoint + "/trainer_state.json", "{}");
  write_text(checkpoint + "/config.json", "{}");
  const std::string says = " is a checkpoint of the run " + run() + ": name the run";
  expect_bad_input(report({checkpoint}), checkpoint + says, 2);
  expect_bad_input(report({run(), checkpoint + "/"}), checkpoint + "/" + says, 2);
  fs::create_directory_symlink(checkpoint, run("latest"));
  expect_bad_input(report({run("latest")}), run("latest") + says, 2);
  write_text(fs::path(run()).parent_path().string() + "/config.yaml", "");  // belongs to no run
  fs::copy(checkpoint, run("copied"));
  expect_bad_input(report({run("copied")}), "is a checkpoint, not a run", 2);
  for (const char* file : {"config.json", "adapter_config.json"}) {
    const std::string model = run("model of ") + file;
    fs::create_directories(model);
    write_text(model + "/" + file, "{}");
    expect_bad_input(report({model}), model + " is a model directory, not a run", 2);
  }
}

// After a kill, a full disk or a manual edit: the page is made of the intact lines, and names the missing
// ones.
TEST_F(CliReport, SkipsAndCountsUnreadableLinesOfMetrics) {
  const std::string path = run() + "/metrics.jsonl",
                    first = "{\"step\": 1, \"loss\": 2, \"learning_rate\": 0.5}\n";
  const auto warned = [&](const std::string& text, const std::string& says) {
    write_text(path, text);
    const test::CommandOutcome r = report({run()});
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_THAT(r.err, HasSubstr(path + ": " + says));
    EXPECT_THAT(file_text(run() + "/report.html"),
                HasSubstr("\"learning_rate\":{\"step\":[1],\"value\":[0.5]"));
  };
  warned(first + "{\"step\": 2, \"lo",
         "1 of 2 lines cannot be read and are left out (line 2: not valid JSON");
  warned("\n{\"step\": \n" + first, "2 of 3 lines cannot be read and are left out (line 1: not valid JSON");
  warned(first + "{\"step\": 2, \"loss\": -1e308}\n",
         "1 of 2 lines cannot be read and are left out (line 2: loss -1e+308");
  warned(first + "{\"step\": 2, \"loss\": 1, \"learning_rate\": 1e300}\n",
         "1 of 2 lines cannot be read and are left out (line 2: learning_rate, 1e+300, is not 0 to 1e+09");
  warned(first + "{\"step\": 2, \"loss\": 1, \"step_seconds\": -4}\n", "1 of 2 lines cannot be read");
  RunReport longer = read_report(run()).value();
  longer.config["output.logging_steps"] = "2";
  ASSERT_TRUE(write_report(run(), longer));
  warned(first, "ends at step 1 of 3");
}

TEST_F(CliReport, SkipsALossBelowZero) {
  RunReport r = read_report(run()).value();
  r.losses[1] = -1e308;
  ASSERT_TRUE(write_report(run(), r));
  expect_bad_input(report({run()}), "report.json: losses[1], -1e+308, cannot be a loss");
}

TEST_F(CliReport, NotesMissingMetricsWithoutAnError) {
  fs::remove(run() + "/metrics.jsonl");
  const test::CommandOutcome r = report({run()});
  EXPECT_EQ(r.code, 0);
  EXPECT_THAT(r.err, HasSubstr(run() + ": no metrics.jsonl, so the page has no learning rate"));
}

// Values changed in an editor. Values that no run can have measured are not printed.
TEST_F(CliReport, RefusesImpossibleValuesByKey) {
  const std::string whole = file_text(run() + "/report.json");
  const auto refused = [&](const std::string& from, const std::string& to, const std::string& says) {
    std::string text = whole;
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    write_text(run() + "/report.json", text.replace(at, from.size(), to));
    expect_bad_input(report({run()}), "report.json: " + says);
  };
  refused("\"steps\": 3", "\"steps\": -3", "steps, -3, must be a whole number from 0 to 9007199254740992");
  refused("\"steps\": 3", "\"steps\": 1e300", "steps, 1e+300, must be a whole number");
  refused("\"steps\": 3", "\"steps\": \"3\"", "steps, \"3\", must be a whole number");
  refused("\"steps\": 3", "\"stepz\": 3", "steps is missing");
  refused("\"steps\": 3", "\"steps\": NaN", "not valid JSON at byte");
  refused("\"measured_bytes\": 0", "\"measured_bytes\": -1",
          "links.h2d.measured_bytes, -1, must be a whole number");
  refused(
      "\"measured_bytes\": 0", "\"measured_bytes\": 18446744073709551615",
      "links.h2d.measured_bytes, 18446744073709551615, must be a whole number from 0 to 4611686018427387904");
  refused("\"budget_bytes\": 0", "\"budget_bytes\": 18446744073709551614",
          "tiers.device.budget_bytes, 18446744073709551614");
  refused("\"tokens_per_second\": 100.0", "\"tokens_per_second\": 1e300",
          "tokens_per_second, 1e+300, must be a number from 0 to 1e+24, or null");
  refused("\"tokens_per_second\": 100.0", "\"tokens_per_second\": \"fast\"",
          "tokens_per_second, \"fast\", must be");
  refused("\"train_seconds\": 0.0", "\"train_seconds\": -0.5",
          "train_seconds, -0.5, must be a number from 0 to 1e+11");
  refused("\"exposed_seconds\": {", "\"exposed_seconds\": {\"h2d\": -1", "exposed_seconds.h2d, -1, must be");
  refused("\"each_step_seconds\": [", "\"each_step_seconds\": [1, -2", "each_step_seconds[1], -2, must be");
  refused("\"eval_steps\": []", "\"eval_steps\": [1]", "'eval_steps' has 1 entries, but 'eval_losses' 0");
  refused("\"losses\": [", "\"losses\": [[],", "losses[0], [...], cannot be a loss");
  refused("\"links\": {", "\"links\": 7, \"x\": {", "links must be an object");
  refused("\"model\": \"", "\"model\": 1, \"x\": \"", "model, 1, must be a text");
}

// A pipe would block, and a device would be read for ever.
TEST_F(CliReport, ReadsOnlyRegularFilesOfLimitedLength) {
  for (const char* name : {"report.json", "metrics.jsonl", "step.json"}) {
    const std::string path = run() + "/" + name, text = fs::exists(path) ? file_text(path) : "";
    fs::remove(path);
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    expect_bad_input(report({run()}), path + ": is not a regular file");
    fs::remove(path);
    fs::create_symlink("/dev/zero", path);
    expect_bad_input(report({run()}), path + ": is not a regular file");
    fs::remove(path);
    write_text(path, "");
    fs::resize_file(path, u64{1} << 40);
    expect_bad_input(report({run()}), path + ": 1099511627776 bytes, at most");
    fs::remove(path);
    if (!text.empty()) write_text(path, text);
  }
}

TEST_F(CliReport, ThinsLongCurves) {
  RunReport r{.steps = 100'000};
  for (int i = 0; i < 100'000; ++i) r.losses.push_back(i % 7), r.each_step_seconds.push_back(0.5);
  const RunFiles files{.name = "long", .report = r};
  EXPECT_LT(render_html({&files, 1}).size(), 200'000u);
}

}  // namespace tidepool::report_test
