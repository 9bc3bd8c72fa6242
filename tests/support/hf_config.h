// Reads config.json texts.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "huggingface/directory/hf_config.h"

namespace tidepool::test {

inline ModelConfig parsed_config(std::string_view json) {
  const auto model = parse_hf_config(json, ErrorKind::bad_input, "config.json");
  EXPECT_TRUE(model) << model.error().message;
  return model ? *model : ModelConfig();
}

// RETURNS: the message; "no error" if there is none.
inline std::string config_fault(std::string_view json) {
  const auto model = parse_hf_config(json, ErrorKind::bad_input, "config.json");
  return model ? "no error" : model.error().message;
}

}  // namespace tidepool::test
