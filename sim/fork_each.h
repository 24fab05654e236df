// Independent pieces of work in processes of their own, on several cores: whatever one of them does
// to its memory, or if it dies, the others do not notice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace lockstep::sim {

// Runs work(0) … work(count - 1), `jobs` at a time, begun in this order. `done` gets what each
// returned, in the order in which they end; nothing if its process died. When it returns false the
// others are killed. False if no process could be made.
bool ForkEach(uint32_t jobs, size_t count, const std::function<std::string(size_t)>& work,
              const std::function<bool(size_t, std::optional<std::string>)>& done);

}  // namespace lockstep::sim
