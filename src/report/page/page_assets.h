// Declares the page's own files. The build embeds them from src/report/page/html.
#pragma once

#include <string_view>

namespace tidepool {

extern const std::string_view page_template;  // with the marks @TITLE@ @STYLE@ @DATA@ @SCRIPT@ to replace
extern const std::string_view page_style;
extern const std::string_view page_script;  // all scripts, in the order listed in CMake

}  // namespace tidepool
