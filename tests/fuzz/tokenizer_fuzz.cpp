// Fuzzes tokenizer.json, or (if the first byte is below 6) text for a valid tokenizer. Accepted input must
// encode, decode, and give the same ids when cut.
#include <array>
#include <vector>

#include "base/check.h"
#include "huggingface/tokenizer/tokenizer.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/places.h"

namespace tidepool::fuzz {
namespace {

constexpr std::array<const char*, 6> styles = {"gpt2", "llama2", "mistral", "llama3", "qwen", "tekken"};

const Tokenizer& style(size_t i) {
  static std::array<std::unique_ptr<Tokenizer>, styles.size()> all;
  if (!all[i])
    all[i] = Tokenizer::open(source_file("tests/golden/tokenizers/") + styles[i] + ".json").value();
  return *all[i];
}

std::vector<u32> encoded(const Tokenizer& tokenizer, const TextPart& part) {
  std::vector<u32> ids;
  if (const Result<void> done = tokenizer.encode_part(part, Special::added, ids); !done)
    CHECK(done.error().kind == ErrorKind::bad_input && !done.error().message.empty());
  return ids;
}

void run(const Tokenizer& tokenizer, std::string_view text) {
  const size_t at = tokenizer.cut(text);
  CHECK(at == 0 || at < text.size(), at, text.size());
  const std::vector<u32> whole = encoded(tokenizer, {.text = text});
  (void)tokenizer.decode(whole, SkipSpecial::yes);
  std::vector<u32> unused;
  if (at == 0 || !tokenizer.encode(text, Special::none, unused)) return;
  std::vector<u32> parts = encoded(tokenizer, {.text = text.substr(0, at), .first = true, .last = false});
  const std::vector<u32> rest = encoded(tokenizer, {.text = text.substr(at), .first = false, .last = true});
  parts.insert(parts.end(), rest.begin(), rest.end());
  CHECK(parts == whole, at);
}

}  // namespace

void tokenizer(std::string_view input) {
  const size_t first = input.empty() ? styles.size() : static_cast<unsigned char>(input[0]);
  if (first < styles.size()) return run(style(first), input.substr(1));
  const auto parsed = Tokenizer::parse(input, "fuzz");
  if (!parsed) return check_refusal(parsed.error());
  for (const std::string_view text :
       {"", "a b", "Hello world's 123\n\n  x", "<s> \u2581\u00e9\u4e2d\U0001f600"})
    run(**parsed, text);
}

}  // namespace tidepool::fuzz
