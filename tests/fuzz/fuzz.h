// What fuzzers share. Each NAME_fuzz.cpp defines fuzz_NAME: any bytes, read as files of that kind are. What is refused
// must be refused in words; what is taken must be usable. A CHECK that fails, a sanitizer or a hang is a finding.
#pragma once

#include <string>
#include <string_view>

#include "tidepool/result.h"

namespace tidepool::fuzz {

void safetensors(std::string_view);
void index(std::string_view);
void hf_config(std::string_view);
void tokenizer(std::string_view);
void records(std::string_view);
void template_(std::string_view);
void config(std::string_view);
void npy(std::string_view);
void token_cache(std::string_view);
void machine(std::string_view);

// The message names the file ("fuzz...") and is more than that; the kind is one of those.
void check_refusal(const Error&, std::initializer_list<ErrorKind> = {ErrorKind::bad_input});

// A directory of this process, in memory where there is such a place; removed at the end.
const std::string& directory();
// Writes a file in it; returns its path.
std::string file(const std::string& name, std::string_view content);

}  // namespace tidepool::fuzz
