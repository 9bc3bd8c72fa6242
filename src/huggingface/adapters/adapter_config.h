// adapter_config.json of an adapter's directory, as PEFT writes and reads it.
#pragma once

#include <string>

#include "base/result.h"
#include "huggingface/adapters/adapter_targets.h"
#include "huggingface/directory/hf_config.h"
#include "tidepool/lora.h"
#include "tidepool/model_graph.h"

namespace tidepool {

// REQUIRES: graph.lora.on().
std::string adapter_config_text(const ModelGraph& graph);

// The part of it that says what is added to the model, and where.
struct AdapterConfig {
  u32 r = 0;
  double alpha = 0;
  bool rslora = false;
  double scale = 0;             // alpha / r, or alpha / sqrt(r) with rslora
  double dropout = 0;           // in training
  bool fan_in_fan_out = false;  // the model's matrices are [in, out]; a known family tells better
  AdapterTargets targets;
  std::string base;  // directory of the model that it is for, as its maker wrote it; empty: not said
};

// Reads that of `directory`. Errors are `error_kind` and name the file; also for kinds of adapters and
// settings that are not plain LoRA.
Result<AdapterConfig> read_adapter_config(const std::string& directory, ErrorKind error_kind);

// Section `lora` of a run that starts from the adapter: all but `base`. Modules are those of
// target_modules by the last part of their names; empty, which is all of them, where a pattern names them.
LoraConfig lora_of_adapter(const AdapterConfig&, const std::string& directory);

}  // namespace tidepool
