// What fuzzers share. Each NAME_fuzz.cpp defines fuzz_NAME: any bytes, read as files of that kind are. What
// is refused must be refused in words; what is taken must be usable. A CHECK that fails, a sanitizer or a
// hang is a finding.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

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
void adapter(std::string_view);
void tokenizer_config(std::string_view);
void generation_config(std::string_view);
void manifest(std::string_view);
void trainer_state(std::string_view);
void packed(std::string_view);
void run_files(std::string_view);

// The message names the file ("fuzz...") and is more than that; the kind is one of those.
void check_refusal(const Error&, std::initializer_list<ErrorKind> = {ErrorKind::bad_input});

// A directory of this process, in memory where there is such a place; removed at the end.
const std::string& directory();
// A directory in it; returns its path.
std::string folder(const std::string& name);
// Writes a file in it; returns its path.
std::string file(const std::string& name, std::string_view content);
// The same, but where there is no content there is no file.
void file_if_any(const std::string& name, std::string_view content);

// One input as several files: cut at its first zero bytes; the last has all the rest, and those that are
// lacking are empty.
std::vector<std::string_view> parts(std::string_view input, size_t count);

}  // namespace tidepool::fuzz
