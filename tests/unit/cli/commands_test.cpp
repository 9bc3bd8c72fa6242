#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "cli/bench/measured_choice.h"
#include "cli/command.h"
#include "cli/doctor.h"
#include "inference/forward_only.h"
#include "tests/support/command_run.h"
#include "tests/support/disk_fixture.h"
#include "tests/support/model_directory.h"
#include "tests/support/places.h"

namespace tidepool::commands_test {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

test::CommandOutcome run(const std::vector<std::string>& words) { return test::run_command(words); }

void expect_80_columns(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 80u) << line;
    EXPECT_FALSE(line.ends_with(' ')) << line;
  }
}

TEST(Cli, HelpIsReadableOn80Columns) {
  expect_80_columns(run({}).out);
  EXPECT_EQ(run({}).out, run({"--help"}).out);
  for (const Command* listed : commands()) {
    const Command& command = *listed;
    const test::CommandOutcome r = run({std::string(command.name), "--help"});
    EXPECT_EQ(r.code, 0);
    EXPECT_THAT(r.out, StartsWith("tidepool " + std::string(command.name)));
    expect_80_columns(r.out);
    EXPECT_EQ(run({"help", std::string(command.name)}).out, r.out);
    EXPECT_THAT(main_help(), HasSubstr(std::string(command.summary)));
  }
}

TEST(Cli, UsageErrorsExitWith2AndNameTheNearest) {
  const test::CommandOutcome command = run({"trian"});
  EXPECT_EQ(command.code, 2);
  EXPECT_THAT(command.err, HasSubstr("unknown command 'trian'; did you mean 'train'?"));
  // Regression: printed the main help with exit code 0.
  EXPECT_EQ(run({"help", "trian"}).code, 2);
  EXPECT_EQ(run({"help", "trian"}).err, command.err);
  const test::CommandOutcome option = run({"train", "--resum", "auto"});
  EXPECT_EQ(option.code, 2);
  EXPECT_THAT(option.err, HasSubstr("unknown option '--resum'; did you mean '--resume'?"));
  for (const char* typed : {"-o", "-o=x"})
    EXPECT_THAT(run({"train", "x.yaml", typed}).err, HasSubstr("unknown option '-o'\n")) << typed;
  EXPECT_THAT(run({"train", "x.yaml", "-resume", "auto"}).err,
              HasSubstr("unknown option '-resume'; did you mean '--resume'?"));
  EXPECT_EQ(run({"train"}).code, 2);
  EXPECT_EQ(run({"train", "a=b"}).code, 2);
  EXPECT_EQ(run({"train", "/nonexistent.yaml"}).code, 2);
  EXPECT_EQ(run({"report"}).code, 2);
  EXPECT_EQ(run({"report", "run", "--html", ""}).code, 2);
  EXPECT_THAT(run({"train", source_file("configs/quickstart.yaml"), "--resume", ""}).err,
              HasSubstr("--resume: write --resume auto"));
  EXPECT_THAT(run({"train", source_file("configs/quickstart.yaml"), "--resume", "atuo"}).err,
              HasSubstr("--resume atuo: there is no such checkpoint; did you mean 'auto'?"));
  // Regression: the option parser's own words were printed.
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"train", "x.yaml", "--resume"}, {"train", "x.yaml", "--resume="}})
    EXPECT_THAT(run(words).err, HasSubstr("tidepool: --resume needs a value: write --resume auto|PATH\n"));
  EXPECT_THAT(run({"plan", "x.yaml", "--json=1"}).err, HasSubstr("--json takes no value: write --json\n"));
  EXPECT_EQ(run({"generate", "x", "--top-k", "many"}).code, 2);
  EXPECT_THAT(run({"generate", "x", "--top-k", "many"}).err,
              HasSubstr("--top-k: 'many' is not a whole number"));
  // Regression: the limit was not named, or not the option.
  for (const auto& [words, says] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"generate", "x", "--top-k", "5000000000"},
            "--top-k: 5000000000 is too large; at most 4294967295"},
           {{"generate", "x", "--threads", "5000"}, "--threads: 5000 is too large; at most 4096"},
           {{"generate", "x", "--temperature=-1"}, "--temperature: -1 is too small; at least 0"},
           {{"probe", "--threads", "5000"}, "--threads: 5000 is too large; at most 4096"},
           {{"tokenize", "t.json", "x", "--threads", "5000"}, "--threads: 5000 is too large; at most 4096"},
           {{"bench", "disk", "--repetitions", "0"}, "--repetitions: 0 is too small; at least 1"},
           {{"bench", "disk", "--depth", "0"}, "--depth: 0 is too small; at least 1"}}) {
    EXPECT_EQ(run(words).code, 2) << says;
    EXPECT_THAT(run(words).err, HasSubstr(says));
  }
  // Regression: further words were dropped.
  const test::CommandOutcome words = run({"generate", "x", "--prompt", "Why", "do"});
  EXPECT_EQ(words.code, 2);
  EXPECT_THAT(words.err, HasSubstr("'do' is not key=value"));
  EXPECT_THAT(run({"bench", "disc"}).err, HasSubstr("did you mean 'disk'?"));
}

TEST(Cli, PrintsItsVersion) { EXPECT_THAT(run({"--version"}).out, HasSubstr("tidepool 0.")); }

TEST(Cli, PrintsTheEffectiveConfig) {
  const test::ScratchDir dir;
  const std::string path = dir / "config.yaml";
  std::ofstream(path) << "data: {train: a.txt}\nmemory: {device: 1GiB, host: 2GiB}\n";
  const test::CommandOutcome r = run({"config", path, "learning_rate=0.25"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("learning_rate: 0.25"));
  const test::CommandOutcome wrong = run({"config", path, "lr=1"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("set train.learning_rate"));
  EXPECT_THAT(run({"config", path, "extra"}).err, HasSubstr("'extra' is not an override"));
}

TEST(Cli, CompletionKnowsCommandsOptionsAndKeys) {
  EXPECT_THAT(bash_completion(), HasSubstr("train.learning_rate="));
  EXPECT_THAT(bash_completion(), HasSubstr("--resume"));
  EXPECT_THAT(bash_completion(), HasSubstr("generate"));
  EXPECT_THAT(bash_completion(), HasSubstr("machine.file="));
  EXPECT_THAT(bash_completion(), HasSubstr("plan:--explain) words=\"op: chunk:\""));
  EXPECT_THAT(bash_completion(), HasSubstr("train:--resume) words=\"auto\""));
  // Regression: lists in the script were older than the commands.
  EXPECT_THAT(bash_completion(), HasSubstr(" --io attention copy disk gemm update\""));
  EXPECT_THAT(bash_completion(), HasSubstr("train|plan|tokenize|generate|eval|score|doctor|config)"));
}

TEST(CliOptions, ParsesPresetsFlagsAndValues) {
  constexpr std::array options = {Option{"json"}, Option{"size", "SIZE", "", "1GiB"}, Option{"depth", "N"}};
  const std::vector<std::string> words = {"a", "--json", "b", "--depth=8", "key=value"};
  const auto parsed = Arguments::parse(options, words);
  ASSERT_TRUE(parsed);
  EXPECT_THAT(parsed->positional(), testing::ElementsAre("a", "b", "key=value"));
  EXPECT_TRUE(parsed->has("json"));
  EXPECT_EQ(*parsed->integer("depth"), 8u);
  EXPECT_EQ(*parsed->size("size"), Bytes{gib});
  EXPECT_FALSE(Arguments::parse(options, std::vector<std::string>{"--depth"}));
}

TEST(CliOptions, TakeUnderscoresForDashes) {
  constexpr std::array options = {Option{"no-disk"}, Option{"max-new-tokens", "N"}, Option{"prompt", "TEXT"}};
  const auto parse = [&](const std::vector<std::string>& words) { return Arguments::parse(options, words); };
  EXPECT_EQ(*parse({"--max_new_tokens", "8"})->integer("max-new-tokens"), 8u);
  EXPECT_EQ(*parse({"--max_new-tokens=8"})->integer("max-new-tokens"), 8u);
  EXPECT_TRUE(parse({"--no_disk"})->has("no-disk"));
  EXPECT_EQ(parse({"--no_disk"})->given(), std::vector<std::string>{"no-disk"});
  // Values and other words keep their underscores.
  EXPECT_EQ(parse({"--prompt", "--no_disk"})->text("prompt"), "--no_disk");
  EXPECT_EQ(parse({"--prompt=--no_disk"})->text("prompt"), "--no_disk");
  EXPECT_EQ(parse({"a_b=c_d", "--", "--no_disk"})->positional(),
            (std::vector<std::string>{"a_b=c_d", "--no_disk"}));
  EXPECT_THAT(parse({"--max_new_tokens="}).error().message, HasSubstr("--max-new-tokens needs a value"));
  EXPECT_THAT(parse({"--no_disk=1"}).error().message, HasSubstr("--no-disk takes no value"));
  EXPECT_THAT(parse({"--max_new_token", "8"}).error().message,
              HasSubstr("unknown option '--max_new_token'; did you mean '--max-new-tokens'?"));
  // Each command's options, as most tools write them.
  for (const Command* command : commands())
    for (const Option& option : command->options)
      EXPECT_EQ(option.name.find('_'), option.name.npos) << command->name << " --" << option.name;
}

TEST(CliDoctor, FindingsFit80Columns) {
  std::vector<Finding> findings = examine_cores({});
  for (const Finding& f : examine_memory({})) findings.push_back(f);
  for (const Finding& f : examine_disk(".", {})) findings.push_back(f);
  EXPECT_GE(findings.size(), 10u);
  findings.push_back({Health::warn, "made up",
                      "one two three four five six seven eight nine ten eleven twelve",
                      "a fix that is a sentence of some length, so that it has to be wrapped as well"});
  expect_80_columns(findings_text(findings));
  EXPECT_THAT(findings_text(findings), HasSubstr("fix: a fix"));
}

TEST(CliDoctor, RefusesWhatCannotTrain) {
  const auto fails = [](const std::vector<Finding>& findings) {
    return std::ranges::count(findings, Health::fail, &Finding::health);
  };
  EXPECT_EQ(fails(examine_memory({.memory = Bytes{u64{1} << 60}})), 1);
  EXPECT_EQ(fails(examine_disk(".", {.disk = Bytes{u64{1} << 60}})), 1);
  const test::ScratchDir dir;
  EXPECT_THAT(examine_disk(dir / "not/yet", {})[1].found,
              StartsWith(dir / "not/yet" + " does not exist yet; looked at "));
  if (!std::filesystem::is_directory("/dev/shm")) GTEST_SKIP() << "no /dev/shm here";
  EXPECT_EQ(fails(examine_disk("/dev/shm/not/there/yet", {})), 1);
  EXPECT_EQ(run({"doctor", "--dir", "/dev/shm"}).code, 6);
}

// Regression: doctor and `plan` or `train` disagreed on whether the job fits.
TEST(CliDoctor, SaysWhetherTheJobFits) {
  const test::ScratchDir dir;
  test::write_file(dir / "text.txt", std::string(2000, 'a'));
  const std::string quickstart = source_file("configs/quickstart.yaml"), data = "train=" + (dir / "text.txt");
  const std::string out = "output.dir=" + (dir / "run");
  const auto refused = run({"doctor", quickstart, data, out, "memory.device=1MiB"});
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.err,
              HasSubstr("training is not possible here: plan: the job does not fit: device needs"));
  // Budgets above the machine's memory, of which the plan uses little.
  const auto fits = run({"doctor", quickstart, data, out, "memory.host=9TiB", "memory.disk=9000TiB"});
  EXPECT_EQ(fits.code, 0) << fits.err;
  EXPECT_THAT(fits.out, HasSubstr("swap directory  not needed"));
}

// Regression: doctor said "Training works" of data and directories that `train` refused at once.
TEST(CliDoctor, RefusesDataAndDirectoriesThatTrainRefuses) {
  const test::ScratchDir dir;
  const std::string config = dir / "config.yaml";
  test::write_file(config,
                   "model: {vocab_size: 256, n_embd: 32, n_layer: 1, n_head: 2}\n"
                   "memory: {device: 64MiB, host: 64MiB}\ntrain: {sequence_length: 32}\n");
  test::write_file(dir / "text.txt", std::string(2000, 'a'));
  test::write_file(dir / "empty.txt", "");
  test::write_file(dir / "bad.jsonl", "{\"text\": \"good\"}\n{\"text\": 3\n");
  test::write_file(dir / "good.jsonl", "{\"text\": \"good\"}\n");
  const auto doctor = [&](const std::string& data, const std::string& out, const std::string& more) {
    return run({"doctor", config, "data.train=" + (dir / data), "output.dir=" + (dir / out), more});
  };
  const std::string none_held_out = "validation_fraction=0";
  for (const auto& [data, says] : {std::pair{"nosuch.txt", "no such data file"},
                                   {"empty.txt", "the data file is empty"},
                                   {"bad.jsonl", "bad.jsonl:2: not valid JSON"}}) {
    const test::CommandOutcome r = doctor(data, "run", none_held_out);
    EXPECT_EQ(r.code, 4) << data << r.err;
    EXPECT_THAT(r.err, HasSubstr("training is not possible here: data: ")) << data;
    EXPECT_THAT(r.err, HasSubstr(says)) << data;
    EXPECT_EQ(doctor("text.txt", "run", "data.validation=" + (dir / data)).code, 4) << data;
  }
  for (const char* data : {"text.txt", "good.jsonl"}) EXPECT_EQ(doctor(data, "run", none_held_out).code, 0);
  EXPECT_THAT(doctor("text.txt", "run", none_held_out).out, HasSubstr("63 sequences of 32 tokens"));
  for (const char* out : {"text.txt", "text.txt/below"}) {
    const test::CommandOutcome r = doctor("text.txt", out, none_held_out);
    EXPECT_EQ(r.code, 2) << out;
    EXPECT_THAT(r.err, HasSubstr("run directory: output.dir: " + (dir / out) + " is ")) << out;
    EXPECT_THAT(r.err, HasSubstr("not a directory; name a directory")) << out;
  }
  EXPECT_EQ(run({"doctor", config, "data.train=" + (dir / "text.txt"), "output.dir=/proc/x"}).code, 6);
  EXPECT_FALSE(std::filesystem::exists(dir / "run"));
}

// Regression: doctor found no obstacle.
TEST(CliDoctor, RefusesMissingGpus) {
  const auto gpu = [](const DoctorArguments& arguments) {
    const std::vector<Finding> findings = examine_cores(arguments);
    return *std::ranges::find(findings, "GPU", &Finding::what);
  };
  EXPECT_EQ(gpu({}).health, Health::ok);
  const Finding asked = gpu({.executor = "cuda:63", .gpus = {63}});
  EXPECT_EQ(asked.health, Health::fail);
  EXPECT_EQ(asked.kind, ErrorKind::usage);  // the same as `train`
  EXPECT_NE(asked.found, "");
  EXPECT_THAT(asked.fix, HasSubstr("train with machine.executor=cpu"));
  const auto doctor = run({"doctor", source_file("configs/quickstart.yaml"), "machine.executor=cuda:63"});
  EXPECT_EQ(doctor.code, 2);
  EXPECT_THAT(doctor.err, HasSubstr("training is not possible here: GPU: "));
}

TEST(CliBench, DoesNotAdviseTraining) {
  for (const char* part : {"copy", "gemm", "attention"}) {
    const test::CommandOutcome r = run({"bench", part, "--device", "cuda:63"});
    EXPECT_EQ(r.code, 2);
    EXPECT_THAT(r.err, HasSubstr("--device cpu measures the cores"));
    EXPECT_THAT(r.err, Not(HasSubstr("machine.executor")));
  }
}

TEST(CliBench, NamesItsParts) {
  const std::string parts = std::regex_replace(std::string(bench_command.words), std::regex("\\|"), ", ");
  EXPECT_THAT(run({"bench", "nosuch"}).err, HasSubstr("there are " + parts + "\n"));
}

// Regression: options of one form of a command were accepted by its other forms, and ignored.
TEST(Cli, RefusesOptionsAndWordsThatTheFormIgnores) {
  const std::string config = source_file("configs/quickstart.yaml");
  for (const auto& [words, says] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"tokenize", config, "--end", "x"}, "--end: 'tidepool tokenize CONFIG.yaml' does not use it"},
           {{"tokenize", config, "--no-special"}, "--no-special: "},
           {{"tokenize", config, "--documents", "file"}, "--documents: "},
           {{"tokenize", config, "--show", "1", "--threads", "0"}, "--threads: "},
           {{"doctor", config, "--dir", "."}, "--dir: 'tidepool doctor CONFIG.yaml' does not use it"},
           {{"bench", "update", "--depth", "4"},
            "--depth: 'tidepool bench update' does not use it; leave it out"},
           {{"bench", "update", "--device", "cuda"}, "--device: "},
           {{"bench", "disk", "--device", "cuda"}, "--device: "},
           {{"bench", "gemm", "--dir", "."}, "--dir: "},
           {{"bench", "disk", "gemm"}, "'gemm': 'tidepool bench disk' does not use it"},
           {{"config", "--markdown", "foo"}, "'foo': 'tidepool config --markdown' does not use it"},
           {{"completion", "foo"}, "'foo': 'tidepool completion' does not use it"}}) {
    const test::CommandOutcome r = run(words);
    EXPECT_EQ(r.code, 2) << says;
    EXPECT_THAT(r.err, HasSubstr(says));
  }
}

TEST(CliTokenize, AMissingTokenizerNamesTheNearest) {
  const test::ScratchDir dir;
  test::write_file(dir / "tokenizer.json", "{}");
  const test::CommandOutcome r = run({"tokenize", dir / "tokeniser.json", "x", "--output", dir / "out"});
  EXPECT_EQ(r.code, 4);
  EXPECT_THAT(r.err, HasSubstr("tokeniser.json: there is no such file; did you mean 'tokenizer.json'?"));
  std::filesystem::remove(dir / "tokenizer.json");
  EXPECT_THAT(
      run({"tokenize", dir / ".", "x", "--output", dir / "out"}).err,
      HasSubstr("tokenizer.json: there is no such file; name a tokenizer.json, or a model directory"));
}

TEST(CliTokenize, NotesFit80Columns) {
  const test::ScratchDir dir;
  test::write_file(dir / "config.yaml", "model: {vocab_size: 256}\nmemory: {device: 1GiB, host: 1GiB}\n");
  test::write_file(dir / "d.jsonl", "{\"text\": \"good\"}\n{\"text\": \"a\"}\n");
  const test::CommandOutcome r = run(
      {"tokenize", dir / "config.yaml", "data.train=" + (dir / "d.jsonl"), "data.cache=" + (dir / "cache")});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("data: 1 document of 4 tokens"));
  EXPECT_THAT(r.out, HasSubstr("\n    "));
}

TEST(CliEval, ARunWithoutItsConfigSaysSo) {
  const test::ScratchDir dir;
  const Result<Config> config = config_of_trained(dir / "run", dir / "run/checkpoint-1", {});
  EXPECT_EQ(config.error().kind, ErrorKind::usage);
  EXPECT_THAT(config.error().message, HasSubstr("run/config.yaml: there is no such file, which training"));
}

TEST(CliEval, NamesThePrecision) {
  const test::ScratchDir dir;
  ModelConfig model = default_model(Family::llama);
  model.vocab_size = 256, model.positions = 32, model.width = 32, model.layers = 1, model.attention.heads = 2;
  test::write_model_directory(dir / "model", model, Precision::fp32);
  test::write_file(dir / "text.txt", std::string(200, 'a'));
  std::vector<std::string> words = {"eval",
                                    dir / "model",
                                    "data=" + (dir / "text.txt"),
                                    "memory.device=16MiB",
                                    "memory.host=16MiB",
                                    "sequence_length=32",
                                    "output.dir=" + (dir / "run")};
  EXPECT_THAT(run(words).out, HasSubstr(" Precision  fp32\n"));
  words.emplace_back("--json");
  EXPECT_THAT(run(words).out, HasSubstr("\"precision\": \"fp32\""));
}

}  // namespace tidepool::commands_test
