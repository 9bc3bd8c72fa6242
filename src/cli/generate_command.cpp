#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "cli/command.h"
#include "inference/generate.h"
#include "report/print_text.h"

namespace tidepool {
namespace {

constexpr std::array options_of_generate = {
    Option{"prompt", "TEXT", "text to continue (a new line)"},
    Option{"chat", "", "the prompt is a user's message in a chat"},
    Option{"max-new-tokens", "N", "tokens to generate", "200"},
    Option{"temperature", "X", "below 1 safer, above 1 wilder, 0 greedy", "0.8"},
    Option{"top-k", "N", "choose among the N likeliest; 0 among all", "40"},
    Option{"seed", "N", "seed of the random choices", "42"},
    Option{"threads", "N", "worker threads; 0 one per core", "0"},
};

Result<void> generate(const GenerateRequest& request) {
  TRY(generate_text(request, [terminal = ::isatty(STDOUT_FILENO) == 1](std::string_view text) {
    // A terminal gets escaped text, as a model may print control characters. A file or pipe gets the exact
    // bytes.
    if (terminal)
      try_print_text(stdout, text);
    else
      std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }));
  std::fputc('\n', stdout);
  return {};
}

Result<void> run_generate(const Arguments& arguments) {
  const auto& words = arguments.positional();
  GenerateRequest out{.path = words[0], .overrides = {words.begin() + 1, words.end()}, .generate = {}};
  out.note = [](const std::string& line) { print_text(stderr, "{}\n", line); };
  for (const std::string& word : out.overrides)
    if (word.find('=') == std::string::npos)
      return usage_error(
          fmt::format("'{}' is not key=value; give text to continue as --prompt \"TEXT\"", word));
  if (arguments.has("prompt")) out.generate.prompt = arguments.text("prompt");
  out.generate.chat = arguments.has("chat");
  TRY_ASSIGN(out.generate.max_new_tokens, arguments.integer("max-new-tokens"));
  TRY_ASSIGN(out.generate.temperature, arguments.real("temperature"));
  TRY_ASSIGN(out.generate.top_k, arguments.count("top-k"));
  TRY_ASSIGN(out.seed, arguments.integer("seed"));
  TRY_ASSIGN(out.threads, arguments.count("threads", {.most = threads_max}));
  if (out.generate.temperature < 0)
    return usage_error(
        fmt::format("--temperature: {} is too small; at least 0", arguments.text("temperature")));
  if (out.generate.prompt.empty()) return usage_error("--prompt: must hold at least one character");
  return generate(out);
}

}  // namespace

constinit const Command generate_command = {
    .name = "generate",
    .words = "RUN_DIR|CHECKPOINT|MODEL_DIR [key=value ...]",
    .summary = "write text with a trained model",
    .options = options_of_generate,
    .least_words = 1,
    .run = run_generate,
    .more =
        "\nkey=value overrides the run's config, for example  memory.device=2GiB. A model\n"
        "directory has no run's config: give memory.device and memory.host.\n",
};

}  // namespace tidepool
