// Config of a text model within a wrapper's config.json (tidepool/model_wrappers.h).
#pragma once

#include <boost/json/fwd.hpp>
#include <string>
#include <string_view>

#include "base/result.h"
#include "tidepool/model_wrappers.h"

namespace tidepool {

inline constexpr const char* text_config_key = "text_config";

// RETURNS: the wrapper that the config names; null: it is no wrapper's.
const ModelWrapper* wrapper_of(const boost::json::object& config);
// The same for the text of a config.json; null also if it is no JSON object.
const ModelWrapper* wrapper_of(std::string_view config);
// The same for a model directory; null also if its config.json cannot be read.
const ModelWrapper* wrapper_of_directory(const std::string& directory);

// RETURNS: the config of the text model, as the text class of transformers has it; a config that is no
// wrapper's comes back unchanged. Keys that a wrapper may have beside `text_config`, such as
// tie_word_embeddings, dtype, ids of tokens and quantization_config, count where `text_config` has none.
// Names of modules in quantization_config become the text model's.
// Error: `error_kind`, if the wrapper lacks `text_config` or has another model in it.
Result<boost::json::object> text_config_of(boost::json::object config, ErrorKind error_kind,
                                           std::string_view file_name);
Result<std::string> text_config_of(std::string_view config, ErrorKind error_kind, std::string_view file_name);

// RETURNS: `config` with the keys of the text model set that differ between two configs of text models.
Result<std::string> with_text_changes(std::string_view config, std::string_view was, std::string_view now,
                                      std::string_view file_name);

}  // namespace tidepool
