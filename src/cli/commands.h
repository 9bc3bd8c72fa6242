// What each command does, apart from reading its words: those are in cli.cpp. An Error's kind is the
// exit code of the process.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "config/config.h"
#include "data/tokenize/document_source.h"

namespace tidepool {

struct TrainArguments {
  Config config;
  std::string resume;   // "": start anew; "auto": the newest checkpoint that verifies; else a checkpoint
  std::string command;  // the words to repeat this run, for messages and the report
};
Result<void> train(const TrainArguments&);

struct PlanArguments {
  Config config;
  bool text = false;    // the whole plan, one line an op, instead of the summary
  std::string explain;  // "op:812": why this op is there; "chunk:31": what becomes of it
  std::string segment;  // of `explain`; "body" if empty
  u64 tokens = 0;       // to train on in all; 0: not told
  bool json = false, gantt = false, what_if = false;
  bool largest = false;  // the largest model of the family that fits
};
// REQUIRES: check_plan_arguments.
Result<void> plan(const PlanArguments&);

struct ProbeArguments {
  std::string output = "machine.yaml";
  std::string disk_dir = ".";   // empty: no disk
  std::string device = "auto";  // auto, cpu, cuda or cuda:I
  double seconds = 40;
  u32 threads = 0;  // 0: all cores of this process
  bool json = false;
};
// Prints what it found and writes the machine file. Ends the process if a signal asks for it.
Result<void> probe(const ProbeArguments&);

struct GenerateArguments {
  std::string path;  // a run directory (its newest checkpoint), a checkpoint or a model directory
  std::vector<std::string> overrides;
  GenerateConfig generate;
  u64 seed = 42;
  u32 threads = 0;  // 0: all cores of this process
};
Result<void> generate(const GenerateArguments&);

struct ExportArguments {
  std::string source;  // a run (its newest good checkpoint), a checkpoint or a model directory
  std::string out;     // a new directory
  std::string base;    // of adapters: the model that they change; empty: the one that they name
  std::optional<Precision> dtype;
  Bytes max_shard_size{5'000'000'000};
};
Result<void> export_model(const ExportArguments&);

struct EvalArguments {
  std::string source;  // a run directory, a checkpoint, a model directory or a config
  std::vector<std::string> overrides;
  std::vector<std::string> data;  // in the place of what the config holds out
  bool json = false;
};
Result<void> eval(const EvalArguments&);

struct TokenizeArguments {
  std::string tokenizer;            // tokenizer.json, or a directory that holds it
  std::vector<std::string> inputs;  // files, directories, globs
  std::string output;
  TextDocuments documents = TextDocuments::file;
  bool special = true;  // what the tokenizer puts around a text
  std::string end;      // a token to put behind each document; empty: none
  u64 show = 0;         // print the tokens of so many documents, and write nothing
  bool overwrite = false;
  u32 threads = 0;  // 0: all cores of this process
};
Result<void> tokenize(const TokenizeArguments&);

struct ReportArguments {
  std::vector<std::string> run_dirs;  // one, or two to stand side by side
  std::string html;                   // where the page goes; empty: into the first
};
Result<void> report(const ReportArguments&);

struct DoctorArguments {
  std::string swap_dir = ".";
  std::string executor = "cpu";  // machine.executor, and the GPUs that it names
  std::vector<u32> gpus;
  Precision precision{};         // train.precision
  std::optional<Config> config;  // of a run to be tried; its plan says what it takes
};
// Prints what it finds. An error only if training is impossible.
Result<void> doctor(const DoctorArguments&);

}  // namespace tidepool
