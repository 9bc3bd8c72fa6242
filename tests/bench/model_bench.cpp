// Times forward and backward of a 100M GPT-2, everything resident and kept, in tokens per second, for
// comparison with pytorch_model_bench.py. Usage: model_bench [workers] [repetitions]
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "tests/support/model_runner.h"

namespace tidepool::test {
namespace {

int run(u32 workers, u32 repetitions) {
  const ModelConfig config = {.vocab_size = 256, .positions = 512, .width = 768, .layers = 14, .heads = 12};
  const auto pool = make_pool(workers);
  ModelRunner model(build_model(config, Precision::fp32, {.sequences = 4, .tokens = 512}).value(), *pool);
  model.init(1);
  std::vector<i32> tokens(model.graph().batch.rows());
  for (u64 i = 0; i < tokens.size(); ++i) tokens[i] = i32(i * 37 % 251);
  for (u32 i = 0; i <= repetitions; ++i) {
    const auto start = std::chrono::steady_clock::now();
    model.forward_backward(tokens.data(), tokens.data(), 1.0 / double(tokens.size()));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    // the first is the warm-up
    if (i > 0) std::printf("%.1f tokens/s\n", double(tokens.size()) / took.count());
  }
  return 0;
}

}  // namespace
}  // namespace tidepool::test

int main(int argc, char** argv) {
  return tidepool::test::run(argc > 1 ? static_cast<tidepool::u32>(std::atoi(argv[1])) : 0,
                             argc > 2 ? static_cast<tidepool::u32>(std::atoi(argv[2])) : 3);
}
