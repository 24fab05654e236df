// Where the time of a run goes: to the servers themselves, or to a checker. For measurements alone;
// a run without a meter pays one comparison at each place.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace lockstep::sim {

enum class MeterPart : uint8_t {
  kServers,       // steps of the machines of production
  kClients,       // clients' work, and the checks of what they are told
  kCommittedLog,  // checkers/committed_log.h
  kHistories,     // checkers/histories.h
  kZnodeModel,    // checkers/znode_model.h
  kReplication,   // checkers/replication.h
  kTraceHash,     // checksums of the bytes that travel and are written
  kCount
};

class Meter {
 public:
  // `clock`: the host's; any unit, as long as it is the same. What took longer than `longest` has
  // been disturbed, by another process that had its turn, and is left out.
  Meter(uint64_t (*clock)(), uint64_t longest) : clock_(clock), longest_(longest) {}

  // From its construction to its end. Scopes do not nest: what is within one is counted twice.
  class Scope {
   public:
    Scope(Meter* meter, MeterPart part)
        : meter_(meter), part_(part), began_(meter == nullptr ? 0 : meter->clock_()) {}
    ~Scope() {
      if (meter_ == nullptr) return;
      const uint64_t took = meter_->clock_() - began_;
      if (took > meter_->longest_) return;
      meter_->ticks_[static_cast<size_t>(part_)] += took;
      ++meter_->calls_[static_cast<size_t>(part_)];
    }
    Scope(const Scope&) = delete;

   private:
    Meter* meter_;
    MeterPart part_;
    uint64_t began_;
  };

  uint64_t ticks(MeterPart part) const { return ticks_[static_cast<size_t>(part)]; }
  uint64_t calls(MeterPart part) const { return calls_[static_cast<size_t>(part)]; }

 private:
  uint64_t (*clock_)();
  uint64_t longest_;
  std::array<uint64_t, static_cast<size_t>(MeterPart::kCount)> ticks_{};
  std::array<uint64_t, static_cast<size_t>(MeterPart::kCount)> calls_{};
};

}  // namespace lockstep::sim
