// Strong types for the numbers that name things, so that the compiler refuses to mix them.
#pragma once

#include <compare>
#include <concepts>
#include <cstdint>
#include <ostream>
#include <string>

namespace lockstep {

// A server of the ensemble: ZooKeeper's `sid`, the N of `server.N`. 1 to 255 inclusive, since a
// session id carries it in its highest byte. 0 names no server.
struct ServerId {
  uint32_t value = 0;

  constexpr auto operator<=>(const ServerId&) const = default;
  constexpr explicit operator bool() const { return value != 0; }
  std::string ToString() const { return std::to_string(value); }
};
inline constexpr uint32_t kServerIdMax = 255;

// Names a connection of one server, of any kind. Ids that the machine chooses (it dials) have the
// top bit clear, ids that the host chooses (it accepts) have it set; neither is used twice within
// an incarnation, so a late event of a closed connection can be told from one of its successor.
struct ConnectionId {
  uint64_t value = 0;

  static constexpr uint64_t kAccepted = uint64_t{1} << 63;
  constexpr bool accepted() const { return (value & kAccepted) != 0; }
  constexpr auto operator<=>(const ConnectionId&) const = default;
  constexpr explicit operator bool() const { return value != 0; }
  std::string ToString() const {
    return (accepted() ? "a" : "d") + std::to_string(value & ~kAccepted);
  }
  template <typename H>
  friend H AbslHashValue(H h, ConnectionId id) {
    return H::combine(std::move(h), id.value);
  }
};

// Orders the durable writes of one incarnation: dense, from 1. When a write is durable, so is every
// write with a smaller id.
struct WriteId {
  uint64_t value = 0;

  constexpr auto operator<=>(const WriteId&) const = default;
  std::string ToString() const { return std::to_string(value); }
};

// A client session: ZooKeeper's 64-bit session id, printed as ZooKeeper prints it.
struct SessionId {
  int64_t value = 0;

  constexpr auto operator<=>(const SessionId&) const = default;
  constexpr explicit operator bool() const { return value != 0; }
  std::string ToString() const {
    static constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    uint64_t rest = static_cast<uint64_t>(value);
    do {
      text.insert(text.begin(), kDigits[rest & 15]);
      rest >>= 4;
    } while (rest != 0);
    return "0x" + text;
  }
  template <typename H>
  friend H AbslHashValue(H h, SessionId id) {
    return H::combine(std::move(h), id.value);
  }
};

// So that GoogleTest prints them.
template <typename T>
  requires requires(const T& t) {
    { t.ToString() } -> std::same_as<std::string>;
  }
std::ostream& operator<<(std::ostream& out, const T& value) {
  return out << value.ToString();
}

}  // namespace lockstep
