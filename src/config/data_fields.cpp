// Keys of section `data`.
#include <array>

#include "config/schema.h"

namespace tidepool {
namespace {

using Names = std::span<const std::string_view>;
constexpr std::array<std::string_view, 6> formats = {"auto", "text", "llmc", "nanogpt", "npy", "jsonl"};

// Turns a captureless lambda into a function pointer, so that the variant can tell its type.
#define REF(path) +[](Config& c) { return &c.path; }
#define CHOICE(path) +[](Config& c) { return ChoiceRef{reinterpret_cast<u8*>(&c.path)}; }

const std::array data_table = std::to_array<Field>({
    {.section = "data",
     .key = "train",
     .ref = REF(data.train),
     .help = "Files, directories (with all files below) or globs: UTF-8 text, JSONL (both also as .gz, "
             ".zst), llm.c, nanoGPT or .npy tokens; an entry may be {path, weight}",
     .required = true},
    {.section = "data",
     .key = "format",
     .ref = CHOICE(data.format),
     .help = "How to read the files; auto looks at the first bytes and the name",
     .choices = Names(formats)},
    {"data",
     "validation_fraction",
     REF(data.validation_fraction),
     "Share of the data that is held out for evaluation",
     "",
     {0, 0.9}},
    {.section = "data",
     .key = "validation",
     .ref = REF(data.validation),
     .help = "Files, directories or globs to evaluate on, whole; no share of train is held out then"},
    {"data", "shuffle", REF(data.shuffle), "Visit the sequences of each epoch in a seeded random order"},
    {.section = "data",
     .key = "weights",
     .ref = REF(data.weights),
     .help = "Documents only: a weight for each entry of train, its share of the sequences; if empty, all "
             "entries are one source"},
    {.section = "data",
     .key = "records",
     .ref = REF(data.records),
     .help = "Shape of the JSONL lines; auto looks at the first line of each source",
     .choices = Names(record_kinds)},
    {.section = "data",
     .key = "on_bad_record",
     .ref = REF(data.on_bad_record),
     .help = "Handling of unusable JSONL lines: error ends the run before its first step; skip leaves them "
             "out, counts them and names the first few",
     .choices = Names(bad_record_actions)},
    {.section = "data",
     .key = "tokenizer",
     .ref = REF(data.tokenizer),
     .help =
         "A tokenizer.json, or a directory that holds one; empty: the model directory's tokenizer, or, if "
         "it has none, one token per byte"},
    {.section = "data",
     .key = "chat_template",
     .ref = REF(data.chat_template),
     .help = "A Jinja file, or chatml; empty: the model directory's template"},
    {.section = "data",
     .key = "chat_template_arguments",
     .ref = REF(data.chat_template_arguments),
     .help = "Arguments of the chat template, each name=value, such as enable_thinking=false"},
    {.section = "data",
     .key = "loss",
     .ref = REF(data.loss),
     .help = "Part of chats and completions that has loss; plain text has loss everywhere",
     .choices = Names(loss_kinds)},
    {"data", "end_token", REF(data.end_token),
     "End texts and completions with the eos_token (or eos_token_id) beside the tokenizer"},
    {"data", "packing", REF(data.packing),
     "Put several documents into a sequence; attention stays within each (not with GPT-2)"},
    {.section = "data",
     .key = "cache",
     .ref = REF(data.cache),
     .help = "Directory of tokenized documents; empty: data-cache beside output.dir"},
});

#undef REF
#undef CHOICE

}  // namespace

std::span<const Field> data_fields() { return data_table; }

}  // namespace tidepool
