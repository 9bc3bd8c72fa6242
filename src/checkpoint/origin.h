// Origin is the model directory that a run began from, if it holds more than the run trains: a wrapper's
// other parts, or tensors that the model does not use. `tidepool export` carries them into the model that it
// writes.
#pragma once

#include <boost/json/fwd.hpp>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"

namespace tidepool {

struct Origin {
  std::string directory;    // absolute path
  std::string fingerprint;  // weights_fingerprint() of the directory
  bool operator==(const Origin&) const = default;
};

// `unused`: the directory's tensors that the model does not use.
// RETURNS: none if the directory holds only the model. A checkpoint has the origin of its own run.
// Error: of reading the weights, or the checkpoint's manifest.
Result<std::optional<Origin>> origin_of(const std::string& directory, std::span<const std::string> unused);

// Checks that a directory still holds the model of an origin.
// Error: usage, saying what to do.
Result<void> check_origin(const Origin&, const std::string& directory);

inline constexpr const char* origin_key = "origin";
boost::json::value origin_json(const Origin&);
// RETURNS: none if the value is no origin.
std::optional<Origin> parse_origin(const boost::json::value&);

}  // namespace tidepool
