// Formats quantities for people: three significant digits, binary units for bytes.
#pragma once

#include <string>
#include <string_view>

#include "base/types.h"

namespace tidepool {

std::string bytes_text(Bytes);                               // "1.23 GiB", "512 B"
std::string count_text(double);                              // "1.31B", "12.3k", "42"
std::string counted_text(u64 count, std::string_view noun);  // "1 row", "2 rows"
// "1.23 ms", "4.56 s", "3m 20s", "2h 05m", "3d 07h", "1.2 years"; "-": not finite
std::string seconds_text(double);
// "37 days"; above 400 days "1.2 years". `decimals` is for days.
std::string days_text(double seconds, u32 decimals = 0);
std::string percent_text(double);  // a fraction as "41%", "0.4%"
std::string ratio_text(double);    // "1.02"; "-" if not finite
// Names the resources that bind: "disk_read binds"; for two, "compute and h2d bind".
std::string binds_text(std::string_view binds);
bool is_bound_by(std::string_view binds, std::string_view resource);  // one of them
// Non-finite values: "nan" (without the sign that a NaN may carry), "inf".
std::string loss_text(double);         // "3.2156"
std::string perplexity_text(double);   // "24.93", "1.2e+06"
std::string norm_text(double);         // as significant_text()
std::string significant_text(double);  // three significant digits: "0.0123", "5.50"; integers from 1000 on

}  // namespace tidepool
