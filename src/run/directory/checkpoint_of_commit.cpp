#include "run/directory/checkpoint_of_commit.h"

#include "executor/shared/executor_common.h"
#include "fit/memory_need.h"
#include "run/weights/kept_model.h"
#include "session/committed_reader.h"

namespace tidepool {

Result<SavedCheckpoint> make_checkpoint_of(const CommittedRun& run, const Job& job) {
  const Config& config = job.config;
  CheckpointOptions options{.run_dir = config.output.dir,
                            .buffer = checkpoint_buffer,
                            .max_shard_size = config.output.max_shard_size,
                            .source_config = {},
                            .carried = {}};
  TRY_ASSIGN(options.carried, files_for_checkpoints(config));
  TRY_ASSIGN(options.source_config, kept_model_config(config));
  TRY_ASSIGN(const auto store, CheckpointStore::create(options, job.graph));
  TRY_ASSIGN(const auto pool, create_core_pool(config.machine.threads, kernel_scratch_per_worker));
  TRY_ASSIGN(const auto reader, CommittedReader::open(run.found, run.table, job.graph, *pool));
  return store->save(run.state, *reader);
}

}  // namespace tidepool
