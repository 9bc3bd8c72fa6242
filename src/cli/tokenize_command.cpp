#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/json/value.hpp>
#include <chrono>
#include <filesystem>

#include "base/json/text.h"
#include "base/read_file.h"
#include "base/text/nearest.h"
#include "base/text/path_text.h"
#include "base/text/units.h"
#include "cli/command.h"
#include "cli/config_words.h"
#include "cli/tokenize_config.h"
#include "data/files/find_files.h"
#include "data/files/source_files.h"
#include "data/tokenize/tokenize.h"
#include "report/print_text.h"
#include "report/status_line.h"
#include "run/outputs/signals.h"
#include "tidepool/core_pool.h"

namespace tidepool {

namespace {

constexpr std::array options_of_tokenize = {
    Option{"output", "FILE", "the token file to write (llm.c's format)"},
    Option{"documents", "file|line", "one document per file or per line", "file"},
    Option{"no-special", "", "leave out the special tokens around a text"},
    Option{"end", "TOKEN", "token to append to each document"},
    Option{"show", "N", "print N documents' tokens, write nothing", "0"},
    Option{"overwrite", "", "replace the output file"},
    Option{"threads", "N", "worker threads; 0 one per core", "0"},
};

struct TokenizeArguments {
  std::string tokenizer;            // tokenizer.json, or a directory that holds it
  std::vector<std::string> inputs;  // files, directories, globs
  std::string output;
  DocumentFormat documents = DocumentFormat::text;
  bool special = true;  // add the special tokens that the tokenizer puts around a text
  std::string end;      // a token to append to each document; empty: none
  u64 show = 0;         // if above 0, print the tokens of so many documents and write nothing
  bool overwrite = false;
  u32 threads = 0;  // 0: all cores of this process
};

namespace fs = std::filesystem;

constexpr StopWords tokenize_stop_words{.first = "\ntidepool: stopping; interrupt again to stop at once\n",
                                        .second = "\ntidepool: stopped at once; nothing was written\n"};
constexpr size_t shown_tokens_max = 400;

// RETURNS: the error for a missing `path`, with the nearest name beside it.
Error no_tokenizer(const fs::path& path) {
  std::vector<std::string> names;
  std::error_code failed;
  for (fs::directory_iterator at(path.has_parent_path() ? path.parent_path() : ".", failed), end;
       !failed && at != end; at.increment(failed))
    names.push_back(at->path().filename().string());
  std::ranges::sort(names);
  const std::vector<std::string_view> known(names.begin(), names.end());
  std::string advice = did_you_mean(path.filename().string(), known);
  if (advice.empty()) advice = "; name a tokenizer.json, or a model directory that holds one";
  return bad_input(fmt::format("{}: there is no such file{}", path.string(), advice));
}

Result<std::unique_ptr<Tokenizer>> open_tokenizer(const std::string& path) {
  std::error_code unused;
  const std::string file = fs::is_directory(path, unused) ? path + "/tokenizer.json" : path;
  if (!is_there(file)) return no_tokenizer(file);
  return Tokenizer::open(file);
}

// The files that are tokenized, and their size.
struct Input {
  std::vector<DocumentFile> files;
  u64 bytes = 0;
};

Result<Input> find_input(const TokenizeArguments& arguments) {
  TRY_ASSIGN(const std::vector<FoundFile> found, find_files(arguments.inputs, "the input"));
  Input out;
  for (const FoundFile& file : found) {
    if (is_jsonl(file.path))
      return usage_error(
          fmt::format("{}: holds records, not text; name the file in data.train of a config, and run  "
                      "tidepool tokenize CONFIG.yaml",
                      file.path));
    TRY_ASSIGN(const InputFile input, open_input(file.path, ErrorKind::bad_input));
    out.files.push_back({file.path, arguments.documents});
    out.bytes += input.bytes;
  }
  return out;
}

Result<std::optional<u32>> end_token(const TokenizeArguments& arguments, const Tokenizer& tokenizer) {
  if (arguments.end.empty()) return std::optional<u32>();
  const std::optional<u32> id = tokenizer.id_of(arguments.end);
  if (!id) return usage_error(fmt::format("--end {}: the tokenizer has no such token", arguments.end));
  return id;
}

// Prints tokens with their ids, "Ġworld" 995, as many per line as fit. On a terminal every other token is
// coloured.
void print_document(const Tokenizer& tokenizer, const std::string& where, const std::vector<u32>& ids) {
  const Screen screen = detect_screen(STDOUT_FILENO);
  std::vector<std::string> items;
  for (size_t i = 0; i < std::min(ids.size(), shown_tokens_max); ++i) {
    const Ink ink = tokenizer.is_special(ids[i]) ? Ink::magenta : i % 2 == 0 ? Ink::cyan : Ink::plain;
    const boost::json::value quoted(boost::json::string(tokenizer.token(ids[i])));
    items.push_back(paint(screen, ink, json_text(quoted, JsonStyle::line)) + fmt::format(" {}", ids[i]));
  }
  print_text("{}: {} tokens\n", where, ids.size());
  for (const std::string& line : wrap_items(items, "  ", 78, 0)) print_text("  {}\n", line);
  if (ids.size() > shown_tokens_max) print_text("  and {} more\n", ids.size() - shown_tokens_max);
}

Result<void> show(const Tokenizer& tokenizer, DocumentReader& source, const TokenizeOptions& options,
                  u64 count) {
  RawDocument part;
  std::vector<u32> ids;
  while (count > 0) {
    TRY_ASSIGN(const bool more, source.next(part));
    if (!more) break;
    if (auto done = tokenizer.encode_part({.text = part.content, .first = part.first, .last = part.last},
                                          options.special, ids);
        !done)
      return Error{done.error().kind, fmt::format("{}: {}", part.place, done.error().message)};
    if (!part.last) continue;
    if (options.end) ids.push_back(*options.end);
    print_document(tokenizer, part.place, ids);
    ids.clear();
    --count;
  }
  return {};
}

void show_progress(StatusLine& status, const TokenizeCounts& counts, double fraction, double seconds) {
  const std::string rate =
      bytes_text(Bytes{static_cast<u64>(static_cast<double>(counts.text_bytes) / std::max(seconds, 1e-3))});
  const std::string line =
      fmt::format("{} {:3.0f}%  {} tokens, {}/s, {} left", bar(status.screen(), fraction, 20, Ink::cyan),
                  100 * fraction, count_text(static_cast<double>(counts.tokens)), rate,
                  seconds_text(fraction > 0 ? seconds * (1 - fraction) / fraction : 0));
  status.show("tokenizing", line, "tokenizing");
}

void print_summary(const TokenizeCounts& counts, const TokenWriter& writer, const std::string& output,
                   double seconds) {
  const double bytes = static_cast<double>(counts.text_bytes), tokens = static_cast<double>(counts.tokens);
  print_text(" Documents        {}\n", counts.documents);
  print_text(" Tokens           {}\n", counts.tokens);
  print_text(" Text             {}, {:.3f} tokens per byte\n", bytes_text(Bytes{counts.text_bytes}),
             bytes > 0 ? tokens / bytes : 0);
  print_text(" Time             {}, {}/s\n", seconds_text(seconds),
             bytes_text(Bytes{static_cast<u64>(bytes / std::max(seconds, 1e-6))}));
  print_text(" File             {}, uint{} in the format of llm.c\n", output, 8 * writer.token_bytes());
}

Result<TokenizeCounts> run(const Tokenizer& tokenizer, DocumentReader& source, u64 bytes, TokenWriter& writer,
                           CorePool& pool, const TokenizeOptions& options) {
  StatusLine status;
  const auto begin = std::chrono::steady_clock::now();
  const TokenizeHooks hooks{.progress =
                                [&](const TokenizeCounts& counts, double fraction) {
                                  const std::chrono::duration<double> since =
                                      std::chrono::steady_clock::now() - begin;
                                  show_progress(status, counts, fraction, since.count());
                                },
                            .stop = [] { return StopSignals::stop_requested(); }};
  return tokenize(tokenizer, source, bytes, writer, pool, options, hooks);
}

// Checks that the output file may be replaced once the new one is complete: not a device, a link or an input.
Result<void> check_replaceable(const TokenizeArguments& arguments) {
  std::error_code unused;
  if (!fs::is_regular_file(fs::symlink_status(arguments.output, unused)))
    return usage_error(
        fmt::format("--output {}: is not a regular file; name another file", arguments.output));
  TRY_ASSIGN(std::vector<FoundFile> read, find_files(arguments.inputs, "the input"));
  read.push_back({arguments.tokenizer});
  for (const FoundFile& file : read)
    if (fs::equivalent(file.path, arguments.output, unused))
      return usage_error(
          fmt::format("--output {}: is one of the inputs; name another file", arguments.output));
  return {};
}

Result<void> tokenize(const TokenizeArguments& arguments) {
  TRY_ASSIGN(const std::unique_ptr<Tokenizer> tokenizer, open_tokenizer(arguments.tokenizer));
  TRY_ASSIGN(Input input, find_input(arguments));
  DocumentReader source(std::move(input.files),
                        {.cut = [&](std::string_view text) { return tokenizer->cut(text); },
                         .advice = arguments.documents == DocumentFormat::text
                                       ? "make each line a document (--documents=line), or split the file"
                                       : "split the file"});
  TokenizeOptions options{.special = arguments.special ? Special::added : Special::none};
  TRY_ASSIGN(options.end, end_token(arguments, *tokenizer));
  if (arguments.show > 0) return show(*tokenizer, source, options, arguments.show);

  if (is_named(arguments.output)) {
    if (!arguments.overwrite)
      return usage_error(fmt::format("--output {}: exists already; name another file, or give --overwrite",
                                     arguments.output));
    TRY(check_replaceable(arguments));
  }
  const auto begin = std::chrono::steady_clock::now();
  TRY_ASSIGN(const std::unique_ptr<CorePool> pool, create_core_pool(arguments.threads, Bytes{}));
  Result<TokenizeCounts> counts = TokenizeCounts{};
  {
    const StopSignals signals(tokenize_stop_words);
    TRY_ASSIGN(const std::unique_ptr<TokenWriter> writer,
               TokenWriter::create(arguments.output, tokenizer->vocab_size()));
    counts = run(*tokenizer, source, input.bytes, *writer, *pool, options);
    if (counts) TRY(writer->finish());
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    if (counts) print_summary(*counts, *writer, arguments.output, seconds.count());
  }
  if (!counts && StopSignals::signal_number() != 0)
    StopSignals::end_as_asked("tidepool: stopped; nothing was written\n");
  return counts ? Result<void>() : Result<void>(counts.error());
}

Result<void> run_tokenize(const Arguments& arguments) {
  const auto& words = arguments.positional();
  if (has_ending(words[0], ".yaml") || has_ending(words[0], ".yml")) {
    TRY_ASSIGN(const Config config, config_of(words));
    TRY_ASSIGN(const u64 show, arguments.integer("show"));
    if (!arguments.text("output").empty())
      return usage_error(
          "--output: a config's documents are tokenized into the cache that training reads, not into a token "
          "file; leave the option out");
    constexpr std::array<std::string_view, 1> options = {"show"};
    TRY(check_form(arguments, {.name = "tokenize CONFIG.yaml", .options = options}));
    return tokenize_config(config, show);
  }
  if (words.size() < 2)
    return usage_error("name the tokenizer and then the files to tokenize, or only a config");
  TokenizeArguments out{.tokenizer = words[0], .inputs = {words.begin() + 1, words.end()}};
  out.output = arguments.text("output");
  out.special = !arguments.has("no-special");
  out.end = arguments.text("end");
  out.overwrite = arguments.has("overwrite");
  const std::string documents = arguments.text("documents");
  if (documents != "file" && documents != "line")
    return usage_error(fmt::format("--documents: '{}' is neither file nor line", documents));
  if (documents == "line") out.documents = DocumentFormat::lines;
  TRY_ASSIGN(out.show, arguments.integer("show"));
  TRY_ASSIGN(out.threads, arguments.count("threads", {.most = threads_max}));
  if (out.show == 0 && out.output.empty())
    return usage_error("--output: name the file to write, for example --output=tokens.bin");
  return tokenize(out);
}

}  // namespace

constinit const Command tokenize_command = {
    .name = "tokenize",
    .words = "TOKENIZER FILE ... | CONFIG.yaml [key=value ...]",
    .summary = "tokenize text into a token file, or a config's documents",
    .options = options_of_tokenize,
    .least_words = 1,
    .run = run_tokenize,
    .more =
        "\nTOKENIZER is a tokenizer.json, or a model directory that holds one. FILE may be\n"
        "a directory, with all files in it. docs/tokenizer.md says what is supported.\n"
        "With a config, its documents are tokenized into the cache that training reads;\n"
        "--show prints them instead, and marks the text with loss (docs/data.md).\n",
};

}  // namespace tidepool
