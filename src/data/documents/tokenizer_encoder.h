// A tokenizer.json as text encoder.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "data/documents/text_encoder.h"
#include "data/documents/tokenizer_config.h"

namespace tidepool {

// What transformers would take otherwise than this does is refused. ErrorKind::bad_input naming the file and
// what to do: as Tokenizer::open; a token that the files beside it name and it has not, has only in its
// model, or has with another id. Where they contradict it on what stands around a text, encoding with
// Around::special is refused.
Result<std::unique_ptr<const TextEncoder>> open_tokenizer_encoder(const std::string& tokenizer_json,
                                                                  const TokenizerConfig& beside = {});

// A note where version 5 of transformers gives chats other ids, as it does for Llama 2's tokenizer: none
// where it does not, as far as is known.
std::optional<std::string> note_of_other_ids(const TextEncoder&, const std::string& tokenizer_json,
                                             const TokenizerConfig& beside);

}  // namespace tidepool
