// Time as the machines see it: integers, handed in by the host, never read from a clock.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <string>

namespace lockstep {

// A span of time in nanoseconds; may be negative.
struct Duration {
  int64_t ns = 0;

  constexpr auto operator<=>(const Duration&) const = default;
  constexpr Duration operator+(Duration other) const { return {ns + other.ns}; }
  constexpr Duration operator-(Duration other) const { return {ns - other.ns}; }
  constexpr Duration operator*(int64_t factor) const { return {ns * factor}; }
  constexpr Duration operator/(int64_t divisor) const { return {ns / divisor}; }
  constexpr int64_t Milliseconds() const { return ns / 1'000'000; }
  std::string ToString() const { return std::to_string(ns / 1000) + "us"; }
};

constexpr Duration Nanoseconds(int64_t n) { return {n}; }
constexpr Duration Microseconds(int64_t n) { return {n * 1'000}; }
constexpr Duration Milliseconds(int64_t n) { return {n * 1'000'000}; }
constexpr Duration Seconds(int64_t n) { return {n * 1'000'000'000}; }

// A point of a monotonic clock, in nanoseconds since a start that means nothing. Instants of two
// servers are not comparable.
struct Instant {
  int64_t ns = 0;

  // Later than every instant that a host hands in: "no deadline".
  static constexpr Instant Never() { return {std::numeric_limits<int64_t>::max()}; }

  constexpr auto operator<=>(const Instant&) const = default;
  constexpr Instant operator+(Duration d) const { return {ns + d.ns}; }
  constexpr Instant operator-(Duration d) const { return {ns - d.ns}; }
  constexpr Duration operator-(Instant other) const { return {ns - other.ns}; }
  std::string ToString() const { return std::to_string(ns / 1000) + "us"; }
};

}  // namespace lockstep
