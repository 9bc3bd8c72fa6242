// Reads and writes JSON files in tests.
#pragma once

#include <gtest/gtest.h>

#include <boost/json/value.hpp>
#include <string>

#include "base/json/text.h"
#include "base/read_file.h"

namespace tidepool {

inline boost::json::value json_of_file(const std::string& path) {
  const Result<std::string> text = read_small_file(path, gib, ErrorKind::bad_input);
  EXPECT_TRUE(text) << (text ? "" : text.error().message);
  const Result<boost::json::value> value = parse_json(*text, ErrorKind::bad_input, path);
  EXPECT_TRUE(value) << (value ? "" : value.error().message);
  return *value;
}

inline std::string string_of(const boost::json::value& value) {
  const boost::json::string& text = value.as_string();
  return std::string(text.data(), text.size());
}

}  // namespace tidepool
