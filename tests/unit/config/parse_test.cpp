#include <gmock/gmock.h>

#include "config/config.h"
#include "config/schema.h"
#include "config_files/load_config.h"

namespace tidepool::parse_test {

using ::testing::HasSubstr;

constexpr std::string_view smallest = "data: {train: a.txt}\nmemory: {device: 1GiB, host: 2GiB}\n";

Config parse(std::string_view yaml, const std::vector<std::string>& overrides = {}) {
  auto config = parse_config(yaml, "c.yaml", overrides);
  EXPECT_TRUE(config.has_value()) << config.error().message;
  return config ? *config : Config{};
}

std::string fault_of(std::string_view yaml, const std::vector<std::string>& overrides = {}) {
  const auto config = parse_config(yaml, "c.yaml", overrides);
  if (config) return "no error";
  EXPECT_EQ(config.error().kind, ErrorKind::usage);
  return config.error().message;
}

std::string with(std::string_view more) { return std::string(smallest) + std::string(more); }

TEST(ConfigParse, ReadsSectionsAndDefaults) {
  const Config c =
      parse(with("train:\n  learning_rate: 1e-5\n  max_steps: 1_000\nmodel:\n  n_inner: null\n"));
  EXPECT_EQ(c.train.learning_rate, 1e-5);
  EXPECT_EQ(c.train.max_steps, 1000u);
  EXPECT_EQ(c.memory.budgets.device, Bytes{gib});
  EXPECT_EQ(c.memory.budgets.disk, disk_auto);
  EXPECT_EQ(c.data.train, std::vector<std::string>{"a.txt"});
  EXPECT_EQ(c.model.inner(), 4 * c.model.width);
}

TEST(ConfigParse, SizesAreBinaryOrDecimal) {
  const auto device = [](std::string_view size) {
    return parse(smallest, {"memory.device=" + std::string(size)}).memory.budgets.device.value;
  };
  EXPECT_EQ(device("1.5GiB"), 1536 * mib);
  EXPECT_EQ(device("20GB"), 20'000'000'000u);
  EXPECT_EQ(device("3 mib"), 3 * mib);
  EXPECT_EQ(device("512KB"), 512'000u);
  EXPECT_EQ(device("1TiB"), 1024 * gib);
  EXPECT_EQ(device("0"), 0u);
}

// Regression: a tab was "illegal map value".
TEST(ConfigParse, ATabIsNamed) {
  EXPECT_THAT(
      fault_of("data:\n\ttrain: a.txt\n"),
      HasSubstr("c.yaml:2: not valid YAML: illegal map value; the line begins with a tab: YAML indents"));
  EXPECT_THAT(fault_of("data:\n  train: a.txt\n\tformat: text\n"), HasSubstr("c.yaml:3: not valid YAML"));
  EXPECT_THAT(fault_of("data: {train: [\n"), testing::Not(HasSubstr("tab")));
}

TEST(ConfigParse, UnknownKeyNamesTheNearest) {
  EXPECT_EQ(fault_of(with("train:\n  lerning_rate: 1\n")),
            "c.yaml:4: unknown key 'lerning_rate' in section 'train'; did you mean 'learning_rate'?");
  EXPECT_THAT(fault_of(with("train:\n  save_steps: 1\n")), HasSubstr("belongs in section 'output'"));
  EXPECT_THAT(fault_of(with("train:\n  max_iters: 1\n")), HasSubstr("set train.max_steps"));
  EXPECT_THAT(fault_of(with("trian: {}\n")),
              HasSubstr("c.yaml:3: unknown section 'trian'; did you mean 'train'?"));
  EXPECT_EQ(fault_of(with("foo: {}\n")),
            "c.yaml:3: unknown section 'foo'; the sections are model, lora, data, objective, train, memory, "
            "machine, output");
  EXPECT_THAT(fault_of(with("max_steps: 3\n")), HasSubstr("put it under 'train:'"));
}

// Regression: nanoGPT's "bias" got the answer for PEFT's "bias".
TEST(ConfigParse, AKeyOfOthersMeansWhatItDoesInItsSection) {
  EXPECT_THAT(fault_of(with("model: {bias: false}\n")), HasSubstr("the family decides"));
  EXPECT_THAT(fault_of(with("lora: {bias: all}\n")), HasSubstr("only adapters are trained"));
  EXPECT_THAT(fault_of(smallest, {"model.bias=false"}), HasSubstr("the family decides"));
  EXPECT_THAT(fault_of(smallest, {"bias=none"}), HasSubstr("Tidepool always does this"));
  EXPECT_THAT(fault_of(smallest, {"bias=all"}),
              HasSubstr("the key differs between sections 'lora' and 'model'; name the section"));
}

// Regression: our most similar key was proposed, such as eval_steps for eval_iters.
TEST(ConfigParse, KeysOfOthersNameOurs) {
  struct Names {
    std::string theirs, section, ours;
  };
  for (const auto& [theirs, section, ours] :
       std::vector<Names>{{"eval_iters", "train", "eval_batches"},
                          {"eval_interval", "train", "eval_steps"},
                          {"grad_clip", "train", "max_grad_norm"},
                          {"beta1", "train", "adam_beta1"},
                          {"beta2", "train", "adam_beta2"},
                          {"min_lr", "train", "min_lr_rate"},
                          {"max_iters", "train", "max_steps"},
                          {"warmup_iters", "train", "warmup_steps"},
                          {"epochs", "train", "num_train_epochs"},
                          {"lr_scheduler", "train", "lr_scheduler_type"},
                          {"log_interval", "output", "logging_steps"},
                          {"out_dir", "output", "dir"},
                          {"dataset", "data", "train"},
                          {"datasets", "data", "train"},
                          {"val_set_size", "data", "validation_fraction"},
                          {"sample_packing", "data", "packing"},
                          {"train_on_inputs", "data", "loss"},
                          {"assistant_only_loss", "data", "loss"},
                          {"completion_only_loss", "data", "loss"},
                          {"num_epochs", "train", "num_train_epochs"},
                          {"max_seq_length", "train", "sequence_length"},
                          {"sequence_len", "train", "sequence_length"},
                          {"rank", "lora", "r"},
                          {"lora_r", "lora", "r"}}) {
    const std::string answer = "unknown key '" + theirs + "'; set " + section + "." + ours;
    EXPECT_THAT(fault_of(smallest, {theirs + "=1"}), HasSubstr(answer));
    EXPECT_EQ(find_fields(section, ours).size(), 1u) << ours;
  }
  for (const char* key : {"lr_decay_iters", "group_by_length", "deepspeed", "peft_type", "init_lora_weights"})
    EXPECT_THAT(fault_of(smallest, {std::string(key) + "=x"}), HasSubstr("leave the key out")) << key;
  EXPECT_THAT(fault_of(with("out_dir: x\n")), HasSubstr("set output.dir"));
  EXPECT_THAT(fault_of(with("datasets: [{path: x, type: alpaca}]\n")), HasSubstr("set data.train"));
  EXPECT_THAT(fault_of(with("micro_batch_size: 2\n")), HasSubstr("put it under 'train:'"));
  EXPECT_THAT(fault_of(with("eval_sample_packing: false\n")), HasSubstr("data.packing"));
  for (const char* key : {"base_model", "model_name_or_path", "base_model_name_or_path"})
    EXPECT_THAT(fault_of(with(std::string(key) + ": X\n")), HasSubstr("set model: DIRECTORY")) << key;
  for (const char* key : {"load_in_4bit", "load_in_8bit"}) {
    EXPECT_THAT(fault_of(with(std::string(key) + ": true\n")), HasSubstr("does not quantize weights"));
    EXPECT_THAT(fault_of(with(std::string(key) + ": false\n")), HasSubstr("Tidepool always does this"));
  }
}

// Regression: these overrides were taken for config.json's statement about its weights, and changed nothing.
TEST(ConfigParse, OverridesOfTheTypeAreNoKeysOfConfigJson) {
  for (const char* text : {"dtype=float32", "torch_dtype=float16", "model.dtype=float32"})
    EXPECT_THAT(fault_of(smallest, {text}), HasSubstr("set train.precision")) << text;
  EXPECT_THAT(fault_of(smallest, {"gradient_checkpointing=false"}), HasSubstr("set train.recompute"));
  EXPECT_THAT(fault_of(with("dtype: float32\n")), HasSubstr("set train.precision"));
  parse(with("model: {dtype: float32, torch_dtype: float32, gradient_checkpointing: false}"));
  parse(smallest, {"use_cache=false"});
}

// Regression: dropout became lora_dropout, and following the advice gave no dropout at all.
TEST(ConfigParse, DropoutWithoutAdaptersMeansTheModels) {
  const auto of_gpt2 = HasSubstr("set model.embd_pdrop, model.attn_pdrop and model.resid_pdrop");
  EXPECT_THAT(fault_of(smallest, {"dropout=0.1"}), of_gpt2);
  EXPECT_THAT(fault_of(smallest, {"lora.r=0", "dropout=0.1"}), of_gpt2);
  EXPECT_THAT(fault_of(with("dropout: 0.1\n")), of_gpt2);
  EXPECT_THAT(fault_of(with("lora: {lora_dropout: 0.1}\n")), of_gpt2);
  EXPECT_THAT(fault_of(smallest, {"model_type=llama", "dropout=0.1"}),
              HasSubstr("set model.attention_dropout"));
}

// Regression: the advice was the model's dropout, although adapters were asked for.
TEST(ConfigParse, DropoutBesideOtherKeysOfAdaptersLacksTheirRank) {
  const std::string fault = fault_of(with("lora: {lora_alpha: 16}\n"), {"dropout=0.05"});
  EXPECT_THAT(fault, HasSubstr("lora.lora_alpha is for adapters, but their rank, lora.r, is not set"));
  EXPECT_THAT(fault, Not(HasSubstr("pdrop")));
}

// Regression: "fp16: false" was answered with advice to train in fp16.
TEST(ConfigParse, KeysWithoutASectionAreAnsweredByTheirValue) {
  EXPECT_THAT(fault_of(with("fp16: false\n")), HasSubstr("set train.precision: fp32, bf16 or fp16"));
  EXPECT_THAT(fault_of(with("use_dora: false\n")), HasSubstr("Tidepool always does this"));
  EXPECT_THAT(fault_of(with("use_dora: true\n")), HasSubstr("only plain LoRA is trained"));
}

TEST(ConfigParse, WrongValuesNameTheKeyAndLine) {
  EXPECT_EQ(fault_of("data: {train: a}\nmemory:\n  host: 1GiB\n  device: 20\n"),
            "c.yaml:4: memory.device: '20' has no unit; write 20GiB (or MiB, KiB, GB, MB)");
  EXPECT_THAT(fault_of(with("train: {max_steps: abc}")),
              HasSubstr("train.max_steps: 'abc' is not a whole number"));
  EXPECT_THAT(fault_of(with("train: {gradient_accumulation_steps: 0}")),
              HasSubstr("it must be 1 to 1000000"));
  EXPECT_THAT(fault_of(with("train: {max_steps: -3}")), HasSubstr("'-3' is negative"));
  EXPECT_THAT(fault_of(with("train: {max_steps: 2.5}")), HasSubstr("is not a whole number"));
  EXPECT_THAT(fault_of(with("train: {max_steps: [1]}")),
              HasSubstr("must be one value (integer), not a list"));
  EXPECT_THAT(fault_of(with("train: {seed: }")), HasSubstr("has no value"));
  EXPECT_THAT(fault_of(with("train: {adam_beta1: 1.0}")), HasSubstr("at least 0 and below 1"));
  EXPECT_THAT(fault_of(with("train: {learning_rate: -1e-3}")), HasSubstr("out of range"));
  EXPECT_THAT(fault_of(with("train: {init_scale: 1e10}")),
              HasSubstr("train.init_scale: '1e10' is out of range; it must be at most 4294967296"));
  EXPECT_THAT(fault_of(with("train: {init_scale: 0.5}")), HasSubstr("it must be at least 1"));
  EXPECT_THAT(fault_of(with("train: {learning_rate: nan}")), HasSubstr("must be finite"));
  EXPECT_THAT(fault_of(with("train: {precision: bf61}")),
              HasSubstr("is not one of fp32, bf16, fp16; did you mean 'bf16'?"));
  EXPECT_THAT(fault_of(with("train: {lr_scheduler_type: cosin}")), HasSubstr("did you mean 'cosine'?"));
  EXPECT_THAT(fault_of(with("data: {}")), HasSubstr("c.yaml:3: 'data' is here for the second time"));
  EXPECT_THAT(fault_of(smallest, {"device=-1GiB"}), HasSubstr("'-1GiB' is negative"));
  EXPECT_THAT(fault_of(smallest, {"device=20G"}), HasSubstr("unknown unit 'G'"));
  EXPECT_THAT(fault_of(smallest, {"device=lots"}), HasSubstr("is not a size"));
}

TEST(ConfigParse, RefusesADuplicateKeyInASection) {
  EXPECT_THAT(fault_of(with("train:\n  seed: 1\n  seed: 2\n")),
              HasSubstr("c.yaml:5: 'seed' is here for the second"));
}

TEST(ConfigParse, RefusesTwoNamesOfAValueThatContradict) {
  EXPECT_THAT(fault_of(with("train:\n  block_size: 5\n  sequence_length: 6\n")),
              HasSubstr("c.yaml:5: train.sequence_length is 6 here, and 5 at c.yaml:4; keep one of them"));
  EXPECT_THAT(fault_of(with("output:\n  dir: a\n  output_dir: b\n")), HasSubstr("c.yaml:5: output."));
  const std::string llama = with("model:\n  model_type: llama\n");
  EXPECT_THAT(fault_of(llama + "  rope_theta: 5000\n  rope_parameters: {rope_theta: 7000}\n"),
              HasSubstr("c.yaml:6: model.rope_parameters.rope_theta is 7000 here, and 5000 at c.yaml:5"));
  EXPECT_THAT(fault_of(llama + "  rope_parameters: {rope_theta: 7000, rope_theta: 9000}\n"),
              HasSubstr("model.rope_parameters.rope_theta is 9000 here"));
  // Files of transformers have some values under two names.
  EXPECT_EQ(fault_of(llama + "  rope_theta: 7000\n  rope_parameters: {rope_theta: 7000}\n"), "no error");
  EXPECT_EQ(
      parse(with("train: {block_size: 5}\n"), {"block_size=6", "sequence_length=7"}).train.sequence_length,
      7u);
}

TEST(ConfigParse, RefusesASecondDocument) {
  EXPECT_THAT(fault_of(with("---\ntrain: {seed: 2}\n")), HasSubstr("c.yaml:4: a second document"));
  EXPECT_THAT(fault_of(with("...\ntrain: {seed: 2}\n")), HasSubstr("a second document"));
  EXPECT_EQ(fault_of("---\n" + with("...\n---\n")), "no error");
}

TEST(ConfigParse, KeysMustFitEachOther) {
  EXPECT_EQ(fault_of(with("model: {n_positions: 128}\ntrain:\n  sequence_length: 256\n")),
            "c.yaml:5: train.sequence_length: 256 is longer than model.n_positions 128; "
            "shorten the sequences or raise n_positions");
  EXPECT_THAT(fault_of(with("model: {n_embd: 100, n_head: 3}")),
              HasSubstr("c.yaml:3: model.n_head: 3 does not divide"));
  EXPECT_THAT(fault_of(with("train: {warmup_steps: 2.5}")), HasSubstr("neither a whole number"));
  EXPECT_THAT(fault_of(with("train: {precision: fp16, growth_factor: 1}")), HasSubstr("it must be above 1"));
  EXPECT_THAT(fault_of(with("train: {precision: fp16, backoff_factor: 1}")), HasSubstr("it must be below 1"));
  EXPECT_THAT(fault_of(with("train: {precision: fp16, init_scale: 64, min_loss_scale: 128}")),
              HasSubstr("128 is above train.init_scale 64"));
}

TEST(ConfigParse, NamesMissingRequiredKeys) {
  EXPECT_THAT(fault_of("memory: {device: 1GiB, host: 1GiB}"),
              HasSubstr("'train' is missing in section 'data'"));
  EXPECT_THAT(fault_of("data: {train: a}"),
              HasSubstr("'device' is missing in section 'memory'; add 'device: 2GiB'"));
  EXPECT_THAT(fault_of(""), HasSubstr("missing"));
  parse("", {"data.train=a", "device=1GiB", "host=1GiB"});
}

TEST(ConfigParse, TakesAHuggingFaceConfig) {
  const Config c =
      parse(with("model: {model_type: gpt2, n_ctx: 64, bos_token_id: 50256, activation_function: gelu_new,"
                 " task_specific_params: {a: {b: 1}}, vocab_size: 50257}\ntrain: {block_size: 64}"));
  EXPECT_EQ(c.model.positions, 64u);
  EXPECT_EQ(c.train.sequence_length, 64u);
  EXPECT_THAT(fault_of(with("model:\n  model_type: bert\n")),
              HasSubstr("c.yaml:4: model.model_type: 'bert' is not"));
  EXPECT_THAT(fault_of(with("model: {tie_word_embeddings: false}")), HasSubstr("tie_word_embeddings: true"));
}

TEST(ConfigParse, OverridesReplaceKeysOfTheFile) {
  const Config c =
      parse(smallest, {"learning_rate=2e-4", "data.train=[x, 'y z']", "output.dir=a:b", "threads=auto"});
  EXPECT_EQ(c.train.learning_rate, 2e-4);
  EXPECT_THAT(c.data.train, testing::ElementsAre("x", "y z"));
  EXPECT_EQ(c.output.dir, "a:b");
  EXPECT_EQ(c.machine.threads, 0u);
  EXPECT_THAT(
      fault_of(smallest, {"lerning_rate=1"}),
      HasSubstr(
          "override 'lerning_rate=1': unknown key 'lerning_rate'; did you mean 'train.learning_rate'?"));
  EXPECT_THAT(fault_of(smallest, {"learning_rate"}), HasSubstr("key=value"));
  EXPECT_THAT(fault_of(smallest, {"trian.seed=1"}), HasSubstr("did you mean 'train'?"));
}

// Regression: brackets were accepted.
TEST(ConfigParse, ListsInOverridesAreWrittenWithCommas) {
  const auto lora = [](const std::string& value) {
    return parse(smallest, {"lora.r=0", "lora.target_modules=" + value}).lora.target_modules;
  };
  EXPECT_THAT(lora("q_proj,v_proj"), testing::ElementsAre("q_proj", "v_proj"));
  EXPECT_THAT(lora("q_proj, v_proj"), testing::ElementsAre("q_proj", "v_proj"));
  EXPECT_THAT(lora("[q_proj, v_proj]"), testing::ElementsAre("q_proj", "v_proj"));
  EXPECT_THAT(lora("q_proj"), testing::ElementsAre("q_proj"));
  const auto train = [](const std::string& value) { return parse(smallest, {"train=" + value}).data.train; };
  EXPECT_THAT(train("a:b.txt,#c"), testing::ElementsAre("a:b.txt", "#c"));
  EXPECT_THAT(train("'a,b.txt'"), testing::ElementsAre("a,b.txt"));
  EXPECT_THAT(train("[{path: a, weight: 0.7}, {path: b, weight: 0.3}]"), testing::ElementsAre("a", "b"));
  EXPECT_THAT(fault_of(smallest, {"data.train=a,,b"}), HasSubstr("data.train: every item must be text"));
  EXPECT_EQ(parse(smallest, {"machine.executor=cuda:0,1"}).machine.executor, "cuda:0,1");
  EXPECT_THAT(parse("data: {train: 'a,b.txt'}\nmemory: {device: 1GiB, host: 2GiB}\n").data.train,
              testing::ElementsAre("a,b.txt"));
}

TEST(ConfigParse, BrokenYamlNamesTheLine) {
  EXPECT_THAT(fault_of("model:\n  a: [1\n"), HasSubstr("c.yaml:"));
  EXPECT_THAT(fault_of("- 1\n"), HasSubstr("map of sections"));
  EXPECT_THAT(fault_of("train: gpt2\n"), HasSubstr("section 'train' must hold keys"));
  EXPECT_THAT(fault_of("model: gpt2\n"), HasSubstr("c.yaml:1: model: 'gpt2' is not a directory"));
}

TEST(ConfigParse, NamesAMissingFile) {
  const auto config = load_config("/nonexistent/c.yaml", {});
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error().message, HasSubstr("/nonexistent/c.yaml: cannot open"));
  EXPECT_FALSE(load_config("/tmp", {}));
}

}  // namespace tidepool::parse_test
