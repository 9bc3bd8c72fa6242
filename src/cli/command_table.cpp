// From words to the arguments of each command.
#include "cli/command_table.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>

#include "base/text/value_text.h"
#include "cli/bench_command.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/plan_arguments.h"
#include "cli/tokenize_config.h"
#include "config/read/load_config.h"
#include "config/schema.h"
#include "fit/executor_choice.h"
#include "report/print_text.h"

namespace tidepool {

namespace {

void print(std::string_view text) { print_text("{}", text); }  // throws where nothing can be written

// CONFIG.yaml [key=value ...]
Result<Config> config_of(const std::vector<std::string>& words, KeptModel kept = KeptModel::unread) {
  if (words.empty() || words[0].find('=') != std::string::npos) {
    return usage_error("the first word must be a config file, for example configs/quickstart.yaml");
  }
  for (size_t i = 1; i < words.size(); ++i) {
    if (words[i].find('=') == std::string::npos) {
      return usage_error(fmt::format("'{}' is not an override; write key=value after the config", words[i]));
    }
    // As "machine=$FILE" gives where FILE is not set: never a plan by bytes that passes for one by time.
    if (words[i] == "machine=" || words[i] == "machine.file=")
      return usage_error(
          fmt::format("{} names no file; name one, or write machine.file='\"\"' to plan without", words[i]));
  }
  return load_config(words[0], {words.begin() + 1, words.end()}, kept);
}

std::string joined(std::string_view command, const Arguments& arguments) {
  std::string out = fmt::format("tidepool {}", command);
  for (const std::string& word : arguments.positional()) out += ' ' + word;
  return out;
}

constexpr std::array train_command_options = {
    Option{"resume", "auto|PATH", "continue from the newest good checkpoint, or this one"},
    Option{"help-config", "", "list all config keys"},
};
Result<void> run_train(const Arguments& arguments) {
  if (arguments.has("help-config")) {
    print(config_help());
    return {};
  }
  const KeptModel kept = arguments.has("resume") ? KeptModel::read : KeptModel::unread;
  TRY_ASSIGN(const Config config, config_of(arguments.positional(), kept));
  // An empty variable in a script must not begin anew.
  if (arguments.has("resume") && arguments.text("resume").empty())
    return usage_error("--resume: write --resume auto, or the path of a checkpoint");
  return train({.config = config, .resume = arguments.text("resume"), .command = joined("train", arguments)});
}

constexpr std::array plan_command_options = {
    Option{"text", "", "the whole plan, one line an operation"},
    Option{"explain", "op:N|chunk:N", "why operation N is there; the life of chunk N"},
    Option{"segment", "NAME", "segment of --explain (body)"},
    Option{"gantt", "", "the lanes of a step over time"},
    Option{"what-if", "", "what more of each resource would buy"},
    Option{"max", "", "the largest model of GPT-3's proportions that fits"},
    Option{"json", "", "for other programs; also where nothing fits"},
};
// tokens=N belongs to the command, not to the config.
Result<void> run_plan(const Arguments& arguments) {
  PlanArguments out{.text = arguments.has("text"),
                    .explain = arguments.text("explain"),
                    .segment = arguments.text("segment"),
                    .json = arguments.has("json"),
                    .gantt = arguments.has("gantt"),
                    .what_if = arguments.has("what-if"),
                    .largest = arguments.has("max")};
  std::vector<std::string> words;
  for (const std::string& word : arguments.positional()) {
    if (word.starts_with("tokens=")) {
      const auto tokens = parse_count(word.substr(7));
      if (!tokens)
        return usage_error(
            fmt::format("{}: {}; write for example tokens=300B", word, tokens.error().message));
      if (*tokens == 0)
        return usage_error(fmt::format("{}: at least 1; write for example tokens=300B", word));
      out.tokens = *tokens;
    } else {
      words.push_back(word);
    }
  }
  if (arguments.has("explain") && out.explain.empty())
    return usage_error("--explain: write op:N or chunk:N, for example --explain op:0");
  TRY_ASSIGN(out.config, config_of(words));
  TRY(check_plan_arguments(out));
  return plan(out);
}

constexpr std::array probe_command_options = {
    Option{"output", "FILE", "the machine file to write", "machine.yaml"},
    Option{"disk", "DIR", "where to measure the disk", "."},
    Option{"no-disk", "", "leave the disk out"},
    Option{"device", "DEVICE", "auto, cpu, cuda or cuda:I", "auto"},
    Option{"seconds", "N", "how long to measure, about", "40"},
    Option{"threads", "N", "worker threads; 0 one per core", "0"},
    Option{"json", "", "one JSON object, with every sample, not a table"},
};

Result<void> run_probe(const Arguments& arguments) {
  if (!arguments.positional().empty())
    return usage_error(fmt::format("'{}': probe takes options only", arguments.positional()[0]));
  ProbeArguments out{.output = arguments.text("output"), .json = arguments.has("json")};
  out.disk_dir = arguments.has("no-disk") ? "" : arguments.text("disk");
  out.device = arguments.text("device");
  TRY_ASSIGN(out.seconds, arguments.real("seconds"));
  TRY_ASSIGN(const u64 threads, arguments.integer("threads"));
  if (!(out.seconds >= 1 && out.seconds <= 3600)) return usage_error("--seconds: must be 1 to 3600");
  if (threads > 4096) return usage_error("--threads is too large");
  if (out.disk_dir.empty() && !arguments.has("no-disk")) return usage_error("--disk: name a directory");
  out.threads = static_cast<u32>(threads);
  return probe(out);
}

constexpr std::array generate_command_options = {
    Option{"prompt", "TEXT", "text to go on from (a new line)"},
    Option{"chat", "", "the prompt is a user's message in a chat"},
    Option{"max-new-tokens", "N", "tokens to make", "200"},
    Option{"temperature", "X", "below 1 safer, above 1 wilder, 0 greedy", "0.8"},
    Option{"top-k", "N", "choose among the N likeliest; 0 among all", "40"},
    Option{"seed", "N", "seeds the choices", "42"},
    Option{"threads", "N", "worker threads; 0 one per core", "0"},
};
Result<void> run_generate(const Arguments& arguments) {
  const auto& words = arguments.positional();
  GenerateArguments out{.path = words[0], .overrides = {words.begin() + 1, words.end()}, .generate = {}};
  for (const std::string& word : out.overrides)
    if (word.find('=') == std::string::npos)
      return usage_error(fmt::format("'{}' is not key=value; text to go on from is --prompt \"TEXT\"", word));
  if (arguments.has("prompt")) out.generate.prompt = arguments.text("prompt");
  out.generate.chat = arguments.has("chat");
  TRY_ASSIGN(out.generate.max_new_tokens, arguments.integer("max-new-tokens"));
  TRY_ASSIGN(out.generate.temperature, arguments.real("temperature"));
  TRY_ASSIGN(const u64 top_k, arguments.integer("top-k"));
  TRY_ASSIGN(out.seed, arguments.integer("seed"));
  TRY_ASSIGN(const u64 threads, arguments.integer("threads"));
  if (out.generate.temperature < 0) return usage_error("--temperature: must be at least 0");
  if (out.generate.prompt.empty()) return usage_error("--prompt: must hold at least one character");
  if (top_k > none || threads > 4096) return usage_error("--top-k or --threads is too large");
  out.generate.top_k = static_cast<u32>(top_k);
  out.threads = static_cast<u32>(threads);
  return generate(out);
}

constexpr std::array export_command_options = {
    Option{"dtype", "fp32|bf16|fp16", "type of the weights; without, as they are"},
    Option{"max-shard-size", "SIZE", "of a file of weights", "5GB"},
    Option{"base", "DIR", "model that adapters are merged into"},
};
Result<void> run_export(const Arguments& arguments) {
  const auto& words = arguments.positional();
  if (words.size() != 2) return usage_error("export takes SOURCE and OUT, and nothing more");
  ExportArguments out{.source = words[0], .out = words[1]};
  if (out.out.empty()) return usage_error("OUT: name a directory");
  if (arguments.has("dtype")) {
    const std::string dtype = arguments.text("dtype");
    for (u32 p = 0; p < precision_count; ++p)
      if (name(static_cast<Precision>(p)) == dtype) out.dtype = static_cast<Precision>(p);
    if (!out.dtype) return usage_error(fmt::format("--dtype: '{}' is none of fp32, bf16, fp16", dtype));
  }
  if (arguments.has("base")) out.base = arguments.text("base");
  TRY_ASSIGN(out.max_shard_size, arguments.size("max-shard-size"));
  if (out.max_shard_size.value == 0) return usage_error("--max-shard-size: must be above 0");
  return export_model(out);
}

constexpr std::array eval_command_options = {
    Option{"json", "", "one JSON object, for other programs"},
};
// data=FILE belongs to the command: what to evaluate on, whatever the config names.
Result<void> run_eval(const Arguments& arguments) {
  const auto& words = arguments.positional();
  EvalArguments out{.source = words[0], .overrides = {}, .data = {}, .json = arguments.has("json")};
  for (size_t i = 1; i < words.size(); ++i) {
    if (words[i].find('=') == std::string::npos)
      return usage_error(fmt::format("'{}' is neither data=FILE nor key=value", words[i]));
    if (words[i] == "data=") return usage_error("data= names no file");
    if (words[i].starts_with("data=")) {
      out.data.push_back(words[i].substr(5));
    } else {
      out.overrides.push_back(words[i]);
    }
  }
  return eval(out);
}

constexpr std::array tokenize_command_options = {
    Option{"output", "FILE", "the token file to write (llm.c's format)"},
    Option{"documents", "file|line", "what is a document", "file"},
    Option{"no-special", "", "without what the tokenizer puts around a text"},
    Option{"end", "TOKEN", "a token to put behind each document"},
    Option{"show", "N", "print N documents' tokens, write nothing", "0"},
    Option{"overwrite", "", "replace the output file"},
    Option{"threads", "N", "worker threads; 0 one per core", "0"},
};
Result<void> run_tokenize(const Arguments& arguments) {
  const auto& words = arguments.positional();
  if (words[0].ends_with(".yaml") || words[0].ends_with(".yml")) {
    TRY_ASSIGN(const Config config, config_of(words));
    TRY_ASSIGN(const u64 show, arguments.integer("show"));
    if (!arguments.text("output").empty())
      return usage_error(
          "--output: of a config's documents no token file is made, but the cache that training finds; leave "
          "the option out");
    return tokenize_config(config, show);
  }
  if (words.size() < 2)
    return usage_error("name the files to tokenize behind the tokenizer, or a config alone");
  TokenizeArguments out{.tokenizer = words[0], .inputs = {words.begin() + 1, words.end()}};
  out.output = arguments.text("output");
  out.special = !arguments.has("no-special");
  out.end = arguments.text("end");
  out.overwrite = arguments.has("overwrite");
  const std::string documents = arguments.text("documents");
  if (documents != "file" && documents != "line") return usage_error("--documents: must be file or line");
  if (documents == "line") out.documents = TextDocuments::line;
  TRY_ASSIGN(out.show, arguments.integer("show"));
  TRY_ASSIGN(const u64 threads, arguments.integer("threads"));
  if (threads > 4096) return usage_error("--threads is too large");
  if (out.show == 0 && out.output.empty())
    return usage_error("--output: name the file to write, for example --output=tokens.bin");
  out.threads = static_cast<u32>(threads);
  return tokenize(out);
}

constexpr std::array report_command_options = {
    Option{"html", "FILE", "where the page goes, else into the run directory"},
};
Result<void> run_report(const Arguments& arguments) {
  const auto& words = arguments.positional();
  if (words.size() > 2) return usage_error("at most two run directories stand beside each other");
  if (arguments.has("html") && arguments.text("html").empty()) return usage_error("--html: name a file");
  return report({.run_dirs = words, .html = arguments.text("html")});
}

constexpr std::array doctor_command_options = {
    Option{"dir", "DIR", "where the swap file would be", "."},
};
Result<void> run_doctor(const Arguments& arguments) {
  if (arguments.positional().empty()) return doctor({.swap_dir = arguments.text("dir")});
  TRY_ASSIGN(Config config, config_of(arguments.positional()));
  static_cast<void>(resolve_executor(config));  // why it cannot be used is found below
  return doctor({.swap_dir = swap_directory(config),
                 .executor = config.machine.executor,
                 .gpus = config.machine.gpus(),
                 .precision = config.train.precision,
                 .config = std::move(config)});
}

constexpr std::array config_command_options = {
    Option{"markdown", "", "all keys as a page of documentation"},
};
Result<void> run_config(const Arguments& arguments) {
  if (arguments.has("markdown")) {
    print(config_markdown());
  } else if (arguments.positional().empty()) {
    print(config_help());
  } else {
    TRY_ASSIGN(const Config config, config_of(arguments.positional()));
    print(to_yaml(config));
  }
  return {};
}

Result<void> run_completion(const Arguments&) {
  print(bash_completion());
  return {};
}

constexpr std::string_view config_words = "CONFIG.yaml [key=value ...]";
constexpr std::string_view override_help =
    "\nkey=value overrides the config, for example  learning_rate=1e-4  or\n"
    "memory.device=2GiB. The section may be left out where the key is unique.\n"
    "'tidepool config' lists all keys.\n";

const std::array command_table = std::to_array<Command>({
    {"train", config_words, "train; Ctrl-C saves a checkpoint and stops", train_command_options, 0, run_train,
     override_help},
    {"plan", "CONFIG.yaml [machine=FILE] [tokens=300B] [key=value ...]",
     "what training would do, without doing it", plan_command_options, 1, run_plan, override_help},
    {"probe", "", "measure this machine, write a machine file", probe_command_options, 0, run_probe,
     "\nTakes under a minute. Other work that runs meanwhile shows in the rates, and in\n"
     "their spread. docs/machine-files.md explains the file.\n"},
    {"tokenize", "TOKENIZER FILE ... | CONFIG.yaml [key=value ...]",
     "text to a token file, or a config's documents", tokenize_command_options, 1, run_tokenize,
     "\nTOKENIZER is a tokenizer.json, or a model directory that holds one. FILE may be\n"
     "a directory, with everything in it. docs/tokenizer.md says what is supported.\n"
     "With a config its documents are tokenized into the cache that training finds,\n"
     "or with --show printed with what of them is learned (docs/data.md).\n"},
    {"generate", "RUN_DIR|CHECKPOINT|MODEL_DIR [key=value ...]", "write text with a trained model",
     generate_command_options, 1, run_generate,
     "\nkey=value overrides the run's config, for example  memory.device=2GiB. A model\n"
     "directory has none: there memory.device and memory.host must be given.\n"},
    {"export", "SOURCE OUT", "a model directory for every tool, of a run or a checkpoint",
     export_command_options, 2, run_export,
     "\nSOURCE is a run (its newest good checkpoint), a checkpoint, any model directory,\n"
     "or an adapter's, which is merged into its model. OUT must not be there yet; it\n"
     "appears whole or not at all.\n"},
    {"eval", "SOURCE [data=FILE ...] [key=value ...]", "loss and perplexity on held-out data",
     eval_command_options, 1, run_eval,
     "\nSOURCE is a run directory (its newest checkpoint), a checkpoint, a model\n"
     "directory, or a config (the run in its output.dir, else the model directory\n"
     "that it names).\n"
     "All held-out data is taken, or data=FILE, which may be given several times;\n"
     "train.eval_batches=N limits it. key=value overrides the run's config.\n"},
    {"report", "RUN_DIR [RUN_DIR]", "the report of a run again, or of two side by side",
     report_command_options, 1, run_report},
    {"doctor", "[CONFIG.yaml [key=value ...]]", "what this machine lacks or limits, and the fix",
     doctor_command_options, 0, run_doctor},
    {"bench", "adam|attention|copy|disk|gemm", "one part against its limit", bench_options(), 1, run_bench},
    {"config", "[CONFIG.yaml [key=value ...]]", "all config keys, or the effective config",
     config_command_options, 0, run_config},
    {"completion",
     "",
     "a completion script for bash",
     {},
     0,
     run_completion,
     "\nUse it with  source <(tidepool completion)\n"},
});

}  // namespace

std::span<const Command> commands() { return command_table; }

}  // namespace tidepool
