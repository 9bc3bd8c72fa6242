// FitShape lists the candidates of one shape, and plans a candidate only if its known limits do not rule it
// out.
#include "planner/fit_shape.h"

#include <algorithm>

#include "planner/shapes.h"

namespace tidepool {
namespace {

// More than any tier has, but small enough that sums of a few do not overflow.
constexpr Bytes unbounded{u64{1} << 60};

Bytes over(Bytes need, Bytes had) { return need > had ? need - had : Bytes{0}; }

bool within(const Budgets& needs, const Budgets& most) {
  return needs.device <= most.device && needs.host <= most.host && needs.disk <= most.disk;
}

}  // namespace

// Weights of the tiers in a price: device memory is the most expensive, disk is cheap.
double FitSearch::price(const Budgets& n) const {
  return static_cast<double>(over(n.device, had.device).value) * 2 +
         static_cast<double>(over(n.host, had.host).value) +
         static_cast<double>(over(n.disk, had.disk).value) / 64;
}

bool FitSearch::is_better(const Budgets& n) const {
  return within(n, most) && (!needs || price(n) < price(*needs));
}

FitShape::FitShape(const ModelGraph& graph, const PlanOptions& options, const AttemptOptions& shape,
                   Bytes device_least)
    : graph_(&graph),
      options_(&options),
      shape_(shape),
      ops_(plan_size(graph, options, shape.chunk_elements).ops()),
      least_(device_least) {}

FitShape::Fineness FitShape::fineness() const {
  if (ops_ <= 60'000) return {.per_octave = 4, .homes = 64, .host_steps = 16};
  if (ops_ <= 200'000) return {.per_octave = 2, .homes = 64, .host_steps = 8};
  return {.per_octave = 1, .homes = 4, .host_steps = 2};
}

// Divides the ops by the part that the work takes: layout and host plans go through chunks, device plans only
// through windows.
bool FitShape::takes(u64 part, SearchWork* work) const {
  return work == nullptr || work->takes(div_up(ops_, part));
}

// ---- list of candidates -----------------------------------------------------------------------------------

void FitShape::list_candidates(SearchWork* work) {
  candidates_ = {DeviceCandidate{.is_divided = true},
                 DeviceCandidate{.options = {.within_least = true}, .is_divided = true}};
  if (!plan_device(0, work)) return candidates_.clear();
  least_ = std::max(least_, parts_->device.needs_least + options_->device_reserved);
  all_rests_ = rests_beside(std::vector<bool>(graph_->windows.size(), false));
  Bytes resident = parts_->device.resident;
  if (resident.value == 0) {  // homes are forced; this is an upper limit of all other stays
    resident = *candidates_[0].need;
    for (u32 w = 0; w < graph_->windows.size(); ++w)
      resident += parts_->layout.bytes(parts_->layout.windows[w].param, parts_->layout.windows[w].cuts);
    for (const Stream& stream : graph_->streams) resident += stream.bytes * parts_->program.sweep_units();
  }
  list_budgets(resident);
  list_homes(resident);
}

// Round sizes, from the smallest to the size at which nothing leaves the device.
std::vector<Bytes> FitShape::round_sizes(Bytes resident, u64 per_octave) const {
  std::vector<Bytes> sizes;
  for (u64 octave = frame_alignment; octave < resident.value; octave *= 2)
    for (u64 i = 0; i < per_octave; ++i) {
      const Bytes size{octave + octave / per_octave * i};
      if (size > least_ && size < resident) sizes.push_back(size);
    }
  return sizes;
}

// Largest budget first: it needs the least of the host.
void FitShape::list_budgets(Bytes resident) {
  std::vector<Bytes> budgets = round_sizes(resident, fineness().per_octave);
  budgets.push_back(std::max(least_, resident));
  // A little more than everything: placing leaves gaps.
  budgets.push_back(budgets.back() + Bytes{round_up(budgets.back().value / 32, frame_alignment)});
  std::ranges::reverse(budgets);
  for (const Bytes budget : budgets)
    candidates_.push_back({.options = {.within_least = true},
                           .budget = budget,
                           .least = budget,
                           .rests = over(all_rests_, budget * options_->devices)});
}

// Candidates with more and more windows at home on the devices: alone, then with stays beside them, up to
// round sizes.
void FitShape::list_homes(Bytes resident) {
  if (options_->home != HomePolicy::automatic) return;
  const u64 windows = graph_->windows.size(), most = fineness().homes;
  const u64 arenas = options_->devices / options_->replicas();  // devices whose homes are different windows
  std::vector<Bytes> homes;  // entry i: bytes of the homes of candidate i, on each device
  Bytes bytes{};
  for (u64 w = 0; w < windows; ++w) {
    bytes += bytes_at_home(parts_->layout, static_cast<u32>(w));
    const Bytes of_each = Bytes{bytes.value / arenas};
    if ((w + 1) * most / windows != w * most / windows) homes.push_back(of_each);
  }
  for (const Bytes home : homes)
    candidates_.push_back({.options = {.home_bytes_least = home, .within_least = true},
                           .is_divided = true,
                           // Beside the homes, a window streams with its gradient.
                           .least = std::max(least_, home + least_ / 2),
                           .rests = over(all_rests_, home * options_->devices)});
  for (const Bytes budget : round_sizes(resident, 16)) list_homes_beside_stays(homes, budget);
}

// Gives homes from half to all of the budget beyond the least.
void FitShape::list_homes_beside_stays(const std::vector<Bytes>& homes, Bytes budget) {
  constexpr u64 parts = 8;
  u64 before = 0;
  for (u64 part = parts / 2; part <= parts; ++part) {
    const Bytes room = (budget - least_) / parts * part;
    const u64 count = static_cast<u64>(std::ranges::upper_bound(homes, room) - homes.begin());
    if (count == before) continue;
    before = count;
    candidates_.push_back({.options = {.home_bytes_least = homes[count - 1], .within_least = true},
                           .budget = budget,
                           .streams = false,
                           .is_divided = true,
                           .least = budget,
                           .rests = over(all_rests_, budget * options_->devices)});
  }
}

// ---- needs of candidates ----------------------------------------------------------------------------------

// Bytes that host and disk must hold at once: state of windows without a home on a device, and their
// gradients that wait for the norm.
Bytes FitShape::rests_beside(const std::vector<bool>& home) const {
  const Layout& layout = parts_->layout;
  Bytes sum = options_->host_reserved;
  for (u32 w = 0; w < layout.windows.size(); ++w) {
    const WindowChunks& window = layout.windows[w];
    if (home[w] || options_->home != HomePolicy::automatic) continue;
    for (u32 cut = 0; cut < window.cuts; ++cut)
      for (ChunkId id : layout.state(w, cut)) sum += layout.chunk(id).bytes;
    if (window.trains && parts_->clipping && !layout.params_die(w))
      sum += layout.bytes(window.grad, window.cuts);
  }
  return sum;
}

// Most bytes that one update of a window without a home on a device needs in the host at once.
Bytes FitShape::updates_beside(const std::vector<bool>& home) const {
  const Layout& layout = parts_->layout;
  Bytes most{};
  for (u32 w = 0; w < layout.windows.size(); ++w) {
    if (home[w] || !layout.windows[w].trains || options_->home != HomePolicy::automatic) continue;
    for (const WindowChunks::UnitCuts& unit : layout.windows[w].units) {
      // The direction of a streamed update needs the rule's slots, and its step the others.
      const bool streams = parts_->program.streams(w, unit.first_cut);
      Bytes of_rule{}, others{};
      for (ChunkId id : layout.state(w, unit.first_cut)) {
        const bool is_of_rule = layout.state_slots.is_optimizer_slot(layout.chunk(id).kind);
        (is_of_rule ? of_rule : others) += layout.chunk(id).bytes;
      }
      Bytes sum = streams ? std::max(of_rule, others) : of_rule + others;
      if (!layout.params_die(w)) sum += layout.chunk(layout.gradient(w, unit.first_cut)).bytes;
      most = std::max(most, sum);
    }
  }
  return most + options_->host_reserved;
}

// RETURNS: false if `work` ended the search.
bool FitShape::plan_device(u32 w, SearchWork* work) {
  if (planned_ == w && parts_) return true;
  if (!parts_) {
    if (!takes(4, work)) return false;
    parts_ = make_parts(*graph_, *options_, shape_);
  }
  if (!takes(16, work)) return false;
  DeviceCandidate& candidate = candidates_[w];
  const PlanOptions options = options_of(*options_, {.device_budget = candidate.budget});
  parts_->device = plan_device_tier({*graph_, parts_->layout, parts_->program, options}, candidate.options);
  planned_ = w;
  candidate.need = std::max({parts_->device.peak, candidate.least, least_});
  candidate.host_least = updates_beside(parts_->device.home);
  candidate.rests = std::max(candidate.rests, rests_beside(parts_->device.home));
  return true;
}

// RETURNS: null if `work` ended the search.
const FitShape::Rest* FitShape::plan_rest(u32 w, Bytes host_budget, SearchWork* work) {
  const auto known = candidates_[w].rest.find(host_budget);
  if (known != candidates_[w].rest.end()) return &known->second;
  if (!plan_device(w, work) || !takes(4, work)) return nullptr;
  const PlanOptions options = options_of(*options_, {.host_budget = host_budget});
  const HostTier host =
      plan_host_tier({*graph_, parts_->layout, parts_->program, options}, parts_->device, Bytes{0});
  return &candidates_[w]
              .rest.emplace(host_budget, Rest{host.peak, host.disk_bytes, host.needs_least})
              .first->second;
}

// ---- the search -------------------------------------------------------------------------------------

void FitShape::offer(u32 w, Bytes host_budget, const Rest& rest, FitSearch& s) const {
  const DeviceCandidate& candidate = candidates_[w];
  const Bytes host =
      candidate.streams ? rest.host : std::max(rest.host, candidates_[0].rest.at(Bytes{0}).host);
  const Budgets needs{*candidate.need, host, rest.disk};
  if (!s.is_better(needs)) return;
  s.needs = needs;
  s.candidate = {.shape = shape_,
                 .device = candidate.options,
                 .device_budget = candidate.budget,
                 .host_budget = host_budget};
}

// Tries three kinds of host: nothing stays that need not; everything stays; and steps between, which help
// only if the disk is short. Each is planned only if its known lower limits do not rule it out.
void FitShape::search_rest(u32 w, FitSearch& s, SearchWork* work) {
  const DeviceCandidate& candidate = candidates_[w];
  const Bytes device = *candidate.need, rests = candidate.rests;
  if (!s.is_better({device, candidate.host_least, Bytes{0}})) return;
  const Bytes all_on_disk = over(rests, options_->host_reserved);
  if (candidate.streams && s.is_better({device, Bytes{0}, all_on_disk})) {
    const Rest* none_stays = plan_rest(w, Bytes{0}, work);
    if (none_stays == nullptr) return;
    offer(w, Bytes{0}, {none_stays->host, std::max(none_stays->disk, all_on_disk)}, s);
    if (s.is_done() || !s.is_better({device, none_stays->host_least, Bytes{0}})) return;
  }
  if (s.is_better({device, rests, Bytes{0}})) {
    const Rest* all_stay = plan_rest(w, unbounded, work);
    if (all_stay == nullptr) return;
    offer(w, unbounded, {std::max(all_stay->host, rests), all_stay->disk}, s);
  }
  if (options_->home != HomePolicy::automatic) return search_forced(w, s, work);
  // If the disk is short, state at home on devices saves more than stays do.
  if (!candidate.is_divided) return;
  const u64 steps = fineness().host_steps;
  for (u64 i = steps; i > 0 && !s.is_done(); --i) {
    const Bytes budget{round_up(rests.value / steps * i, frame_alignment)};
    const Bytes on_disk = over(rests, budget);
    if (!s.is_better({device, budget, on_disk})) continue;
    const Rest* some_stay = plan_rest(w, budget, work);
    if (some_stay == nullptr) return;
    offer(w, budget, {std::max(some_stay->host, budget), std::max(some_stay->disk, on_disk)}, s);
  }
}

// State is where the user asked for it, and streaming content takes all that the host has. So neither end
// fits a host of a size between, in which gradients and activations stay because the disk has no room for
// them.
void FitShape::search_forced(u32 w, FitSearch& s, SearchWork* work) {
  const Rest* const least = plan_rest(w, Bytes{0}, work);
  const Rest* const most = least == nullptr ? nullptr : plan_rest(w, unbounded, work);
  if (most == nullptr) return;
  const Bytes last = most->host;
  for (Bytes budget = least->host; budget < last && !s.is_done(); budget += Bytes{budget.value / 4}) {
    if (!s.is_better({*candidates_[w].need, budget, Bytes{0}})) return;
    const Rest* const some_stay = plan_rest(w, budget, work);
    if (some_stay == nullptr) return;
    offer(w, budget, *some_stay, s);
  }
}

bool FitShape::streams_by_the_least(const FitSearch& s, SearchWork* work) {
  const Rest* rest = plan_rest(0, Bytes{0}, work);
  return rest != nullptr && s.is_better({Bytes{0}, rest->host, Bytes{0}});
}

void FitShape::search(FitSearch& s, SearchWork* work) {
  const auto may_do = [&](Bytes device) { return s.is_better({device, Bytes{0}, Bytes{0}}); };
  if (!may_do(least_)) return;
  if (candidates_.empty()) list_candidates(work);
  for (u32 w = 0; w < candidates_.size() && !s.is_done(); ++w) {
    const DeviceCandidate& candidate = candidates_[w];
    if (!may_do(std::max(candidate.least, least_)) || candidate.rests > s.most.host + s.most.disk) continue;
    // If the host has no room even to stream, homes on devices do not help.
    if (!candidate.streams && !streams_by_the_least(s, work)) break;
    if (!candidates_[w].need && !plan_device(w, work)) break;
    if (may_do(*candidates_[w].need)) search_rest(w, s, work);
    if (work != nullptr && work->cut) break;
  }
  parts_.reset();
  planned_ = none;
}

}  // namespace tidepool
