// What a world tells of itself beside lines, and the canary of the checks of determinism.
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "sim/world.h"

namespace lockstep::sim {
namespace {

const char* KindName(Delivery::Kind kind) {
  switch (kind) {
    case Delivery::Kind::kAccepted:
      return "accepted";
    case Delivery::Kind::kConnected:
      return "connected";
    case Delivery::Kind::kBytes:
      return "bytes";
    case Delivery::Kind::kClosed:
      return "closed";
    case Delivery::Kind::kWritten:
      return "written";
  }
  LS_UNREACHABLE();
}

}  // namespace

std::string World::NodeName(uint32_t node) const {
  if (node < plan_.servers) return ServerName(node);
  const uint32_t client = node - plan_.servers;
  if (client < clients_.size()) return absl::StrCat("c", client);
  return kafka_clients_[client - clients_.size()]->name();
}

void World::TraceWorld() const {
  if (trace_->observer() != nullptr) {
    std::vector<std::string> names;
    const uint32_t nodes = plan_.servers + clients();
    for (uint32_t node = 0; node < nodes; ++node) names.push_back(NodeName(node));
    trace_->observer()->OnWorld(names, plan_.servers);
  }
  if (trace_->on()) trace_->Line("plan", "", Describe(plan_));
}

void World::TraceSent(uint32_t node, ConnectionId connection, const Bytes& data) const {
  if (trace_->observer() == nullptr) return;
  if (const std::optional<Network::Route> route = network_.RouteOf(node, connection)) {
    trace_->observer()->OnSent({now_, node, route->to, route->link, route->stream, data});
  }
}

void World::TraceDelivery(const Delivery& delivery) const {
  if (!trace_->on()) return;
  trace_->Line(
      NodeName(delivery.node), KindName(delivery.kind),
      absl::StrCat(server::ToString(delivery.link), " ", delivery.connection.ToString(), " with ",
                   NodeName(delivery.from), " ", delivery.data.size() + delivery.written, "B"));
  if (trace_->observer() == nullptr || delivery.kind != Delivery::Kind::kBytes) return;
  trace_->observer()->OnReceived(
      {now_, delivery.from, delivery.node, delivery.link, delivery.stream, delivery.data});
}

std::string World::LastEvent() const {
  return absl::StrCat("at ", now_.ns, " ns: ", TaskName(last_.kind), " of ", last_.who, "/",
                      last_.what, "/", last_.which);
}

// What no seed decides moves an event by less than a millisecond: as little as an uninitialised
// byte or the order of a hash map would.
void World::Leak() {
  const Duration late = Microseconds(static_cast<int64_t>(leak_() % 1000));
  queue_.Push(now_ + late, {TaskKind::kClock, 0, 0, hosts_[0].incarnation});
}

}  // namespace lockstep::sim
