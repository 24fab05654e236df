#include "core/coordination/leader.h"

#include <variant>

#include "core/base/check.h"

namespace lockstep::coordination {

LeaderDesk::LeaderDesk(const ServiceOptions& options, Epoch epoch, const Tree* tree, Instant now)
    : options_(options),
      epoch_(epoch),
      sessions_(options.tick),
      // What closing a session writes into one transaction is bounded like a client's frame.
      preparer_(tree, options.rules, options.frame_bytes_max),
      last_proposed_(tree->last_zxid()) {
  for (const auto& [id, session] : tree->sessions()) {
    const Duration timeout = Milliseconds(session.timeout_ms);
    // We do not know when the old leader heard from the session last, and its client may have spent
    // its time looking for us: anything less than the full timeout expires sessions that are alive.
    const Instant from = options.rules.full_timeout_under_a_new_leader ? now : now - timeout;
    SessionTracker::Entry& entry = sessions_.Add(id, timeout, session.password, {}, from);
    for (const std::string& path : session.ephemerals) entry.ephemeral_bytes += path.size();
  }
}

void LeaderDesk::OnForwarded(Instant now, int64_t wall_ms, ServerId from,
                             const Forwarded& forwarded, ServiceOutput* output,
                             std::vector<AnswerTo>* answers) {
  if (const auto* request = std::get_if<ForwardedRequest>(&forwarded)) {
    OnRequest(now, wall_ms, from, *request, output, answers);
  } else if (const auto* session = std::get_if<ForwardedSession>(&forwarded)) {
    OnSession(now, wall_ms, from, *session, output, answers);
  } else {
    OnValidation(now, wall_ms, from, std::get<ForwardedValidation>(forwarded), output, answers);
  }
}

void LeaderDesk::OnSession(Instant now, int64_t wall_ms, ServerId from,
                           const ForwardedSession& forwarded, ServiceOutput* output,
                           std::vector<AnswerTo>* answers) {
  // The tracker knows every session of the tree and every one whose creation is in flight.
  const bool taken = sessions_.Find(forwarded.session) != nullptr;
  if (taken || sessions_.size() >= options_.sessions_max) {
    answers->push_back({from, SessionRefused{.ticket = forwarded.ticket, .full = !taken}});
    return;
  }
  sessions_.Add(forwarded.session, Milliseconds(forwarded.timeout_ms), forwarded.password,
                {from, forwarded.ticket}, now);
  preparer_.PrepareOther();
  output->proposals.push_back(
      EncodeTransaction({.session = forwarded.session,
                         .origin = from,
                         .connection = forwarded.ticket,
                         .time_ms = wall_ms},
                        CreateSessionTransaction{.timeout_ms = forwarded.timeout_ms,
                                                 .password = forwarded.password}));
}

void LeaderDesk::OnValidation(Instant now, int64_t wall_ms, ServerId from,
                              const ForwardedValidation& forwarded, ServiceOutput* output,
                              std::vector<AnswerTo>* answers) {
  SessionTracker::Entry* entry = sessions_.Find(forwarded.session);
  if (entry == nullptr || entry->closing || entry->password != forwarded.password) {
    // Told only once it is committed, which is after the end of a session that is closing. Told
    // earlier, the client would act on the absence of its ephemerals, and a new leader without the
    // proposal keeps them. Or we were deposed without knowing it, and the session began under our
    // successor.
    preparer_.PrepareOther();
    output->proposals.push_back(EncodeTransaction({.session = forwarded.session,
                                                   .origin = from,
                                                   .connection = forwarded.ticket,
                                                   .time_ms = wall_ms},
                                                  ErrorTransaction{ErrorCode::kSessionExpired}));
    return;
  }
  const SessionOwner before = entry->owner;
  entry->owner = {from, forwarded.ticket};
  sessions_.Touch(forwarded.session, now);
  // What the old connection has forwarded and we have proposed keeps its place; from here on only
  // the new one is heard.
  if (before.server) answers->push_back({before.server, ConnectionSuperseded{before.ticket}});
  if (before.server && before.server != from) {
    output->events.push_back({.kind = EventKind::kSessionMoved,
                              .peer = from,
                              .detail = static_cast<uint64_t>(forwarded.session.value)});
  }
  answers->push_back(
      {from, SessionValidated{.ticket = forwarded.ticket,
                              .timeout_ms = static_cast<int32_t>(entry->timeout.Milliseconds())}});
}

void LeaderDesk::OnRequest(Instant now, int64_t wall_ms, ServerId from,
                           const ForwardedRequest& forwarded, ServiceOutput* output,
                           std::vector<AnswerTo>* answers) {
  const RequestHeader header = PeekHeader(forwarded.frame);
  sessions_.Touch(forwarded.session, now);
  if (header.op == OpCode::kSync) {
    // Whatever was committed before the client asked was proposed before, by us or by a leader
    // whose history we have taken over.
    answers->push_back(
        {from, SyncPoint{.ticket = forwarded.ticket, .xid = header.xid, .zxid = last_proposed_}});
    return;
  }
  TransactionBody body = Order({from, forwarded.ticket}, forwarded, header.op);
  output->proposals.push_back(EncodeTransaction({.session = forwarded.session,
                                                 .origin = from,
                                                 .connection = forwarded.ticket,
                                                 .xid = header.xid,
                                                 .time_ms = wall_ms},
                                                body));
}

// A refused request is proposed too, as an error: its reply has to come after those of the requests
// before it, and carries the zxid as of which it was refused.
TransactionBody LeaderDesk::Order(SessionOwner from, const ForwardedRequest& forwarded, OpCode op) {
  auto refuse = [&](ErrorCode error) {
    preparer_.PrepareOther();
    return ErrorTransaction{.error = error};
  };
  SessionTracker::Entry* entry = sessions_.Find(forwarded.session);
  if (entry == nullptr || entry->closing) return refuse(ErrorCode::kSessionExpired);
  // The request was on its way when the client turned up elsewhere. The client has given it up, and
  // may have sent other writes since: carrying it out now would reorder them.
  if (options_.rules.refuse_moved_sessions && entry->owner != from) {
    return refuse(ErrorCode::kSessionMoved);
  }
  if (op == OpCode::kCloseSession) {
    sessions_.StartClosing(forwarded.session);
    return preparer_.PrepareClose(forwarded.session);
  }
  absl::StatusOr<Request> request = DecodeRequest(forwarded.frame);
  if (!request.ok()) return refuse(ErrorCode::kMarshallingError);
  TransactionBody body = preparer_.Prepare(forwarded.session, entry->ephemeral_bytes, *request);
  for (const auto& [session, change] : preparer_.last_ephemeral_bytes()) {
    if (SessionTracker::Entry* owner = sessions_.Find(session)) {
      owner->ephemeral_bytes += static_cast<uint64_t>(change);
    }
  }
  return body;
}

void LeaderDesk::OnProposed(Zxid last_proposed) {
  LS_CHECK(last_proposed_ <= last_proposed);
  last_proposed_ = last_proposed;
}

void LeaderDesk::OnApplied(Instant now, Zxid zxid, const TransactionHeader& header,
                           const TransactionBody& body) {
  if (zxid.epoch == epoch_) {
    preparer_.OnDelivered();
  } else if (const auto* session = std::get_if<CreateSessionTransaction>(&body)) {
    // Committed under an earlier leader, and applied here only now: nothing that we prepared.
    sessions_.Add(header.session, Milliseconds(session->timeout_ms), session->password, {}, now);
  }
  if (std::holds_alternative<CloseSessionTransaction>(body)) sessions_.Remove(header.session);
}

void LeaderDesk::Expire(Instant now, int64_t wall_ms, ServiceOutput* output) {
  for (SessionId session : sessions_.Due(now)) {
    sessions_.StartClosing(session);
    output->events.push_back(
        {.kind = EventKind::kSessionExpired, .detail = static_cast<uint64_t>(session.value)});
    output->proposals.push_back(EncodeTransaction({.session = session, .time_ms = wall_ms},
                                                  preparer_.PrepareClose(session)));
  }
}

}  // namespace lockstep::coordination
