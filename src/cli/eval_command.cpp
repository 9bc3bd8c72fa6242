#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "base/json/text.h"
#include "base/text/units.h"
#include "cli/command.h"
#include "cli/config_words.h"
#include "inference/evaluate.h"
#include "objectives/objective.h"
#include "report/print_text.h"
#include "report/status_line.h"

namespace tidepool {
namespace {

constexpr std::array options_of_eval = {
    Option{"json", "", "one JSON object, for other programs"},
};

struct EvalArguments {
  std::string source;  // a run directory, a checkpoint, a model directory or a config
  std::vector<std::string> overrides;
  std::vector<std::string> data;  // evaluated instead of the config's held-out data
  bool json = false;
};

namespace json = boost::json;

json::object figures(const EvaluatedPart& part, const Objective& of) {
  json::object out = {{"eval_loss", part.loss()},
                      {of.figure.metric, part.figure(of)},
                      {of.targets, part.result.targets},
                      {"sequences", part.sequences}};
  for (const ObjectiveMetric& metric : of.metrics)
    if (const auto value = value_of(metric, part.result.sums, static_cast<double>(part.result.targets)))
      out[fmt::format("eval_{}", metric.name)] = *value;
  return out;
}

std::string json_of(const std::string& source, const Evaluation& e) {
  const Objective& of = objective(e.objective);
  json::object o = figures(e.all, of);
  o["source"] = source;
  o["weights"] = e.weights;
  o["precision"] = json::string_view(name(e.precision));
  o["seconds"] = e.seconds;
  o[fmt::format("{}_per_second", of.targets)] = static_cast<double>(e.all.result.targets) / e.seconds;
  json::array parts;
  for (const EvaluatedPart& part : e.parts) {
    json::object p = figures(part, of);
    p["data"] = part.name;
    parts.push_back(std::move(p));
  }
  if (parts.size() > 1) o["parts"] = std::move(parts);
  return json_text(o, JsonStyle::pretty);
}

void print_line(const EvaluatedPart& part, const Objective& of, const std::string& name) {
  print_text(" {:>10} {:>11} {:>11}  {}\n", loss_text(part.loss()), of.figure.text(part.figure(of)),
             part.result.targets, name);
}

void print_table(const Evaluation& e) {
  print_text(" Weights    {}\n Precision  {}\n\n", e.weights, name(e.precision));
  const Objective& of = objective(e.objective);
  print_text(" {:>10} {:>11} {:>11}\n", "eval_loss", of.figure.word, of.targets);
  if (e.parts.size() > 1) {
    for (const EvaluatedPart& part : e.parts) print_line(part, of, part.name);
    print_line(e.all, of, "all");
  } else {
    print_line(e.all, of, e.parts[0].name.empty() ? "all held-out data" : e.parts[0].name);
  }
  for (const ObjectiveMetric& metric : of.metrics)
    if (const auto value = value_of(metric, e.all.result.sums, static_cast<double>(e.all.result.targets)))
      print_text("\n {:>23}  {}", significant_text(*value), metric.name);
  if (!of.metrics.empty()) print_text("\n");
  print_text("\n {} sequences in {}, {} {}/s\n", e.all.sequences, seconds_text(e.seconds),
             count_text(static_cast<double>(e.all.result.targets) / e.seconds), of.targets);
}

void show(StatusLine& status, u64 done, u64 all) {
  const double share = static_cast<double>(done) / static_cast<double>(all);
  status.show("evaluating",
              fmt::format(" evaluating {} {}, {} of {} sequences", bar(status.screen(), share, 20, Ink::cyan),
                          percent_text(share), done, all),
              "evaluating ...");
}

Result<void> eval(const EvalArguments& arguments) {
  StatusLine status;
  Result<Evaluation> done = evaluate_model({.source = arguments.source,
                                            .overrides = arguments.overrides,
                                            .data = arguments.data,
                                            .note =
                                                [&](const std::string& line) {
                                                  status.clear();
                                                  print_text(stderr, "{}\n", line);
                                                },
                                            .progress = [&](u64 n, u64 all) { show(status, n, all); }});
  status.clear();
  TRY(done);
  if (arguments.json) {
    print_text("{}\n", json_of(arguments.source, *done));
  } else {
    print_table(*done);
  }
  return check_losses_are_finite(*done);
}

Result<void> run_eval(const Arguments& arguments) {
  const auto& words = arguments.positional();
  TRY_ASSIGN(DataWords given, data_words(words, 1));
  return eval({.source = words[0],
               .overrides = std::move(given.overrides),
               .data = std::move(given.data),
               .json = arguments.has("json")});
}

}  // namespace

constinit const Command eval_command = {
    .name = "eval",
    .words = "SOURCE [data=FILE ...] [key=value ...]",
    .summary = "loss on held-out data, with perplexity or accuracy",
    .options = options_of_eval,
    .least_words = 1,
    .run = run_eval,
    .more =
        "\nSOURCE is a run directory (its newest checkpoint), a checkpoint, a model\n"
        "directory, or a config (the run in its output.dir, else the model directory\n"
        "that it names).\n"
        "Without data=FILE, all held-out data is evaluated. data=FILE may be given\n"
        "several times. train.eval_batches=N limits the number of batches. key=value\n"
        "overrides the run's config.\n",
};

}  // namespace tidepool
