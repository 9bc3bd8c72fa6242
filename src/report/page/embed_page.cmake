# Writes OUT, a C++ file that holds the page's files in FOLDER as strings. Scripts run in this order.
set(scripts dom.js theme.js model.js chart.js line_chart.js view.js timeline.js memory.js lives.js bars.js experts.js
    tables.js main.js)

# A literal that ends early would be a compile error far from its cause.
function(literal out text)
  string(FIND "${text}" ")page\"" at)
  if(NOT at EQUAL -1)
    message(FATAL_ERROR "the page holds )page\", which ends the string it is embedded in")
  endif()
  set(${out} "R\"page(${text})page\"" PARENT_SCOPE)
endfunction()

set(script "")
foreach(name ${scripts})
  file(READ ${FOLDER}/${name} text)
  string(APPEND script "${text}")
endforeach()
file(READ ${FOLDER}/page.html template)
file(READ ${FOLDER}/page.css style)
literal(template "${template}")
literal(style "${style}")
literal(script "(() => {\n'use strict';\n${script}})();\n")

file(WRITE ${OUT} "// Made from src/report/page/html when building.\n#include \"report/page/page_assets.h\"\n\nnamespace tidepool {\n")
file(APPEND ${OUT} "const std::string_view page_template = ${template};\n")
file(APPEND ${OUT} "const std::string_view page_style = ${style};\n")
file(APPEND ${OUT} "const std::string_view page_script = ${script};\n}  // namespace tidepool\n")
