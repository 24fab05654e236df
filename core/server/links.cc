#include "core/server/links.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/base/random.h"

namespace lockstep::server {
namespace {

// Zab numbers the channels that it opens from 1; the connections of this file have this bit set.
constexpr uint64_t kElectionDial = uint64_t{1} << 62;

uint64_t EnsembleDigest(std::vector<ServerId> voters) {
  std::sort(voters.begin(), voters.end());
  uint64_t digest = 0;
  for (ServerId voter : voters) digest = Mix64(digest ^ voter.value);
  return digest;
}

}  // namespace

Links::Links(const LinksOptions& options)
    : options_(options), ensemble_(EnsembleDigest(options.voters)) {
  for (ServerId voter : options.voters) {
    if (voter != options.server) dialers_[voter].redial_after = options.redial_min;
  }
}

void Links::Start(Instant now, Output* output) {
  for (const auto& [voter, dialer] : dialers_) Dial(now, voter, output);
}

void Links::Dial(Instant now, ServerId to, Output* output) {
  Dialer& dialer = dialers_.at(to);
  dialer.connection = {kElectionDial | ++last_dialed_};
  dialer.redial_at = Instant::Never();
  Link link(options_.frame_bytes_max);
  link.dialed = true;
  link.peer = to;
  link.up_until = now + options_.dial_timeout;
  links_.emplace(dialer.connection, std::move(link));
  output->dials.push_back({dialer.connection, LinkKind::kElection, to});
}

void Links::OnWake(Instant now, Output* output, std::vector<zab::Input>* inputs) {
  for (const auto& [voter, dialer] : dialers_) {
    if (dialer.redial_at <= now) Dial(now, voter, output);
  }
  std::vector<ConnectionId> late;
  for (const auto& [connection, link] : links_) {
    if (!link.up && link.up_until <= now) late.push_back(connection);
  }
  for (ConnectionId connection : late) {
    const char* reason =
        links_.at(connection).dialed ? "no connection in time" : "no greeting in time";
    Refuse(now, connection, reason, output, inputs);
  }
}

Instant Links::next_deadline() const {
  Instant next = Instant::Never();
  for (const auto& [voter, dialer] : dialers_) next = std::min(next, dialer.redial_at);
  for (const auto& [connection, link] : links_) {
    if (!link.up) next = std::min(next, link.up_until);
  }
  return next;
}

void Links::OnAccepted(Instant now, ConnectionId connection, LinkKind kind, Output* output) {
  LS_CHECK(connection.accepted());
  size_t ungreeted = 0;
  for (const auto& [other, link] : links_) ungreeted += !link.dialed && !link.up ? 1 : 0;
  if (ungreeted >= options_.ungreeted_max) {
    output->events.push_back({.kind = EventKind::kConnectionRefused,
                              .detail = connection.value,
                              .reason = "too many peer connections without a greeting"});
    output->closes.push_back(connection);
    return;
  }
  Link link(options_.frame_bytes_max);
  link.kind = kind;
  link.up_until = now + options_.hello_timeout;
  links_.emplace(connection, std::move(link));
}

void Links::OnConnected(Instant now, ConnectionId connection, Output* output,
                        std::vector<zab::Input>* inputs) {
  auto found = links_.find(connection);
  if (found == links_.end()) return;  // closed by us while it was being opened
  Link& link = found->second;
  LS_CHECK(link.dialed);
  link.up = true;
  link.up_since = now;
  wire::EncodeHello({options_.server, link.peer, ensemble_}, &slices_);
  SendSlices(connection, link, output);
  if (link.kind == LinkKind::kElection) {
    inputs->push_back(zab::NotificationLinkUp{link.peer});
  } else {
    inputs->push_back(zab::ChannelOpened{connection});
  }
}

void Links::OnBytes(Instant now, ConnectionId connection, Bytes bytes, Output* output,
                    std::vector<zab::Input>* inputs) {
  auto found = links_.find(connection);
  if (found == links_.end()) return;  // closed by us
  Link& link = found->second;
  link.reader.Add(std::move(bytes));
  for (;;) {
    absl::StatusOr<std::optional<wire::Frame>> frame = link.reader.Next();
    if (!frame.ok()) return Refuse(now, connection, "bytes that are no frame", output, inputs);
    if (!*frame) return;
    if (!OnFrame(now, connection, link, **frame, output, inputs)) return;
  }
}

bool Links::OnFrame(Instant now, ConnectionId connection, Link& link, const wire::Frame& frame,
                    Output* output, std::vector<zab::Input>* inputs) {
  if (!link.up) return OnHello(now, connection, link, frame, output, inputs);
  if (link.kind == LinkKind::kElection) {
    if (link.dialed) {
      Refuse(now, connection, "a word on a one-way connection", output, inputs);
      return false;
    }
    absl::StatusOr<zab::Notification> notification = wire::DecodeNotification(frame);
    if (!notification.ok()) {
      Refuse(now, connection, "no notification", output, inputs);
      return false;
    }
    inputs->push_back(zab::ReceivedNotification{link.peer, *notification});
    return true;
  }
  absl::StatusOr<zab::Message> message = wire::DecodeMessage(frame);
  if (!message.ok()) {
    Refuse(now, connection, "no message", output, inputs);
    return false;
  }
  const auto* info = std::get_if<zab::FollowerInfo>(&*message);
  if (info != nullptr && info->server != link.peer) {
    Refuse(now, connection, "FOLLOWERINFO of another server than the greeting", output, inputs);
    return false;
  }
  inputs->push_back(zab::Received{connection, *std::move(message)});
  return true;
}

bool Links::OnHello(Instant now, ConnectionId connection, Link& link, const wire::Frame& frame,
                    Output* output, std::vector<zab::Input>* inputs) {
  absl::StatusOr<wire::Hello> hello = wire::DecodeHello(frame);
  const char* refused = nullptr;
  if (link.dialed) {
    refused = "a word before the connection was up";
  } else if (!hello.ok()) {
    refused = "no greeting";
  } else if (hello->to != options_.server) {
    refused = "greets another server: is an address wrong in a configuration?";
  } else if (hello->ensemble != ensemble_ || !dialers_.contains(hello->from)) {
    refused = "greets from another ensemble: do the server lines of all configurations agree?";
  }
  if (refused != nullptr) {
    Refuse(now, connection, refused, output, inputs);
    return false;
  }
  link.up = true;
  link.peer = hello->from;
  if (link.kind == LinkKind::kLearner) {
    inputs->push_back(zab::ChannelOpened{connection});
    return true;
  }
  // One accepted election connection a server is enough: the older one is dead or about to be.
  for (auto other = links_.begin(); other != links_.end(); ++other) {
    const Link& old = other->second;
    if (other->first == connection || old.dialed || old.kind != LinkKind::kElection || !old.up ||
        old.peer != hello->from) {
      continue;
    }
    output->closes.push_back(other->first);
    links_.erase(other);
    break;
  }
  return true;
}

void Links::Refuse(Instant now, ConnectionId connection, const char* reason, Output* output,
                   std::vector<zab::Input>* inputs) {
  Link& link = links_.at(connection);
  output->events.push_back({.kind = EventKind::kConnectionClosed,
                            .peer = link.peer,
                            .detail = connection.value,
                            .reason = reason});
  output->closes.push_back(connection);
  OnClosed(now, connection, inputs);
}

void Links::OnClosed(Instant now, ConnectionId connection, std::vector<zab::Input>* inputs) {
  auto found = links_.find(connection);
  if (found == links_.end()) return;  // closed by us
  Link& link = found->second;
  if (link.dialed && link.kind == LinkKind::kElection) {
    Dialer& dialer = dialers_.at(link.peer);
    dialer.connection = {};
    // One that is refused, or broken at once, is dialed ever more slowly; it may be answered by a
    // server that will have none of us.
    if (link.up && now - link.up_since >= options_.redial_max) {
      dialer.redial_after = options_.redial_min;
    }
    dialer.redial_at = now + dialer.redial_after;
    dialer.redial_after = std::min(dialer.redial_after * 2, options_.redial_max);
  }
  // The peer knows of a channel that it asked for, and of one that was greeted.
  if (link.kind == LinkKind::kLearner && (link.dialed || link.up)) {
    LS_CHECK(inputs != nullptr);
    inputs->push_back(zab::ChannelClosed{connection});
  }
  links_.erase(found);
}

void Links::OnWritten(ConnectionId connection, uint64_t bytes) {
  auto found = links_.find(connection);
  if (found == links_.end()) return;
  found->second.written += bytes;
  LS_CHECK_LE(found->second.written, found->second.sent);
}

std::vector<ServerId> Links::Reached() const {
  std::vector<ServerId> reached;
  for (const auto& [voter, dialer] : dialers_) {
    auto link = links_.find(dialer.connection);
    if (link != links_.end() && link->second.up) reached.push_back(voter);
  }
  return reached;
}

uint64_t Links::Backlog(ConnectionId connection) const {
  auto found = links_.find(connection);
  return found == links_.end() ? 0 : found->second.sent - found->second.written;
}

void Links::SendNotification(ServerId to, const zab::Notification& notification, Output* output) {
  auto found = links_.find(dialers_.at(to).connection);
  // Not up: the peer says its state anew when it is.
  if (found == links_.end() || !found->second.up) return;
  wire::EncodeNotification(notification, &slices_);
  SendSlices(found->first, found->second, output);
}

void Links::OpenChannel(Instant now, const zab::OpenChannel& open, Output* output) {
  LS_CHECK_EQ(open.channel.value & kElectionDial, 0u);
  Link link(options_.frame_bytes_max);
  link.kind = LinkKind::kLearner;
  link.dialed = true;
  link.peer = open.leader;
  link.up_until = now + options_.dial_timeout;
  links_.emplace(open.channel, std::move(link));
  output->dials.push_back({open.channel, LinkKind::kLearner, open.leader});
}

void Links::Send(ConnectionId channel, const zab::Message& message, Output* output) {
  auto found = links_.find(channel);
  if (found == links_.end()) return;  // ChannelClosed is under way to the peer
  LS_CHECK(found->second.up);
  wire::EncodeMessage(message, &slices_);
  SendSlices(channel, found->second, output);
}

void Links::Close(ConnectionId channel, Output* output) {
  if (links_.erase(channel) == 0) return;
  output->closes.push_back(channel);
}

void Links::SendSlices(ConnectionId connection, Link& link, Output* output) {
  for (Bytes& slice : slices_) {
    link.sent += slice.size();
    output->sends.push_back({connection, std::move(slice)});
  }
  slices_.clear();
}

}  // namespace lockstep::server
