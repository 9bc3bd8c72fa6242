// Files of the report's page, embedded at build time from src/report/page/html.
#pragma once

#include <string_view>

namespace tidepool {

extern const std::string_view page_template;  // marks to replace: @TITLE@ @STYLE@ @DATA@ @SCRIPT@
extern const std::string_view page_style;
extern const std::string_view page_script;  // all scripts, in the order listed in CMake

}  // namespace tidepool
