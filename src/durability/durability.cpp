#include "durability/durability.h"

namespace tidepool {

bool commits_pause(const Durability& s) {
  return s.save == SaveState::in_background && s.policy.versions < 3;
}

bool may_commit(const Durability& s, u64 step) {
  return s.policy.versions > 1 && !commits_pause(s) && (!s.bad || step < *s.bad);
}

bool may_save_in_background(const Durability& s) {
  return s.policy.versions > 1 && s.committed == s.issued && !(s.policy.speculates && s.policy.versions < 3);
}

bool hears_votes(const Durability& s) {
  return s.policy.several_nodes && s.phase == Phase::trains && s.issued - 1 > s.rested;
}

bool commit_is_newest(const Durability& s) { return s.committed.value_or(0) > s.saved.value_or(0); }

Durability durability_at(const Policy& policy, u64 step, std::optional<u64> saved) {
  Durability s;
  s.policy = policy;
  s.issued = s.counted = s.logged = s.rested = step;
  s.saved = saved;
  return s;
}

bool may_resume_from_commit(const Remains& r) {
  return r.commit && !r.several_nodes && (r.asked == Asked::automatic || r.asked == Asked::commit);
}

ResumeSource resume_source(const Remains& r) {
  const bool counts = may_resume_from_commit(r);
  if (counts && (r.asked == Asked::commit || *r.commit >= r.checkpoint.value_or(0)))
    return ResumeSource::commit;
  return r.checkpoint ? ResumeSource::checkpoint : ResumeSource::nothing;
}

}  // namespace tidepool
