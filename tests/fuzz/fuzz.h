// Shared parts of the fuzzers. Each NAME_fuzz.cpp defines fuzz_NAME, which reads any bytes as files of its
// kind. Refusals must have a message; accepted input must be usable. A failed CHECK, a sanitizer report or a
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
void quantization(std::string_view);
void run_files(std::string_view);

// Checks that the message names the file ("fuzz...") and says more, and that the kind is one of those given.
void check_refusal(const Error&, std::initializer_list<ErrorKind> = {ErrorKind::bad_input});

// RETURNS: a directory of this process, in memory if possible; removed at the end.
const std::string& directory();
// RETURNS: the path of a directory in it.
std::string folder(const std::string& name);
// Writes a file in it.
// RETURNS: the file's path.
std::string file(const std::string& name, std::string_view content);
// The same, but empty content makes no file.
void file_if_any(const std::string& name, std::string_view content);

// Splits one input into several files at its first zero bytes; the last file has the rest, and missing files
// are empty.
std::vector<std::string_view> parts(std::string_view input, size_t count);

}  // namespace tidepool::fuzz
