// Rows and cells of the table of transitions, for the table itself and for its printing.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "durability/durability.h"

namespace tidepool {

struct Outcome {
  Action action = Action::none;
  std::string_view never = {};  // the event cannot happen: the reason; the state is then not used
};
// Changes the state as the event does. `value`: as Happened::value.
using Handler = Outcome (*)(Durability&, u64 value);

struct Cell {
  std::string_view text;  // what follows, or why the event cannot happen
  Handler handler = nullptr;

  constexpr Cell(std::string_view text, Handler handler) : text(text), handler(handler) {}
  constexpr Cell(std::string_view reason) : text(reason) {}
  constexpr Cell(const char* reason) : text(reason) {}
};

struct Row {
  Event event{};
  std::array<Cell, phase_count> cells;
};

std::span<const Row> transition_table();

}  // namespace tidepool
