// DocumentEncoder turns documents into tokens, each marked as learned or not.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/documents/answer_tokens.h"
#include "data/documents/chat_template.h"
#include "data/documents/raw_documents.h"
#include "tidepool/model_config.h"
#include "tidepool/objective.h"

namespace tidepool {

struct EncoderSettings {
  LossOn loss = LossOn::answers;  // for chats; for completions, `everything` learns the prompt too
  std::optional<u32>
      end_token;  // added to texts and completions that do not end with it; chats end as their template says
  u32 vocab_size = 0;                 // of the model
  std::optional<ScoreHead> labelled;  // documents are texts with one of these labels
  u32 text_tokens_max = 0;            // a longer text with a label is cut there; 0: never
  UnitSettings units;
};

// Tokens of a document, of a part of one, or of a row that holds several. Behind the tokens of a text with a
// label stands the number of its label: what a document's last token predicts. Behind each sequence of a pair
// for a reward model stands label 0. Behind a text whose tokens have labels stands token 0: as everywhere,
// what a place predicts belongs to the token behind it.
struct EncodedDocument {
  std::vector<u32> tokens;
  std::vector<size_t>
      ends;  // of documents, ascending; tokens behind the last one belong to an unfinished one
  // Units only: by document a pair's margin, 1 or -1 for a judged answer, a rollout's advantage.
  std::vector<double> values;
  // Units only: by document the tokens of the prompt that its second sequence shares with the first; of a
  // rollout, that it shares with the rollout before it of the same group.
  std::vector<SharedPrompt> shared;
  // [tokens, UnitSettings::numbers]. Rollouts: the log-probability at which a token was sampled; NaN: not
  // known, or not sampled. Texts whose tokens have labels: that of the token before. Distributions: the
  // teacher's of the token.
  std::vector<float> numbers;
};

// RETURNS: the row of the score head for a label.
// Error: bad_input.
Result<u32> label_of(const Label&, const ScoreHead&);

class DocumentEncoder {
 public:
  // `chat` may be null: then chats are refused, and Alpaca records become plain text.
  // REQUIRES: `text` and `chat` outlive the encoder.
  DocumentEncoder(const TextEncoder& text, const ChatTemplate* chat, EncoderSettings settings)
      : text_(text), chat_(chat), settings_(settings) {}

  // THREADS: any, at any time.
  // Error: bad_input, naming the document's place.
  Result<EncodedDocument> encode(const RawDocument&, RecordShape) const;

 private:
  Result<void> encode_text(const RawDocument&, std::vector<u32>& out) const;
  Result<void> encode_record(const Record&, const RawDocument&, EncodedDocument& out) const;
  Result<void> encode_chat(const ChatRecord&, std::vector<u32>& out) const;
  Result<void> encode_behind_prompt(const std::string& prompt, const std::string& whole,
                                    std::vector<u32>& out) const;
  Result<void> encode_labelled(const LabelledRecord&, std::vector<u32>& out) const;
  Result<void> encode_tokens(const TokensRecord&, EncodedDocument& out) const;
  // token_labels.cpp has these.
  Result<void> encode_token_labels(const TokenLabelsRecord&, EncodedDocument& out) const;
  Result<void> encode_words(std::span<const std::string>, std::vector<u32>& ids,
                            std::vector<u32>& owners) const;
  // unit_documents.cpp has these.
  Result<void> encode_pair(const PreferenceRecord&, EncodedDocument& out) const;
  Result<void> encode_judged(const JudgedRecord&, const RawDocument&, EncodedDocument& out) const;
  Result<void> encode_rollouts(const RolloutsRecord&, EncodedDocument& out) const;
  Result<std::vector<u32>> encode_answer(const Answer&, std::string_view word) const;
  Result<std::vector<u32>> encode_whole_answer(const Answer&) const;
  Result<std::vector<u32>> encode_rollout(const Rollout&, size_t index) const;
  // Makes documents of other records whole sequences to be scored.
  Result<void> prepare_scoring(EncodedDocument&) const;
  Result<void> encode_completion(const std::string& prompt, const std::string& completion,
                                 std::vector<u32>& out) const;
  void add_end(std::vector<u32>& out, size_t document_begin) const;

  const TextEncoder& text_;
  const ChatTemplate* chat_;
  const EncoderSettings settings_;
};

}  // namespace tidepool
