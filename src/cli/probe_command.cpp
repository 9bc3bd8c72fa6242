#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>

#include "base/open_file.h"
#include "base/read_file.h"
#include "base/text/units.h"
#include "base/write_file.h"
#include "cli/bench/measured_choice.h"
#include "cli/command.h"
#include "cli/probe_text.h"
#include "probe/probe.h"
#include "report/print_text.h"
#include "report/status_line.h"
#include "run/outputs/signals.h"

namespace tidepool {

namespace {

constexpr std::array options_of_probe = {
    Option{"output", "FILE", "the machine file to write", "machine.yaml"},
    Option{"disk", "DIR", "where to measure the disk", "."},
    Option{"no-disk", "", "do not measure the disk"},
    Option{"device", "DEVICE", "auto, cpu, cuda or cuda:I", "auto"},
    Option{"seconds", "N", "approximate time to measure", "40"},
    Option{"threads", "N", "worker threads; 0 one per core", "0"},
    Option{"json", "", "one JSON object, with every sample, not a table"},
};

struct ProbeArguments {
  std::string output = "machine.yaml";
  std::string disk_dir = ".";   // empty: the disk is not measured
  std::string device = "auto";  // auto, cpu, cuda or cuda:I
  double seconds = 40;
  u32 threads = 0;  // 0: all cores of this process
  bool json = false;
};

namespace fs = std::filesystem;

constexpr StopWords probe_stop_words{
    .first = "\ntidepool: stopping and removing files; interrupt again to stop at once\n",
    .second = "\ntidepool: stopped at once; the next probe removes the files in tidepool-probe\n"};

void show(StatusLine& status, double seconds, double fraction, std::string_view what) {
  const std::string line =
      fmt::format("{} {:3.0f}%  {}, {:.0f} s left", bar(status.screen(), fraction, 20, Ink::cyan),
                  100 * fraction, what, (1 - fraction) * seconds);
  status.show(what, line, fmt::format("{:3.0f}%  {}", 100 * fraction, what));
}

// Checks the output file before measuring. A file that a person wrote is not overwritten, and a file that
// cannot be written is reported now, not after a minute.
Result<void> check_output(const std::string& path) {
  std::error_code error;
  if (path.empty()) return usage_error("--output: name a file");
  if (const std::string kind = irregular_file(path); !kind.empty())
    return usage_error(fmt::format("--output {}: is {}; name a file", path, kind));
  const fs::path parent = fs::absolute(path).parent_path();
  if (!fs::is_directory(parent, error))
    return usage_error(
        fmt::format("--output {}: there is no directory {}; create it first", path, parent.string()));
  if (::access(parent.c_str(), W_OK) != 0)
    return Error{ErrorKind::io,
                 fmt::format("--output {}: {}; name a file elsewhere", path, std::strerror(errno))};
  if (!fs::exists(path, error)) return {};
  TRY_ASSIGN(const InputFile file, open_input(path, ErrorKind::io));
  std::string begin(std::min<u64>(file.bytes, probe_file_mark.size()), '\0');
  TRY(read_exactly(file.fd, path, 0, std::as_writable_bytes(std::span(begin)), ErrorKind::io));
  if (!begin.empty() && begin != probe_file_mark)
    return usage_error(fmt::format(
        "--output {}: exists, and no probe wrote it; name another file, or remove this one", path));
  return {};
}

Result<ProbeResult> measure(const ProbeArguments& arguments, std::optional<u32> gpu) {
  StatusLine status;
  const ProbeHooks hooks{
      .progress = [&](double fraction,
                      std::string_view what) { show(status, arguments.seconds, fraction, what); },
      .stop = [] { return StopSignals::stop_requested(); }};
  return probe_machine({.disk_dir = arguments.disk_dir,
                        .seconds = arguments.seconds,
                        .threads = arguments.threads,
                        .gpu = gpu},
                       hooks);
}

// Measures, prints the results and writes the machine file. Ends the process if a signal asks for it.
Result<void> probe(const ProbeArguments& arguments) {
  TRY(check_output(arguments.output));
  TRY_ASSIGN(const MeasuredChoice choice, choose_measured(arguments.device));
  // If a reader closes our output, SIGPIPE must not end us before our measuring file is removed from the
  // disk.
  std::signal(SIGPIPE, SIG_IGN);
  Result<ProbeResult> result = [&] {
    const StopSignals signals(probe_stop_words);
    return measure(arguments, choice.gpu);
  }();
  if (!result && StopSignals::signal_number() != 0)
    StopSignals::end_as_asked("tidepool: the probe was stopped; nothing was written\n");
  if (!result) return result.error();
  result->machine.name = fs::path(arguments.output).stem().string();
  TRY(replace_file(arguments.output, probe_yaml(*result, arguments.disk_dir), FileUse::other));
  print_text(stderr, "{}{}", choice.note, result->notes);
  if (arguments.json) {
    print_text("{}", probe_json(*result, arguments.disk_dir));
  } else {
    print_text("{}\nWrote {} in {}.\n", probe_table(*result), arguments.output,
               seconds_text(result->seconds));
  }
  return {};
}

Result<void> run_probe(const Arguments& arguments) {
  if (!arguments.positional().empty())
    return usage_error(fmt::format("'{}': probe takes options only", arguments.positional()[0]));
  ProbeArguments out{.output = arguments.text("output"), .json = arguments.has("json")};
  out.disk_dir = arguments.has("no-disk") ? "" : arguments.text("disk");
  out.device = arguments.text("device");
  TRY_ASSIGN(out.seconds, arguments.real("seconds"));
  TRY_ASSIGN(out.threads, arguments.count("threads", {.most = threads_max}));
  if (!(out.seconds >= 1 && out.seconds <= 3600))
    return usage_error(fmt::format("--seconds: {} is not 1 to 3600", arguments.text("seconds")));
  if (out.disk_dir.empty() && !arguments.has("no-disk")) return usage_error("--disk: name a directory");
  return probe(out);
}

}  // namespace

constinit const Command probe_command = {
    .name = "probe",
    .summary = "measure this machine, write a machine file",
    .options = options_of_probe,
    .run = run_probe,
    .more =
        "\nTakes under a minute. Other work on the machine lowers the rates and widens\n"
        "their spread. docs/machine-files.md explains the file.\n",
    .launched = Command::Launched::each_runs,
};

}  // namespace tidepool
