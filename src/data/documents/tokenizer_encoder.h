// Makes a text encoder from a tokenizer.json.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "data/documents/text_encoder.h"
#include "data/documents/tokenizer_config.h"

namespace tidepool {

// Refuses files that transformers would interpret differently. If the files beside tokenizer.json contradict
// it about the ids around a text, only encoding with Around::special is refused.
// Error: bad_input, naming the file and what to do: as Tokenizer::open(); also for a token of the files
// beside it that tokenizer.json lacks, has only in its model, or has with another id.
Result<std::unique_ptr<const TextEncoder>> open_tokenizer_encoder(const std::string& tokenizer_json,
                                                                  const TokenizerConfig& beside = {});

// Note if version 5 of transformers gives other ids for chats, as it does for Llama 2's tokenizer; none if no
// difference is known.
std::optional<std::string> note_of_other_ids(const TextEncoder&, const std::string& tokenizer_json,
                                             const TokenizerConfig& beside);

}  // namespace tidepool
