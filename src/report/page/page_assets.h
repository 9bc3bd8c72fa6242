// The page's own files, embedded when building from src/report/page/html.
#pragma once

#include <string_view>

namespace tidepool {

extern const std::string_view page_template;  // @TITLE@ @STYLE@ @DATA@ @SCRIPT@ are to be replaced
extern const std::string_view page_style;
extern const std::string_view page_script;  // all scripts, in the order that CMake lists

}  // namespace tidepool
