#include "huggingface/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <array>

#include "base/check.h"
#include "huggingface/tokenizer/pattern.h"

namespace tidepool {

namespace {

struct Free {
  void operator()(pcre2_code* p) const { pcre2_code_free(p); }
  void operator()(pcre2_compile_context* p) const { pcre2_compile_context_free(p); }
  void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
  void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
  void operator()(pcre2_jit_stack* p) const { pcre2_jit_stack_free(p); }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

// Backtracking over a long run takes one stack frame per step; the patterns of known families need almost
// none.
constexpr size_t jit_stack_bytes_least = 32 * kib;
constexpr size_t jit_stack_bytes_most = 16 * mib;
constexpr u32 match_steps_max = 10'000'000;

}  // namespace

struct MatchState::Parts {
  Owned<pcre2_match_data> data;
  Owned<pcre2_jit_stack> stack;
  Owned<pcre2_match_context> context;
};

MatchState::MatchState() : parts_(std::make_unique<Parts>()) {
  parts_->data.reset(pcre2_match_data_create(1, nullptr));
  parts_->stack.reset(pcre2_jit_stack_create(jit_stack_bytes_least, jit_stack_bytes_most, nullptr));
  parts_->context.reset(pcre2_match_context_create(nullptr));
  CHECK(parts_->data && parts_->context);
  if (parts_->stack) pcre2_jit_stack_assign(parts_->context.get(), nullptr, parts_->stack.get());
  pcre2_set_match_limit(parts_->context.get(), match_steps_max);
  pcre2_set_depth_limit(parts_->context.get(), match_steps_max);
}

MatchState::~MatchState() = default;

struct Regex::Parts {
  Owned<pcre2_code> code;
  bool jit = false;
  bool looks_behind = false;
};

Regex::Regex(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

Result<Regex> Regex::compile(std::string_view pattern) {
  TRY_ASSIGN(const Pattern translated, translate_pattern(pattern));
  const Owned<pcre2_compile_context> context(pcre2_compile_context_create(nullptr));
  CHECK(context);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto parts = std::make_unique<Parts>();
  parts->looks_behind = translated.looks_behind;
  parts->code.reset(pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(translated.text.data()), translated.text.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &offset, context.get()));
  if (!parts->code) {
    std::array<PCRE2_UCHAR, 256> text{};
    pcre2_get_error_message(error, text.data(), text.size());
    return Error{ErrorKind::bad_input, fmt::format("the pattern does not compile: {}; it reads {}",
                                                   reinterpret_cast<const char*>(text.data()), pattern)};
  }
  // If the system forbids executable memory, PCRE2 interprets the pattern: slower, with the same matches.
  parts->jit = pcre2_jit_compile(parts->code.get(), PCRE2_JIT_COMPLETE) == 0;
  return Regex(std::move(parts));
}

Regex::Found Regex::find(std::string_view text, size_t from, MatchState& state, Match& match) const {
  pcre2_match_data* data = state.parts_->data.get();
  const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const int found = parts_->jit ? pcre2_jit_match(parts_->code.get(), subject, text.size(), from,
                                                  PCRE2_NO_UTF_CHECK, data, state.parts_->context.get())
                                : pcre2_match(parts_->code.get(), subject, text.size(), from,
                                              PCRE2_NO_UTF_CHECK, data, state.parts_->context.get());
  if (found == PCRE2_ERROR_NOMATCH) return Found::no;
  if (found < 0) return Found::gave_up;
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data);
  match = {.begin = ends[0], .end = ends[1]};
  return match.begin <= match.end ? Found::yes : Found::gave_up;
}

bool Regex::looks_behind() const { return parts_->looks_behind; }

}  // namespace tidepool
