// Keys of records to which tools for fine-tuning give a meaning, in one table: such a key is read, or it is
// refused by name, or it is known to change no result. Keys that no tool knows are the user's own.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <string>
#include <string_view>

#include "data/records/record.h"

namespace tidepool {

// Error: bad_input, if the record has a key that means something else than plain training on it. Values that
// say nothing are allowed: null, empty ones, a mask of zeros.
Result<void> check_known_keys(const boost::json::object&, RecordShape, const std::string& place);

// RETURNS: sentence about a record of another tool, such as preference data; empty: it is none that is known.
std::string_view about_foreign_record(const boost::json::object&);

// True if an unknown key has the form of a mask or of weights: a value for each of `tokens` tokens.
bool is_unknown_mask(std::string_view key, const boost::json::value&, size_t tokens);

}  // namespace tidepool
