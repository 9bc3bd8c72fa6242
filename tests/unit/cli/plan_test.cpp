// Tests `tidepool plan` with combinations of arguments.
#include <gmock/gmock.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <fstream>
#include <sstream>

#include "base/json/text.h"
#include "cli/plan_largest.h"
#include "config_files/load_config.h"
#include "fit/plan_run.h"
#include "report/screen.h"
#include "tests/support/asked_plan.h"
#include "tests/support/command_run.h"
#include "tests/support/disk_fixture.h"
#include "tests/support/file_text.h"
#include "tests/support/places.h"

namespace tidepool::plan_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string quickstart = source_file("configs/quickstart.yaml");
const std::string machine = "machine=" + source_file("configs/machines/1xv100-32g.yaml");

test::CommandOutcome plan_of(const std::string& config, std::vector<std::string> words) {
  words.insert(words.begin(), {"plan", config});
  return test::run_command(words);
}

test::CommandOutcome plan(const std::vector<std::string>& words) { return plan_of(quickstart, words); }

void expect_refused(const std::vector<std::string>& words, const std::string& says) {
  const test::CommandOutcome r = plan(words);
  EXPECT_EQ(r.code, 2) << says;
  EXPECT_THAT(r.err, HasSubstr(says));
  EXPECT_EQ(r.out, "") << says;
}

TEST(CliPlan, IgnoresNoArgument) {
  expect_refused({"tokens=300B"}, "tokens= needs predicted times: add machine=FILE");
  expect_refused({"--gantt"}, "--gantt needs predicted times: add machine=FILE");
  expect_refused({"--max"}, "--max needs a machine: add machine=FILE");
  expect_refused({"--max-length"}, "--max-length needs a machine: add machine=FILE");
  expect_refused({machine, "tokens=0"}, "tokens=0: at least 1");
  expect_refused({"machine="}, "machine= names no file");
  expect_refused({"--json", "--text"}, "--text and --json cannot be combined");
  expect_refused({machine, "--json", "--gantt"},
                 "--gantt is printed under the table, but --json prints no table");
  expect_refused({machine, "--what-if", "--max"}, "--what-if is printed under the table, but --max");
  expect_refused({machine, "--max", "--json"}, "--max and --json cannot be combined");
  expect_refused({machine, "--text", "tokens=300B"}, "tokens= asks for days of training, which --text");
  expect_refused({"--explain", ""}, "--explain: write op:N or chunk:N");
  expect_refused({"--segment", "drain"}, "add --explain");
}

// A config of a small model of this family, whose sizes stand in the words.
std::string config_of_family(const test::ScratchDir& dir, const std::string& family) {
  const std::string path = dir / (family + ".yaml");
  std::ofstream(path) << "model: {model_type: " << family
                      << ", vocab_size: 256, hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 4}\n"
                         "data: {train: data.txt}\n"
                         "train: {sequence_length: 64}\n"
                         "memory: {device: 256MiB, host: 256MiB, disk: 0}\n";
  return path;
}

// Weights are needed to train, not to plan.
TEST(CliPlan, PlansAdaptersWithoutAModelsDirectory) {
  const test::ScratchDir dir;
  const std::string config = config_of_family(dir, "llama");
  const test::CommandOutcome r = plan_of(config, {"lora.r=4"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("of the others param alone"));
  for (const char* command : {"train", "doctor"}) {
    const test::CommandOutcome refused = test::run_command({command, config, "lora.r=4"});
    EXPECT_EQ(refused.code, 2) << refused.out;
    EXPECT_THAT(refused.err, HasSubstr("lora.r: 4 asks for adapters, which need a trained base model"));
  }
}

TEST(CliPlan, NamesActiveParametersAndWhereComputeIsTheBusiest) {
  const test::ScratchDir dir;
  const std::string config = config_of_family(dir, "qwen3_moe");
  const test::CommandOutcome r = plan_of(config, {machine, "num_experts=8", "num_experts_per_tok=2"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, AllOf(HasSubstr(" active)"), HasSubstr("compute is the busiest")));
  EXPECT_THAT(plan_of(config_of_family(dir, "llama"), {machine}).out, Not(HasSubstr(" active)")));
}

TEST(CliPlan, JsonHasNullForUnknownValues) {
  const test::CommandOutcome r =
      plan({machine, "memory.device=128MiB", "memory.host=128MiB", "memory.disk=0", "--json"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("\"drive_life_years\": null"));  // nothing is written
}

TEST(CliPlan, JsonNamesTheShortBudgetIfNothingFits) {
  const test::CommandOutcome r =
      plan({"memory.device=4MiB", "memory.host=8MiB", "memory.disk=1GiB", "--json"});
  EXPECT_EQ(r.code, 3);
  EXPECT_THAT(r.err, HasSubstr("the job does not fit: device needs"));
  const auto json = parse_json(r.out, ErrorKind::internal, "stdout");
  ASSERT_TRUE(json) << r.out;
  EXPECT_FALSE(json->at("fits").as_bool());
  EXPECT_EQ(json->at("exit_code").as_int64(), 3);
  EXPECT_THAT(std::string(json->at("message").as_string()), HasSubstr("device needs"));
  const std::string device(json->at("advice").at("memory.device").as_string());
  EXPECT_THAT(r.err, HasSubstr("set memory.device=" + device + ";"));
  EXPECT_EQ(json->at("advice").as_object().size(), 1u);
}

// Regression: a refused value was given as advice, cut off at its unit.
TEST(CliPlan, JsonAdvisesOnlyChangesThatFit) {
  const auto advice = [](const std::string& refused) {
    const test::CommandOutcome r =
        plan({machine, "memory.device=100MiB", "memory.host=64MiB", refused, "--json"});
    const auto json = parse_json(r.out, ErrorKind::internal, "stdout");
    EXPECT_TRUE(json) << r.out;
    return json ? json->at("advice").as_object() : boost::json::object();
  };
  EXPECT_EQ(advice("memory.disk=9TiB"), boost::json::object());
  EXPECT_EQ(advice("machine.executor=cuda:0,1"), (boost::json::object{{"machine.executor", "cuda:0"}}));
  EXPECT_EQ(advice("machine.executor=cpu:2"), (boost::json::object{{"machine.executor", "cuda:0"}}));
}

TEST(CliPlan, AMachineWithoutADiskRefusesADiskBudget) {
  const test::ScratchDir dir;
  const std::string file = dir / "no_disk.yaml";
  std::ofstream(file) << "device: {memory: 24GiB, memory_rate: 907 GB/s, fp32: 82.6 TFLOP/s}\n"
                         "copies: {h2d: 24 GB/s, d2h: 24 GB/s, both: 43 GB/s}\n"
                         "host: {cores: 16, memory: 128GB, memory_rate: 49 GB/s, adam: 45 GB/s}\n";
  const test::CommandOutcome r = plan({"machine=" + file, "memory.disk=1GiB"});
  EXPECT_EQ(r.code, 2);
  EXPECT_THAT(r.err,
              HasSubstr("memory.disk=1.00 GiB, but " + file + " has no disk: give the file a section"));
  EXPECT_EQ(plan({"machine=" + file, "memory.disk=0", "memory.device=64MiB", "memory.host=128MiB"}).code, 0);
}

TEST(CliPlan, RefusesDevicesAndDisksThatTheMachineLacks) {
  const std::vector<std::string> small = {machine, "memory.device=100MiB", "memory.host=64MiB"};
  const auto refused = [&](const std::vector<std::string>& words, int code, const std::string& says) {
    std::vector<std::string> all = small;
    all.insert(all.end(), words.begin(), words.end());
    const test::CommandOutcome r = plan(all);
    EXPECT_EQ(r.code, code) << says;
    EXPECT_THAT(r.err, HasSubstr(says));
  };
  refused({"machine.executor=cuda:0,1"}, 2, "machine.executor=cuda:0,1 names GPU 1");
  refused({"machine.executor=cpu:2"}, 2, "has devices of kind cuda");
  refused({"memory.disk=9TiB"}, 3, "memory.disk=9.00 TiB is more than 1xv100-32g has (3.64 TiB)");
  refused({"memory.disk=9TiB", "--max"}, 3, "memory.disk=9.00 TiB is more than 1xv100-32g has (3.64 TiB)");
}

TEST(CliPlan, TheTableNamesTheMachine) {
  const test::CommandOutcome r =
      plan({machine, "memory.device=128MiB", "memory.host=128MiB", "memory.disk=0"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("1xv100-32g, 1 device\n"));
  EXPECT_THAT(r.out, Not(HasSubstr("threads")));
}

TEST(CliPlan, NotesThatAGpuWithoutBf16RefusesIt) {
  const std::vector<std::string> fits = {machine, "memory.device=128MiB", "memory.host=128MiB",
                                         "memory.disk=0"};
  const auto with = [&](const std::string& word) {
    std::vector<std::string> words = fits;
    words.push_back(word);
    return plan(words).out;
  };
  EXPECT_THAT(with("train.precision=bf16"), HasSubstr("the GPU of 1xv100-32g has no bf16"));
  EXPECT_THAT(with("train.precision=fp16"), Not(HasSubstr("has no bf16")));
}

// The advised budget can be typed, and is accepted.
TEST(CliPlan, ABudgetThatLeavesAGpuTooLittleIsRefusedWithOneThatFits) {
  const std::vector<std::string> box = {"machine=" + source_file("configs/machines/8xv100-32g-240g.yaml"),
                                        "memory.host=200GiB", "memory.disk=0"};
  const auto with = [&](const std::string& device) {
    std::vector<std::string> words = box;
    words.push_back("memory.device=" + device);
    return plan(words);
  };
  for (const char* device : {"31.5GiB", "40GiB"}) {
    const test::CommandOutcome refused = with(device);
    EXPECT_EQ(refused.code, 3);
    EXPECT_THAT(refused.err,
                AllOf(HasSubstr("leaves too little memory of each GPU"), HasSubstr("page tables")));
    const std::string says = "set memory.device to at most ";
    const size_t at = refused.err.find(says);
    ASSERT_NE(at, std::string::npos) << refused.err;
    std::string advised = refused.err.substr(at + says.size());
    advised.resize(advised.find_first_of("\n "));
    EXPECT_THAT(with(advised).err, Not(HasSubstr("leaves too little"))) << advised;
  }
}

// RETURNS: the text without the line breaks of an 80-column table.
std::string in_one_line(const std::string& text) {
  std::istringstream words(text);
  std::string out;
  for (std::string word; words >> word;) out += (out.empty() ? "" : " ") + word;
  return out;
}

TEST(CliPlan, NamesTheAttentionKernelsOfAGpuAndWhy) {
  const std::string llama = source_file("examples/continue/base.yaml");
  const std::string data = "data.train=" + source_file("README.md");
  const auto said = [](const std::string& config, const std::vector<std::string>& more) {
    std::vector<std::string> words = {machine, "memory.device=256MiB", "memory.host=256MiB", "memory.disk=0"};
    words.insert(words.end(), more.begin(), more.end());
    const test::CommandOutcome r = plan_of(config, words);
    EXPECT_EQ(r.code, 0) << r.err;
    return in_one_line(r.out);
  };
  const auto fp16 = "train.precision=fp16", fp32 = "train.precision=fp32";
  EXPECT_THAT(said(llama, {data, fp16}), HasSubstr("attention by cuDNN if the GPU"));
  EXPECT_THAT(said(llama, {data, fp32}), HasSubstr("our own kernels: cuDNN's are used in 16"));
  EXPECT_THAT(said(llama, {"data.train=gone", fp16}),
              AllOf(HasSubstr("several documents"), HasSubstr("data.train cannot be read from here")));
  EXPECT_THAT(said(quickstart, {"model.attn_pdrop=0.1", fp16}), HasSubstr("attention weights drop"));
  EXPECT_THAT(plan({}).out, Not(HasSubstr("attention by")));
}

// The budget was made for cores: most of the shortage is not caused by the model.
TEST(CliPlan, NamesAGpusReserveIfItsBudgetIsShort) {
  const test::CommandOutcome r = plan({"machine.executor=cuda"});
  EXPECT_EQ(r.code, 3);
  EXPECT_THAT(r.err, HasSubstr("of which a GPU's libraries"));
  EXPECT_THAT(r.err, HasSubstr("machine.executor=cpu (the cores train this config unchanged)"));
  EXPECT_THAT(plan({"memory.device=4MiB"}).err, Not(HasSubstr("GPU")));
  const test::CommandOutcome far = plan({"machine.executor=cuda", "memory.device=1MiB"});
  EXPECT_EQ(far.code, 3);
  EXPECT_THAT(far.err, Not(HasSubstr("machine.executor=cpu"))) << "1 MiB is too little for the cores as well";
}

// GPU memory beside frames is that of the found model, not of the config's own model.
TEST(CliPlan, MaxPlansTheLargestModelAsPlanWould) {
  Config config =
      load_config(quickstart, {machine, "memory.device=400MiB", "memory.host=512MiB", "memory.disk=0",
                               "model.n_embd=64", "model.n_layer=1", "model.n_head=1"})
          .value();
  const auto box = machine_of_file(config).value();
  config = on_machine(config, box);
  const RunQuestion asked = question_of(config, PlanFor::machine_of_file, box).value();
  const auto largest = find_largest(config, asked.options);
  ASSERT_TRUE(largest) << largest.error().message;
  const RunQuestion own = question_of(largest->job.config, PlanFor::machine_of_file, box).value();
  EXPECT_GT(own.options.device_reserved, asked.options.device_reserved);
  EXPECT_EQ(to_text(largest->plan), to_text(make_plan(largest->job.graph, own.options).value()));
}

TEST(CliPlan, MaxUsesHeadsOf128) {
  Config config =
      load_config(quickstart, {machine, "memory.device=400MiB", "memory.host=512MiB", "memory.disk=0"})
          .value();
  config.model = default_model(Family::qwen3);
  config.model.layers = 1, config.model.width = 64, config.model.attention.heads = 2,
  config.model.softmax.head_size_given = 32;
  config.model.mlp.inner_given = 128, config.model.attention.kv_heads_given = 2;
  const auto box = machine_of_file(config).value();
  config = on_machine(config, box);
  const RunQuestion asked = question_of(config, PlanFor::machine_of_file, box).value();
  const auto largest = find_largest(config, asked.options);
  ASSERT_TRUE(largest) << largest.error().message;
  EXPECT_EQ(largest->job.graph.config.head_size(), 128u);
  EXPECT_EQ(largest->job.graph.config.width, 128u * largest->job.graph.config.attention.heads);
}

TEST(CliPlan, MaxLengthTriesLengthsUpToTheModelsPositions) {
  EXPECT_THAT(lengths_to_try(700), ::testing::ElementsAre(256, 320, 384, 448, 512, 640, 700));
  const std::vector<std::string> words = {machine,
                                          "model.model_type=llama",
                                          "--max-length",
                                          "memory.device=400MiB",
                                          "memory.host=512MiB",
                                          "memory.disk=1GiB"};
  const test::ScratchDir dir;
  const std::string config = dir / "long.yaml";
  std::ofstream(config)
      << "model: {model_type: llama, vocab_size: 256, hidden_size: 64, num_hidden_layers: 2, "
         "num_attention_heads: 4, num_key_value_heads: 1, max_position_embeddings: 40000}\n"
         "data: {train: data.txt}\n"
         "train: {sequence_length: 64}\n";
  const test::CommandOutcome r = plan_of(config, words);
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, AllOf(HasSubstr("Longest sequences on 1xv100-32g"), HasSubstr("40000"),
                           HasSubstr("is the limit")));
}

TEST(CliPlan, MaxLengthSaysWhatALongerOneLacks) {
  const test::ScratchDir dir;
  const std::string config = config_of_family(dir, "llama");
  const auto longest = [&](const std::string& device, const std::string& positions) {
    return plan_of(config, {machine, "--max-length", "memory.device=" + device,
                            "model.max_position_embeddings=" + positions});
  };
  const test::CommandOutcome few = longest("400MiB", "100");
  EXPECT_EQ(few.code, 0) << few.err;
  EXPECT_THAT(few.out, HasSubstr("\n        100 "));
  const test::CommandOutcome tight = longest("100MiB", "1000000");
  EXPECT_EQ(tight.code, 0) << tight.err;
  EXPECT_THAT(tight.out, AllOf(HasSubstr(" tokens: "), HasSubstr("set memory.device=")));
  const test::CommandOutcome more =
      plan_of(config, {machine, "--max-length", "--what-if", "memory.device=100MiB", "memory.disk=auto",
                       "model.max_position_embeddings=1000000"});
  EXPECT_EQ(more.code, 0) << more.err;
  EXPECT_THAT(more.out, AllOf(HasSubstr("What if\n  device budget +25% "), HasSubstr("8-bit moments"),
                              Not(HasSubstr("disk budget"))));
  const test::CommandOutcome none = longest("8MiB", "1000");
  EXPECT_EQ(none.code, 3) << none.err;
  EXPECT_THAT(none.err, AllOf(HasSubstr("256 tokens: "), HasSubstr("set memory.device=")));
}

// As from machine=<(sed ... box.yaml): the pipe can be read only once.
TEST(CliPlan, ReadsAMachineFileFromAPipe) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const std::string text = test::file_text(machine.substr(machine.find('=') + 1));
  ASSERT_LT(text.size(), 65536u);  // fits the pipe's buffer, because it is written before it is read
  ASSERT_EQ(::write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  ::close(ends[1]);
  const test::CommandOutcome r = plan({"machine=/dev/fd/" + std::to_string(ends[0]), "memory.device=128MiB",
                                       "memory.host=128MiB", "memory.disk=0"});
  ::close(ends[0]);
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("1xv100-32g"));
}

TEST(CliPlan, ExplanationsFit80Columns) {
  for (const char* what : {"op:0", "op:20", "op:40", "op:60", "op:80", "op:100", "chunk:0", "chunk:9"}) {
    const test::CommandOutcome r =
        plan({"--explain", what, "memory.device=16MiB", "memory.host=64MiB", "memory.disk=1GiB"});
    EXPECT_EQ(r.code, 0) << r.err;
    std::istringstream lines(r.out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(display_width(line), 80u) << line;
  }
}

}  // namespace tidepool::plan_test
