// Inputs of one zab::Peer, in any order that a host may give them, with messages of any content: no
// word of a peer may stop a server, and its invariants hold after every step.
//
// One thing is not fed: a TRUNC or SNAP below what the server knows to be committed. There the
// server stops on purpose (docs/zab.md, "Failures").
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/zab/peer.h"

namespace lockstep::zab {
namespace {

class Choices {
 public:
  Choices(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool empty() const { return at_ == size_; }
  uint8_t Next() { return empty() ? 0 : data_[at_++]; }
  // Mostly small, so that things meet; now and then from the end of the range.
  uint32_t Number() {
    uint8_t byte = Next();
    if (byte >= 0xf8) return 0xffff'ffff - (byte - 0xf8);
    return byte % 8;
  }
  Zxid AnyZxid() {
    uint32_t epoch = Number();
    return {{epoch}, Number()};
  }

 private:
  const uint8_t* data_;
  size_t size_;
  size_t at_ = 0;
};

lockstep::Bytes Payload(Choices& bytes) {
  return lockstep::Bytes::Copy(std::string(bytes.Next() % 4, 'x'));
}

Message AnyMessage(Choices& bytes) {
  switch (bytes.Next() % 16) {
    case 0:
      return FollowerInfo{{bytes.Number()}, {bytes.Number()}};
    case 1:
      return LeaderInfo{{bytes.Number()}};
    case 2: {
      AckEpoch ack;
      if (bytes.Next() % 4 != 0) ack.current_epoch = Epoch{bytes.Number()};
      for (size_t count = bytes.Next() % 4; count > 0; count--) {
        ack.epoch_ends.push_back(bytes.AnyZxid());
      }
      bool consistent = bytes.Next() % 8 != 0 && !ack.epoch_ends.empty();
      ack.last_zxid = consistent ? ack.epoch_ends.back() : bytes.AnyZxid();
      return ack;
    }
    case 3:
      return Diff{bytes.AnyZxid()};
    case 4: {
      Zxid to = bytes.AnyZxid();
      return Trunc{to, bytes.AnyZxid()};
    }
    case 5: {
      Zxid zxid = bytes.AnyZxid();
      return Snap{zxid, bytes.AnyZxid()};
    }
    case 6: {
      lockstep::Bytes data = Payload(bytes);
      return SnapChunk{data, bytes.Next() % 2 == 0};
    }
    case 7:
      return NewLeader{{bytes.Number()}};
    case 8:
      return AckNewLeader{{bytes.Number()}};
    case 9:
      return UpToDate{bytes.AnyZxid()};
    case 10: {
      Zxid zxid = bytes.AnyZxid();
      Zxid previous = bytes.AnyZxid();
      return Proposal{zxid, previous, Payload(bytes)};
    }
    case 11:
      return Ack{bytes.AnyZxid()};
    case 12:
      return Commit{bytes.AnyZxid()};
    case 13:
      return Ping{Payload(bytes)};
    case 14:
      return Request{Payload(bytes)};
    default:
      return Reply{Payload(bytes)};
  }
}

// Keeps what a host has to keep: which channels are there, and which writes were asked for.
class Host {
 public:
  Host() : peer_(Options(), {}) { Step(Wake{}); }

  void Run(Choices& bytes) {
    switch (bytes.Next() % 12) {
      case 0:
        now_ = now_ + Milliseconds(bytes.Next() * 8);
        return Step(Wake{});
      case 1:
      case 2: {
        Notification n;
        n.state = static_cast<ServerState>(bytes.Next() % 4);
        n.round = bytes.Number();
        n.vote.current_epoch = {bytes.Number()};
        n.vote.last_zxid = bytes.AnyZxid();
        n.vote.leader = {1 + bytes.Next() % 4u};
        return Step(ReceivedNotification{{1 + bytes.Next() % 4u}, n});
      }
      case 3: {
        ConnectionId channel{ConnectionId::kAccepted | ++accepted_};
        open_.push_back(channel);
        return Step(ChannelOpened{channel});
      }
      case 4: {
        if (asked_.empty()) return;
        ConnectionId channel = Take(&asked_, bytes);
        if (bytes.Next() % 4 == 0) return Step(ChannelClosed{channel});
        open_.push_back(channel);
        return Step(ChannelOpened{channel});
      }
      case 5:
        if (open_.empty()) return;
        return Step(ChannelClosed{Take(&open_, bytes)});
      case 6:
        if (writes_ == persisted_) return;
        persisted_ += 1 + bytes.Next() % (writes_ - persisted_);
        return Step(Persisted{{persisted_}});
      case 7:
        if (bytes.Next() % 2 == 0) return Step(AnswerPing{Payload(bytes)});
        if (bytes.Next() % 8 == 0) return Step(SendPing{{2}, Payload(bytes)});
        if (peer_.CanPropose()) Step(Propose{Payload(bytes)});
        return;
      case 8: {
        if (open_.empty()) return;
        lockstep::Bytes data = Payload(bytes);
        return Step(SnapshotChunk{open_[bytes.Next() % open_.size()], data, bytes.Next() % 2 == 0});
      }
      default: {
        if (open_.empty()) return;
        ConnectionId channel = open_[bytes.Next() % open_.size()];
        Message message = AnyMessage(bytes);
        if (const auto* trunc = std::get_if<Trunc>(&message)) {
          if (trunc->to < peer_.committed_zxid()) return;
        }
        if (const auto* snap = std::get_if<Snap>(&message)) {
          if (snap->zxid < peer_.committed_zxid()) return;
        }
        return Step(Received{channel, std::move(message)});
      }
    }
  }

 private:
  static PeerOptions Options() {
    PeerOptions options;
    options.server = {2};
    options.voters = {{1}, {2}, {3}};
    options.window_transactions = 4;
    options.counter_max = 5;
    options.channel_attempts_max = 3;
    return options;
  }
  static ConnectionId Take(std::vector<ConnectionId>* from, Choices& bytes) {
    size_t index = bytes.Next() % from->size();
    ConnectionId taken = (*from)[index];
    from->erase(from->begin() + static_cast<ptrdiff_t>(index));
    return taken;
  }

  void Step(const Input& input) {
    output_.Clear();
    peer_.Step(now_, input, &output_);
    writes_ += output_.persists.size();
    for (const OpenChannel& open : output_.opens) asked_.push_back(open.channel);
    for (const auto& send : output_.sends) {
      // What is sent goes to a channel that is there.
      if (std::find(open_.begin(), open_.end(), send.channel) == open_.end()) __builtin_trap();
    }
    for (ConnectionId channel : output_.closes) {
      std::erase(open_, channel);
      std::erase(asked_, channel);
    }
  }

  Peer peer_;
  Instant now_;
  Output output_;
  std::vector<ConnectionId> asked_;
  std::vector<ConnectionId> open_;
  uint64_t accepted_ = 0;
  uint64_t writes_ = 0;
  uint64_t persisted_ = 0;
};

}  // namespace
}  // namespace lockstep::zab

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lockstep::zab::Choices bytes(data, size);
  lockstep::zab::Host host;
  while (!bytes.empty()) host.Run(bytes);
  return 0;
}
