// The random streams of a simulated world, by purpose: a draw in one place shifts no other place.
#pragma once

#include "core/base/random.h"
#include "core/base/time.h"

namespace lockstep::sim {

// The values are part of what a seed means: append, never renumber.
enum class Purpose : uint64_t {
  kPlan = 1,
  kNetwork = 2,
  kDisk = 3,
  kFaults = 4,
  kWorkload = 5,
  kHost = 6,
  kClient = 7,
  kBrokerPlan = 8,
  kKafkaClient = 9,
  kFailOverPlan = 10,
  kDamagePlan = 11,
  kDamage = 12,
  kHandOverPlan = 13,
  kDamagedLogPlan = 14,
};

inline RandomStream StreamFor(uint64_t seed, Purpose purpose, uint32_t who = 0,
                              uint64_t incarnation = 0) {
  return RandomStream(seed, ServerId{who}, incarnation,
                      0x51e0'0000 + static_cast<uint64_t>(purpose));
}

// The stream of one place at one time, for worlds whose plan has `streams`: it does not depend on
// what was drawn before, there or elsewhere.
inline RandomStream KeyedStream(uint64_t seed, uint32_t streams, Purpose purpose, uint64_t place,
                                Instant now) {
  return RandomStream(seed ^ Mix64(streams), ServerId{static_cast<uint32_t>(place)},
                      static_cast<uint64_t>(now.ns), 0x51e1'0000 + static_cast<uint64_t>(purpose));
}

// Around `mean`, from zero to twice as much: enough variety without floating point.
inline Duration Around(RandomStream& random, Duration mean) {
  if (mean.ns <= 0) return {};
  return {random.Between(0, 2 * mean.ns)};
}

}  // namespace lockstep::sim
