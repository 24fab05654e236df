// What only the leader's service does: owns the sessions, expires them, and turns requests of all
// servers into transactions to propose. Exists for one reign: a new leader starts from the tree.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/base/zxid.h"
#include "core/coordination/forward.h"
#include "core/coordination/prepare.h"
#include "core/coordination/service.h"
#include "core/coordination/sessions.h"
#include "core/coordination/tree.h"

namespace lockstep::coordination {

class LeaderDesk {
 public:
  struct AnswerTo {
    ServerId to;
    ForwardedAnswer answer;
  };

  // `tree` outlives this object. Every session of it gets its full timeout from `now`.
  LeaderDesk(const ServiceOptions& options, Epoch epoch, const Tree* tree, Instant now);

  // `wall_ms` is the wall clock at `now`. Proposals and events go to `output`, answers to
  // `answers`.
  void OnForwarded(Instant now, int64_t wall_ms, ServerId from, const Forwarded& forwarded,
                   ServiceOutput* output, std::vector<AnswerTo>* answers);
  void Touch(Instant now, SessionId session) { sessions_.Touch(session, now); }
  void OnProposed(Zxid last_proposed);
  // The transaction was applied to the tree.
  void OnApplied(Instant now, Zxid zxid, const TransactionHeader& header,
                 const TransactionBody& body);
  // Proposes to close the sessions whose time is over.
  void Expire(Instant now, int64_t wall_ms, ServiceOutput* output);
  Instant next_deadline() const { return sessions_.next_deadline(); }

 private:
  void OnSession(Instant now, int64_t wall_ms, ServerId from, const ForwardedSession& forwarded,
                 ServiceOutput* output, std::vector<AnswerTo>* answers);
  void OnValidation(Instant now, int64_t wall_ms, ServerId from,
                    const ForwardedValidation& forwarded, ServiceOutput* output,
                    std::vector<AnswerTo>* answers);
  void OnRequest(Instant now, int64_t wall_ms, ServerId from, const ForwardedRequest& forwarded,
                 ServiceOutput* output, std::vector<AnswerTo>* answers);
  TransactionBody Order(SessionOwner from, const ForwardedRequest& forwarded, OpCode op);

  const ServiceOptions& options_;
  const Epoch epoch_;
  SessionTracker sessions_;
  Preparer preparer_;
  Zxid last_proposed_;
};

}  // namespace lockstep::coordination
