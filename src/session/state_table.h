// StateTable says which part of the state lies where in a swap file: the description in the head of its
// journal. It is all that a reader needs besides a commit (docs/state-file.md).
#pragma once

#include <array>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/state_journal.h"
#include "tidepool/model_graph.h"
#include "tidepool/plan.h"
#include "tidepool/slot_range.h"

namespace tidepool {

struct StateTable {
  struct Place {
    u64 first_chunk = 0;  // id of cut 0; the checksums of cut c are seeded with first_chunk + c
    // Offset of the first slot of the first cut that has the kind, from the first frame. The cuts lie side by
    // side.
    u64 offset = 0;
    u32 mark = 0;  // number of that cut's mark in a commit
    bool operator==(const Place&) const = default;
  };
  struct OfTensor {
    std::string name;
    u64 begin = 0, elements = 0;  // from the window's start
    u64 rows = 0, columns = 0;    // of a matrix, if slots have other axes than the elements
    bool operator==(const OfTensor&) const = default;
  };
  // Cuts of equal size but for the last, up to the next unit or the window's end.
  struct Unit {
    u64 begin = 0, cut_elements = 0;
    u8 rule = 0;  // of `rules`
    bool operator==(const Unit&) const = default;
  };
  // How much of a window has a kind.
  struct Extent {
    u64 bytes = 0;  // of its chunks
    u32 cuts = 0;
  };
  struct Cut {
    u64 begin = 0, elements = 0;  // along the kind's axis
    u32 number = 0;
    Extent before;  // of the kind, from the window's begin to the cut
  };
  struct OfWindow {
    std::string name;
    u64 elements = 0;  // stored, with padding
    std::vector<Unit> units;
    std::vector<OfTensor> tensors;
    std::array<Place, kind_count> places;  // of `param` and the slots
    bool operator==(const OfWindow&) const = default;

    u64 end_of(u64 unit) const { return unit + 1 < units.size() ? units[unit + 1].begin : elements; }
    u32 cuts_of(u64 unit) const {
      return static_cast<u32>(div_up(end_of(unit) - units[unit].begin, units[unit].cut_elements));
    }
    u8 rule_at(u64 element) const {
      u64 unit = 0;
      while (unit + 1 < units.size() && end_of(unit) <= element) ++unit;
      return units[unit].rule;
    }
    // As slot_range(), of each unit.
    std::vector<SlotRange> unit_ranges(SlotAxis) const;
    SlotRange tensor_range(SlotAxis, u64 tensor) const;
    // REQUIRES: the element, along the kind's axis, is in a cut that has the kind.
    Cut cut_at(u64 element, const StateSlots&, Kind) const;
    Extent extent(const StateSlots&, Kind) const;  // from begin to end

   private:
    // RETURNS: bytes of a unit's chunks. `range`: of the unit, along the kind's axis.
    u64 bytes_of(u64 unit, const SlotRange& range, const StateSlots&, Kind) const;
  };

  Precision precision{};
  std::vector<Optim> rules = {Optim::adamw_torch};
  StateSlots state_slots;         // of precision and rules
  u64 chunk_elements = 0;         // Plan::chunk_elements
  u32 versions = 2;               // slots of each chunk
  u64 second_slot = 0;            // bytes from each slot of a chunk to the next
  std::vector<OfWindow> windows;  // trained ones, in the model's order
  bool operator==(const StateTable&) const = default;

  u64 marks() const;  // in a commit
  // True if the file has every slot that the commit's marks name.
  bool has_slots_of(const FoundState&) const;
  Bytes bytes() const;  // of the state, once
};

// REQUIRES: the plan keeps two versions or more.
StateTable make_state_table(const Plan&, const ModelGraph&);

// Whose state it is.
struct StateOwner {
  std::string run;  // absolute path of the run's directory
  std::string
      branch;  // id of the run's branch, which a run keeps that resumes from the state; empty: unknown
};
std::string describe_state(const StateTable&, const StateOwner&);
struct DescribedState {
  StateTable table;
  StateOwner owner;
};
// Errors: bad_input, naming `path`.
Result<DescribedState> parse_state(const std::string& description, const std::string& path);

// RETURNS: how the table's model differs from the graph's, for people; empty: it is the same, though its
// tensors may be grouped to other windows.
std::string difference_of_models(const StateTable&, const ModelGraph&);

}  // namespace tidepool
