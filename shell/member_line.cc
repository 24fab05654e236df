#include "shell/member_line.h"

#include <charconv>
#include <optional>
#include <vector>

#include "absl/status/status.h"

namespace lockstep::shell {
namespace {

// Splits at colons that are not within brackets.
std::vector<std::string> SplitAtColons(std::string_view text) {
  std::vector<std::string> parts(1);
  bool brackets = false;
  for (char c : text) {
    if (c == '[') brackets = true;
    if (c == ']') brackets = false;
    if (c == ':' && !brackets) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::optional<uint16_t> Port(std::string_view text) {
  uint16_t port = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0) return std::nullopt;
  return port;
}

absl::Status Bad(const std::string& key, const std::string& why) {
  return absl::InvalidArgumentError(
      key + ": " + why +
      " (it reads server.N=host:learnerPort:electionPort[:participant][;[clientHost:]clientPort])");
}

}  // namespace

std::string WithoutBrackets(std::string_view host) {
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    return std::string(host.substr(1, host.size() - 2));
  }
  return std::string(host);
}

absl::StatusOr<Endpoint> ParseEndpoint(std::string_view text) {
  std::vector<std::string> parts = SplitAtColons(text);
  std::optional<uint16_t> port = parts.size() == 2 ? Port(parts[1]) : std::nullopt;
  if (!port || parts[0].empty()) {
    return absl::InvalidArgumentError("`" + std::string(text) + "` is not host:port");
  }
  return Endpoint{WithoutBrackets(parts[0]), *port};
}

absl::StatusOr<Member> ParseMemberLine(const std::string& key, std::string_view value) {
  Member member;
  std::string_view number = std::string_view(key).substr(std::string_view("server.").size());
  auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), member.server.value);
  if (error != std::errc() || end != number.data() + number.size() || !member.server ||
      member.server.value > kServerIdMax) {
    return Bad(key, "the number of a server is from 1 to 255");
  }
  if (value.find('|') != std::string_view::npos) {
    return Bad(key, "more than one address for a server is not offered");
  }

  const size_t semicolon = value.find(';');
  const std::vector<std::string> parts = SplitAtColons(value.substr(0, semicolon));
  if (parts.size() < 3 || parts.size() > 4 || parts[0].empty()) {
    return Bad(key, "a host and two ports are needed");
  }
  const std::string host = WithoutBrackets(parts[0]);
  const std::optional<uint16_t> learner_port = Port(parts[1]);
  const std::optional<uint16_t> election_port = Port(parts[2]);
  if (!learner_port) return Bad(key, "`" + parts[1] + "` is not a port");
  if (!election_port) return Bad(key, "`" + parts[2] + "` is not a port");
  if (*learner_port == *election_port) return Bad(key, "the two ports must differ");
  member.learner = {host, *learner_port};
  member.election = {host, *election_port};
  if (parts.size() == 4 && parts[3] == "observer") {
    return Bad(key, "observers are not offered yet, every server votes");
  }
  if (parts.size() == 4 && parts[3] != "participant") {
    return Bad(key, "`" + parts[3] + "` is not a kind of server");
  }

  if (semicolon == std::string_view::npos) return member;
  const std::vector<std::string> client = SplitAtColons(value.substr(semicolon + 1));
  const std::optional<uint16_t> client_port = Port(client.back());
  if (client.size() > 2 || !client_port) {
    return Bad(key, "`" + std::string(value.substr(semicolon + 1)) + "` is not a client port");
  }
  member.client = Endpoint{client.size() == 2 ? WithoutBrackets(client[0]) : "", *client_port};
  return member;
}

}  // namespace lockstep::shell
