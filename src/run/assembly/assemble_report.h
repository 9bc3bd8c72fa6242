// assemble_report() builds the report of a run from plan, predictions and measurements.
#pragma once

#include <map>
#include <string>

#include "checkpoint/trainer_state.h"
#include "config/config.h"
#include "machine/gpu_sampler.h"
#include "probe/step/predict.h"
#include "report/run_report.h"
#include "run/outputs/run_meter.h"
#include "session/session.h"

namespace tidepool {

struct ReportParts {
  const std::string& command;
  Session& session;
  const RunMeter& meter;
  const Prediction& prediction;
  double peak_at_end = 0;  // measured after the last step; 0: not measured
  const TrainerState& state;
  u64 tokens = 0;  // trained by this process, with prompts, without padding
  u64 steps_per_epoch = 0;
  u64 resumed_from = 0;
  const std::string& stopped_early;
  u64 weights_xxh3 = 0;
  Bytes checkpoint_written{};
  Bytes disk_endurance{};  // 0: not stated
  std::vector<GpuReadings> gpus;
};

RunReport assemble_report(const ReportParts&);
std::string model_text(const ModelConfig&);  // "gpt2 24 x 2048"
void add_losses(RunReport&, const TrainerState&);

// RETURNS: the effective config as in config.yaml: {"train.learning_rate": "0.001"}.
std::map<std::string, std::string> effective_settings(const Config&);

// Settings that affect the numbers of a run, as in config.yaml: {"train.learning_rate": "0.001"}. For the
// executor only its kind.
std::map<std::string, std::string> numeric_settings(const Config&);

}  // namespace tidepool
