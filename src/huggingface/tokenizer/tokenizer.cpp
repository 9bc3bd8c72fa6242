// Encodes a text in these steps: find added tokens that need no normalizing; normalize the text between them;
// find the other added tokens; pass the text between those through the pre-tokenizer's steps, piece by piece;
// encode the resulting words with the model.
#include "huggingface/tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <boost/json/value.hpp>
#include <mutex>

#include "base/check.h"
#include "base/json/text.h"
#include "base/read_file.h"
#include "base/text/utf8.h"
#include "huggingface/tokenizer/parse_parts.h"
#include "huggingface/tokenizer/walk.h"

namespace tidepool {

namespace {

constexpr u64 tokenizer_bytes_max = 1 * gib;
constexpr u64 part_bytes_max =
    1 * gib;  // positions in a word are 32 bits wide, and normalizing may lengthen it

Error bad(std::string text) { return {ErrorKind::bad_input, std::move(text)}; }

Result<void> check_utf8(std::string_view text) {
  Utf8Checker checker;
  auto wrong = checker.feed(std::as_bytes(std::span(text)));
  if (!wrong) wrong = checker.finish();
  if (!wrong) return {};
  return bad(fmt::format("the text is not UTF-8 at byte {} (0x{:02x}); convert it, for example with iconv",
                         *wrong, static_cast<u32>(static_cast<u8>(text[*wrong]))));
}

std::string why_not_normal(Normalized done, const NormalState& state) {
  if (done == Normalized::gave_up)
    return fmt::format("the pattern of {} takes too many steps on this text; cut it into shorter documents",
                       state.culprit);
  return fmt::format(
      "{} makes the text more than {} times as long: rules that lengthen each other's text "
      "are refused; fix the tokenizer",
      state.culprit, normal_growth_max);
}

}  // namespace

struct Tokenizer::Parts {
  explicit Parts(ParsedModel model, bool byte_level)
      : vocabulary(std::move(model.vocabulary)),
        bpe(vocabulary, model.merges, (model.options.byte_level = byte_level, std::move(model.options))) {}

  const Vocabulary vocabulary;
  const Bpe bpe;
  std::vector<AddedToken> added;
  std::vector<u32> added_of_id;  // index into `added`, or none
  StringIds added_ids;
  AddedTokenScan raw, normalized;  // searched before and after normalizing
  Normalizer normalizer;
  std::vector<std::unique_ptr<Splitter>> splitters;
  Frame frame;
  Decoder decoder;
  CutRule cuts;

  Result<void> take_added(std::vector<AddedToken>);
  const AddedToken* added_token(u32 id) const {
    return id < added_of_id.size() && added_of_id[id] != none ? &added[added_of_id[id]] : nullptr;
  }
  std::unique_ptr<EncodeState> borrow() const;
  void give_back(std::unique_ptr<EncodeState>) const;

 private:
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<EncodeState>> idle_;  // as many as ever encoded at the same time
};

std::unique_ptr<EncodeState> Tokenizer::Parts::borrow() const {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<EncodeState> state = std::move(idle_.back());
      idle_.pop_back();
      return state;
    }
  }
  auto state = std::make_unique<EncodeState>();
  state->split.resize(splitters.size());
  return state;
}

void Tokenizer::Parts::give_back(std::unique_ptr<EncodeState> state) const {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(state));
}

Tokenizer::Tokenizer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::~Tokenizer() = default;

Result<std::unique_ptr<Tokenizer>> Tokenizer::open(const std::string& tokenizer_json) {
  TRY_ASSIGN(const std::string text,
             read_small_file(tokenizer_json, tokenizer_bytes_max, ErrorKind::bad_input));
  return parse(text, tokenizer_json);
}

Result<void> Tokenizer::Parts::take_added(std::vector<AddedToken> tokens) {
  added = std::move(tokens);
  NormalState state;
  MatchState match;
  // Special tokens first: of two with the same normalized content, the first counts.
  for (const bool special : {true, false}) {
    for (AddedToken& token : added) {
      if (token.special != special) continue;
      NormalText content{.text = token.content};
      const Normalized done =
          token.normalized ? normalize(normalizer, content, state, match) : Normalized::yes;
      if (done != Normalized::yes)
        return bad(fmt::format("added token '{}': {}", token.content, why_not_normal(done, state)));
      if (content.text.empty())
        return bad(
            fmt::format("added token '{}': the normalizer leaves nothing of it; mark it as not normalized",
                        token.content));
      token.found_as = content.text;
      (token.normalized ? normalized : raw).add(token);
      cuts.consider(token, token.found_as);
      cuts.consider(token, token.content);
    }
  }
  for (u32 i = 0; i < added.size(); ++i) {
    if (added[i].id >= added_of_id.size()) added_of_id.resize(added[i].id + 1, none);
    added_of_id[added[i].id] = i;
    added_ids.add(added[i].content, added[i].id);
  }
  TRY(raw.prepare());
  return normalized.prepare();
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::parse(std::string_view text, const std::string& name) {
  TRY_ASSIGN(const boost::json::value value, parse_json(text, ErrorKind::bad_input, name));
  const JsonNode root(value, name, "");
  TRY(root.expect_keys({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                        "post_processor", "decoder", "model"}));
  TRY_ASSIGN(const std::string version, root.text_or("version", "1.0"));
  if (version != "1.0")
    return root.error_at(".version", fmt::format("'{}' is not supported; only 1.0 is", version));
  TRY_ASSIGN(const JsonNode model_node, root.member("model"));
  TRY_ASSIGN(ParsedModel model, parse_model(model_node));
  TRY_ASSIGN(const auto normalizer_node, root.find("normalizer"));
  TRY_ASSIGN(ParsedNormalizer normalizer, parse_normalizer(normalizer_node));
  TRY_ASSIGN(const auto pre_tokenizer_node, root.find("pre_tokenizer"));
  TRY_ASSIGN(ParsedPreTokenizer splits, parse_pre_tokenizer(pre_tokenizer_node));
  TRY_ASSIGN(const auto added_node, root.find("added_tokens"));
  TRY_ASSIGN(std::vector<AddedToken> added, parse_added_tokens(added_node, model.vocabulary));
  TRY_ASSIGN(const auto post_processor_node, root.find("post_processor"));
  TRY_ASSIGN(Frame frame, parse_post_processor(post_processor_node));
  TRY_ASSIGN(const auto decoder_node, root.find("decoder"));
  TRY_ASSIGN(Decoder decoder, parse_decoder(decoder_node));

  const bool affixes =
      !model.options.continuing_subword_prefix.empty() || !model.options.end_of_word_suffix.empty();
  if (splits.byte_level && affixes) {
    splits.steps.push_back(bytes_as_characters());
    splits.byte_level = false;
  }
  auto parts = std::make_unique<Parts>(std::move(model), splits.byte_level);
  parts->normalizer = std::move(normalizer.steps);
  parts->splitters = std::move(splits.steps);
  parts->frame = std::move(frame);
  parts->decoder = std::move(decoder);

  // A cut is safe if the pre-tokenizer always cuts between a letter and a space, or if spaces become ▁ and
  // the model cuts there.
  const bool by_splits = splits.harmless && splits.cuts_letter_space && normalizer.only_nfc;
  const bool by_model = splits.harmless && parts->bpe.cuts_at_low_line() &&
                        ((splits.low_line && normalizer.only_nfc) ||
                         (parts->splitters.empty() && normalizer.only_spaces && !parts->normalizer.empty()));
  if (!by_splits && !by_model) parts->cuts.forbid();
  if (!by_splits || splits.only_before_space) parts->cuts.only_before_space();
  if (!normalizer.only_nfc) parts->cuts.pieces_get_a_front();
  if (auto taken = parts->take_added(std::move(added)); !taken)
    return root.error_at(".added_tokens", taken.error().message);
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(parts)));
}

Result<void> Tokenizer::encode_part(const TextPart& part, Special special, std::vector<u32>& out,
                                    std::vector<TokenBytes>* places) const {
  const std::string_view text = part.text;
  if (text.size() > part_bytes_max)
    return bad(fmt::format("a text of {} bytes is too long to be encoded at once; cut it into documents",
                           text.size()));
  TRY(check_utf8(text));
  const Frame& frame = parts_->frame;
  std::unique_ptr<EncodeState> state = parts_->borrow();
  Walk walk(parts_->splitters, parts_->bpe, *state, text, out, places);
  if (special == Special::added && part.first) walk.frame(frame.before, 0);
  const auto token = [&](u32 id, std::string_view bytes) {
    walk.token(id, bytes);
    return true;
  };
  Normalized not_normal = Normalized::yes;
  const auto raw_piece = [&](std::string_view piece, bool at_begin) {
    NormalText normal{.text = piece, .first = at_begin && part.first, .continued = at_begin && !part.first};
    not_normal = normalize(parts_->normalizer, normal, state->normal, state->match);
    if (not_normal != Normalized::yes) return false;
    walk.begin(piece, normal.text);
    const auto normal_piece = [&](std::string_view inner, bool at_front) {
      return walk.pass({inner, normal.first && at_front});
    };
    return normal.text.empty() || parts_->normalized.scan(normal.text, state->match, normal_piece, token);
  };
  const bool whole = text.empty() || parts_->raw.scan(text, state->match, raw_piece, token);
  if (whole && special == Special::added && part.last) walk.frame(frame.behind, text.size());
  const std::string why_not = not_normal == Normalized::yes ? "" : why_not_normal(not_normal, state->normal);
  parts_->give_back(std::move(state));
  if (!why_not.empty()) return bad(why_not);
  if (walk.word_too_long)
    return bad(
        fmt::format("the text has a stretch of more than {} MiB that is one word to this tokenizer, "
                    "too much to merge in memory; cut the text into shorter documents",
                    word_bytes_max / mib));
  if (!whole)
    return bad("a pattern of the tokenizer takes too many steps on this text; cut it into shorter documents");
  return {};
}

size_t Tokenizer::cut(std::string_view text) const {
  return parts_->cuts.any() ? parts_->cuts.last_cut(text) : 0;
}
bool Tokenizer::can_cut() const { return parts_->cuts.any(); }

std::string Tokenizer::decode(std::span<const u32> ids, SkipSpecial skip) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const u32 id : ids) {
    const AddedToken* added = parts_->added_token(id);
    if ((!added && !parts_->vocabulary.has(id)) || (skip == SkipSpecial::yes && is_special(id))) continue;
    tokens.emplace_back(added ? std::string_view(added->found_as) : parts_->vocabulary.spelling(id));
  }
  if (parts_->decoder.empty()) return fmt::format("{}", fmt::join(tokens, " "));
  MatchState match;
  for (const auto& step : parts_->decoder) step->apply(tokens, match);
  return fmt::format("{}", fmt::join(tokens, ""));
}

std::optional<u32> Tokenizer::id_of(std::string_view token) const {
  u32 id = parts_->added_ids.find(token);
  if (id == none) id = parts_->vocabulary.find(token);
  return id == none ? std::nullopt : std::optional(id);
}

std::optional<u32> Tokenizer::added_id_of(std::string_view token) const {
  const u32 id = parts_->added_ids.find(token);
  return id == none ? std::nullopt : std::optional(id);
}

std::string_view Tokenizer::token(u32 id) const {
  const AddedToken* added = parts_->added_token(id);
  return added ? std::string_view(added->content) : parts_->vocabulary.spelling(id);
}

bool Tokenizer::is_special(u32 id) const {
  const AddedToken* added = parts_->added_token(id);
  return added && added->special;
}

u32 Tokenizer::vocab_size() const {
  return std::max(parts_->vocabulary.end_id(), static_cast<u32>(parts_->added_of_id.size()));
}

}  // namespace tidepool
