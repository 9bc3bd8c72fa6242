// The page of documentation about families of models, made from their rows.
#pragma once

#include <string>

namespace tidepool {

// RETURNS: what trains, what it is made of, and which values of config.json are refused, as Markdown.
std::string families_markdown();

}  // namespace tidepool
