// Fuzzes the files of a run that `tidepool report` reads: report.json, metrics.jsonl and step.json. An
// accepted file is the same after it is written and read, and nothing in it ends the page's script.
#include <algorithm>
#include <string>

#include "base/check.h"
#include "report/page/html_report.h"
#include "report/sinks/jsonl.h"
#include "report/sinks/metric_sink.h"
#include "tests/fuzz/fuzz.h"

namespace tidepool::fuzz {
namespace {

std::string lines_of(const std::vector<MetricLine>& steps) {
  std::string out;
  for (const MetricLine& m : steps) out += to_json_line(m) + "\n";
  return out;
}

u64 script_ends(const std::string& page) {
  u64 count = 0;
  for (size_t at = 0; (at = page.find("</script", at)) != std::string::npos; ++at) ++count;
  return count;
}

void check_again(const RunFiles& run) {
  const std::string report = to_json(run.report);
  const Result<RunReport> again = parse_report(report, "fuzz.json");
  CHECK(again.has_value(), again.error().message, report);
  CHECK(to_json(*again) == report, report);

  const std::string lines = lines_of(run.metrics);
  const StepLog log = read_metrics(file("run/again.jsonl", lines)).value();
  CHECK(log.unreadable == 0, log.first_fault, lines);
  CHECK(lines_of(log.steps) == lines, lines);
}

// Checks the records that a resumed run keeps.
void check_kept(const std::string& path) {
  constexpr u64 through = 2;
  CHECK(open_jsonl_sink(path.substr(0, path.rfind('/')), through).has_value());
  const Result<StepLog> kept = read_metrics(path);
  if (!kept) return check_refusal(kept.error());
  CHECK(std::ranges::all_of(kept->steps, [&](const MetricLine& m) { return m.step <= through; }));
}

}  // namespace

void run_files(std::string_view input) {
  const std::string directory = folder("run");
  const auto files = parts(input, 3);
  file("run/report.json", files[0]);
  file_if_any("run/metrics.jsonl", files[1]);
  file_if_any("run/step.json", files[2]);
  const Result<RunFiles> run = read_run(directory);
  if (run) {
    check_again(*run);
    CHECK(script_ends(render_html({&*run, 1})) == script_ends(render_html({})));
  } else {
    check_refusal(run.error());
  }
  if (!files[1].empty()) check_kept(directory + "/metrics.jsonl");
}

}  // namespace tidepool::fuzz
