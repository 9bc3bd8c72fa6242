#include "run/nodes.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <sstream>
#include <vector>

#include "base/version.h"
#include "config_files/load_config.h"
#include "huggingface/weights/other_weights.h"
#include "huggingface/weights/weights_fingerprint.h"
#include "io/directory_lock.h"
#include "io/swap_file.h"
#include "net/agreement.h"
#include "planner/verify/verify_nodes.h"
#include "run/assembly/assemble_report.h"
#include "run/directory/run_directory.h"

namespace tidepool {
namespace {

// RETURNS: a hash of all that a plan has in common with those of the other nodes.
u64 shape_of(const Plan& plan) {
  std::string text = fmt::format("{} {} {} {} {} {}", static_cast<int>(plan.precision), plan.micro_batches,
                                 plan.sweeps, plan.devices, name(plan.parallel), plan.clipping);
  for (const Chunk& c : plan.chunks)
    fmt::format_to(std::back_inserter(text), " {} {} {} {} {} {} {}", static_cast<int>(c.kind), c.window,
                   c.cut, c.owner, c.instance, c.element_begin, c.bytes.value);
  return XXH3_64bits(text.data(), text.size());
}

std::string folder_of_node(u32 node) { return fmt::format("/node-{}", node); }

// By other node: a hash of the messages that go to it, or come from it, in all segments.
std::vector<u64> messages(const Plan& plan, OpKind kind) {
  std::vector<std::vector<std::string>> lists(plan.nodes);
  for (const Segment& segment : plan.segments)
    for (const Op& op : segment.ops) {
      if (op.kind != kind) continue;
      const NodeMessage m = message_of(plan, segment, op);
      const Bytes bytes = segment.operands_of(op)[0].frame.bytes;
      lists[op.peer].push_back(fmt::format("{} {} {} {} {} {}", static_cast<int>(segment.kind), name(m.kind),
                                           m.window, m.cut, m.use, bytes.value));
    }
  std::vector<u64> hashes;
  for (std::vector<std::string>& list : lists) {
    std::ranges::sort(list);
    std::string text;
    for (const std::string& line : list) text += line + "\n";
    hashes.push_back(XXH3_64bits(text.data(), text.size()));
  }
  return hashes;
}

template <class T>
Result<std::vector<std::vector<T>>> exchange_numbers(Transport& transport, const std::vector<T>& mine) {
  TRY_ASSIGN(const std::vector<std::string> all,
             transport.exchange({reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(T)}));
  std::vector<std::vector<T>> out;
  for (const std::string& bytes : all) {
    std::vector<T>& numbers = out.emplace_back(bytes.size() / sizeof(T));
    std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(T));
    if (numbers.size() != mine.size())
      return Error{ErrorKind::internal, fmt::format("{} exchanged {} numbers, not {}",
                                                    transport.name(static_cast<u32>(out.size()) - 1),
                                                    numbers.size(), mine.size())};
  }
  return out;
}

Result<void> check_messages(Transport& transport, const Plan& plan) {
  std::vector<u64> mine = messages(plan, OpKind::send);
  const std::vector<u64> received = messages(plan, OpKind::receive);
  mine.insert(mine.end(), received.begin(), received.end());
  TRY_ASSIGN(const auto all, exchange_numbers(transport, mine));
  for (u32 from = 0; from < plan.nodes; ++from)
    for (u32 to = 0; to < plan.nodes; ++to)
      if (from != to && all[from][to] != all[to][plan.nodes + from])
        return Error{
            ErrorKind::internal,
            fmt::format("{} does not send what {} receives. This is a bug in the planner; please report it "
                        "with config.yaml",
                        transport.name(from), transport.name(to))};
  return {};
}

Error absent_node(std::string_view entry, u32 node, u32 nodes) {
  const std::string have =
      nodes == 1 ? std::string("node 0 alone") : fmt::format("the nodes 0 to {}", nodes - 1);
  return {ErrorKind::usage,
          fmt::format("memory.nodes: \"{}\" is for node {}, but this run has {}; start it with "
                      "mpirun or srun on at least {} nodes, or leave the node out",
                      entry, node, have, node + 1)};
}

// Tells the other nodes too, which would wait for this one.
Error refused(Transport& transport, std::string why) {
  Error error{ErrorKind::usage, std::move(why)};
  transport.fail(error);
  return error;
}

}  // namespace

Result<Config> config_of_node(const Config& given, u32 node, u32 nodes) {
  std::vector<std::string> settings;
  for (const std::string& entry : given.memory.nodes) {
    const auto wrong = [&](std::string_view why) {
      return Error{ErrorKind::usage,
                   fmt::format("memory.nodes: \"{}\" {}; write for example \"1: memory.host=24GiB\", or "
                               "\"2-3: memory.host=24GiB memory.device=8GiB\"",
                               entry, why)};
    };
    std::istringstream words(entry);
    u32 first = 0;
    if (entry.empty() || entry[0] < '0' || entry[0] > '9' || !(words >> first))
      return wrong("does not begin with the number of a node");
    u32 last = first;
    char sign = 0;
    words >> sign;
    if (sign == '-' && words >> last) words >> sign;
    if (sign != ':' || last < first) return wrong("has no colon after the numbers of nodes");
    if (last >= nodes) return absent_node(entry, std::max(first, nodes), nodes);
    if (first > node || last < node) continue;
    for (std::string word; words >> word;) settings.push_back(word);
  }
  return settings.empty() ? given : parse_config(to_yaml(given), "memory.nodes", settings);
}

Result<TrainRequest> request_of_node(const TrainRequest& given) {
  TrainRequest out = given;
  Config& config = out.config;
  if (given.transport == nullptr) {
    TRY_ASSIGN(config, config_of_node(given.config, 0, 1));
    return out;
  }
  if (Result<Config> own = config_of_node(given.config, given.transport->node(), given.transport->nodes());
      own)
    config = *std::move(own);
  else
    return refused(*given.transport, own.error().message);
  config.machine.nodes = given.transport->nodes();
  config.machine.node = given.transport->node();
  if (config.machine.nodes > nodes_max)
    return refused(*given.transport,
                   fmt::format("{} nodes: at most {} are possible", config.machine.nodes, nodes_max));
  if (config.machine.node == 0) return out;
  const std::string folder = folder_of_node(config.machine.node);
  out.quiet = true;
  out.resume.clear();
  config.output.dir += folder;
  config.output.save = false;
  if (!config.memory.swap_dir.empty()) config.memory.swap_dir += folder;
  return out;
}

std::vector<std::string> clear_absent_nodes(const Config& config) {
  std::vector<std::string> lines;
  for (u32 node = config.machine.nodes; node < nodes_max; ++node) {
    const std::string folder = config.output.dir + folder_of_node(node);
    std::error_code unknown;
    if (!std::filesystem::is_directory(folder, unknown)) continue;
    // A live job keeps its lock; taking and releasing a dead one's removes it.
    if (std::filesystem::exists(folder + "/" + run_lock_name, unknown) &&
        !DirectoryLock::take({.dir = folder, .file = run_lock_name, .what = "run directory"}))
      continue;
    const std::string swap =
        config.memory.swap_dir.empty() ? folder + "/swap" : config.memory.swap_dir + folder_of_node(node);
    std::string cleared = clear_swap_litter({.dir = swap, .own_dir = true});
    if (!cleared.empty()) lines.push_back(std::move(cleared));
  }
  return lines;
}

Result<void> agree_on_sizes(Transport& transport, Config& config) {
  TRY_ASSIGN(const Job job, make_job(config));
  const BatchShape& batch = job.graph.batch;
  const std::vector<u64> mine = {job.graph.experts_per_group,
                                 batch.pieces() == 1 ? 0 : u64{batch.piece_tiles} * batch.tile_tokens};
  TRY_ASSIGN(const auto all, exchange_numbers(transport, mine));
  const auto least = [&](u64 which) {
    u64 size = 0;  // 0: all
    for (const std::vector<u64>& one : all)
      if (one[which] != 0 && (size == 0 || one[which] < size)) size = one[which];
    return size;
  };
  if (least(0) > 0) config.memory.experts_per_group = static_cast<u32>(least(0));
  if (least(1) > 0) config.memory.piece_tokens = least(1);
  return {};
}

Result<void> agree_on_job(Transport& transport, const Config& config, std::string_view data_fingerprint) {
  Statement mine;
  mine.facts.push_back({"version", std::string(version())});
  mine.facts.push_back({"machine.executor", fmt::format("{} devices", config.machine.devices())});
  mine.facts.push_back({"machine.parallel", std::string(name(config.machine.parallel))});
  for (const auto& [key, value] : numeric_settings(config)) mine.facts.push_back({key, value});
  mine.facts.push_back({"train.max_steps", fmt::format("{}", config.train.max_steps)});
  mine.facts.push_back({"train.eval_steps", fmt::format("{}", config.train.eval_steps)});
  mine.facts.push_back({"train.eval_batches", fmt::format("{}", config.train.eval_batches)});
  mine.facts.push_back({"output.save_steps", fmt::format("{}", config.output.save_steps)});
  mine.facts.push_back({"data (fingerprint)", std::string(data_fingerprint)});
  return agree(transport, mine);
}

Result<void> agree_on_weights(Transport& transport, const Config& config) {
  std::string mine;  // empty: this node has none
  if (!config.model_directory.empty() && has_weights(config.model_directory)) {
    TRY_ASSIGN(mine, weights_fingerprint(config.model_directory));
  }
  TRY_ASSIGN(const std::vector<std::string> all, transport.exchange(mine));
  for (u32 node = 1; node < all.size(); ++node)
    if (!all[0].empty() && !all[node].empty() && all[node] != all[0])
      return usage_error(
          fmt::format("the nodes differ in model.directory: {} has other weights than {}; all nodes need the "
                      "same, or none "
                      "beside {}",
                      transport.name(node), transport.name(0), transport.name(0)));
  return {};
}

Result<RunPlan> agree_on_plan(Transport& transport, const Job& given, PlanFor who,
                              const PlanProgress& progress) {
  constexpr u32 rounds_max = 8;
  Job job = given;
  for (u32 round = 0; round < rounds_max; ++round) {
    TRY_ASSIGN(RunPlan chosen, plan_run(job, who, progress));
    const std::vector<u64> mine = {chosen.plan.chunk_elements, chosen.plan.sweeps,
                                   static_cast<u64>(chosen.plan.parallel), shape_of(chosen.plan)};
    TRY_ASSIGN(const auto all, exchange_numbers(transport, mine));
    u64 elements = mine[0], sweeps = mine[1];
    bool alike = true, share_alike = true;
    for (const std::vector<u64>& one : all) {
      elements = std::min(elements, one[0]), sweeps = std::max(sweeps, one[1]);
      share_alike = share_alike && one[2] == all[0][2];
      alike = alike && one == all[0];
    }
    if (alike) {
      TRY(check_messages(transport, chosen.plan));
      return chosen;
    }
    Config config = job.config;
    config.machine.parallel = static_cast<Parallel>(all[0][2]);
    if (share_alike) {
      config.memory.chunk_size = Bytes{4 * elements};
      config.memory.sweeps = static_cast<u32>(sweeps);
    }
    TRY_ASSIGN(job, make_job(std::move(config)));
  }
  return Error{ErrorKind::does_not_fit,
               "no plan was found that is alike on all nodes: set memory.chunk_size and memory.sweeps"};
}

Result<TrainerState> share_state(Transport& transport, const TrainerState& mine) {
  TRY_ASSIGN(const std::vector<std::string> all,
             transport.exchange(transport.node() == 0 ? to_text(mine) : std::string()));
  if (transport.node() == 0) return mine;
  return parse_trainer_state(all[0], transport.name(0));
}

}  // namespace tidepool
