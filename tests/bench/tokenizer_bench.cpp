// Runs tokenizers for scripts/make_golden_tokenizers.py, which compares with Hugging Face's library.
//   tokenizer_bench ids TOKENIZER STRINGS        for each line, a JSON string: its ids, its text again, and
//                                                if cutting it anywhere gives the same ids
//   tokenizer_bench speed TOKENIZER STRINGS THREADS   seconds to encode them all, as one JSON object
#include "huggingface/tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <boost/json/value.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/json/text.h"
#include "base/read_file.h"
#include "tidepool/core_pool.h"

namespace tidepool {
namespace {

namespace json = boost::json;

template <class T>
T must(Result<T> result) {
  if (result) return std::move(result).value();
  fmt::print(stderr, "{}\n", result.error().message);
  std::exit(exit_code(result.error()));
}

void must(const Result<void>& result) {
  if (result) return;
  fmt::print(stderr, "{}\n", result.error().message);
  std::exit(exit_code(result.error()));
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

bool parts_agree(const Tokenizer& tokenizer, std::string_view text, const std::vector<u32>& whole) {
  std::vector<u32> ids;
  for (size_t at = tokenizer.cut(text); at > 0; at = tokenizer.cut(text.substr(0, at))) {
    ids.clear();
    must(tokenizer.encode_part({.text = text.substr(0, at), .first = true, .last = false}, Special::added,
                               ids));
    must(tokenizer.encode_part({.text = text.substr(at), .first = false, .last = true}, Special::added, ids));
    if (ids != whole) return false;
  }
  return true;
}

void print_ids(const Tokenizer& tokenizer, const std::string& file) {
  const std::string content = must(read_small_file(file, 4 * gib, ErrorKind::bad_input));
  std::vector<u32> ids;
  for (const std::string_view line : lines_of(content)) {
    const json::value string = must(parse_json(line, ErrorKind::bad_input, file));
    const std::string_view text(string.as_string().data(), string.as_string().size());
    ids.clear();
    must(tokenizer.encode(text, Special::added, ids));
    const std::string decoded = tokenizer.decode(ids, SkipSpecial::no);
    fmt::print("{}\n", json_text(json::object{{"ids", json::array(ids.begin(), ids.end())},
                                              {"decoded", decoded},
                                              {"parts", parts_agree(tokenizer, text, ids)}},
                                 JsonStyle::line));
  }
}

void measure(const Tokenizer& tokenizer, const std::string& file, u32 threads) {
  const std::string content = must(read_small_file(file, 4 * gib, ErrorKind::bad_input));
  std::vector<std::string> texts;
  u64 bytes = 0;
  for (const std::string_view line : lines_of(content)) {
    const json::value string = must(parse_json(line, ErrorKind::bad_input, file));
    texts.emplace_back(string.as_string().data(), string.as_string().size());
    bytes += texts.back().size();
  }
  const std::unique_ptr<CorePool> pool = must(create_core_pool(threads, Bytes{}));
  constexpr size_t texts_per_task = 50;
  std::vector<std::vector<std::vector<u32>>> ids(texts.size() / texts_per_task + 1);
  const auto begin = std::chrono::steady_clock::now();
  parallel_for(*pool, Priority::normal, static_cast<u32>(ids.size()), [&](u32 task, u32) {
    const size_t first = task * texts_per_task, end = std::min(first + texts_per_task, texts.size());
    ids[task].resize(end - first);
    for (size_t i = first; i < end; ++i)
      must(tokenizer.encode(texts[i], Special::added, ids[task][i - first]));
  });
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  u64 tokens = 0;
  for (const auto& task : ids) {
    for (const auto& text : task) tokens += text.size();
  }
  fmt::print("{{\"seconds\": {}, \"tokens\": {}, \"bytes\": {}}}\n", seconds, tokens, bytes);
}

}  // namespace
}  // namespace tidepool

int main(int count, char** words) {
  using namespace tidepool;
  const std::string command = count > 1 ? words[1] : "";
  const bool ids = command == "ids" && count == 4;
  if (!ids && !(command == "speed" && count == 5)) {
    fmt::print(stderr, "usage: tokenizer_bench ids TOKENIZER STRINGS | speed TOKENIZER STRINGS THREADS\n");
    return 2;
  }
  const std::unique_ptr<Tokenizer> tokenizer = must(Tokenizer::open(words[2]));
  if (ids) {
    print_ids(*tokenizer, words[3]);
  } else {
    measure(*tokenizer, words[3], static_cast<u32>(std::strtoul(words[4], nullptr, 10)));
  }
  return 0;
}
