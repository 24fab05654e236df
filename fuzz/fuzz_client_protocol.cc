// Bytes from a client or a server of ZooKeeper's protocol: cut into frames and decoded as
// everything they could be; what decodes is encoded again, and the same comes back.
//
// The first byte says where the stream is cut. The whole input is tried as one frame too, so that
// the fuzzer need not get a length right first.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "core/base/check.h"
#include "core/base/frame_cutter.h"
#include "core/coordination/path.h"
#include "core/coordination/protocol.h"

namespace {

using lockstep::Bytes;
using lockstep::FrameCutter;
using lockstep::Zxid;
using namespace lockstep::coordination;

constexpr OpCode kOps[] = {
    OpCode::kCreate,      OpCode::kDelete,   OpCode::kExists,       OpCode::kGetData,
    OpCode::kSetData,     OpCode::kGetAcl,   OpCode::kSetAcl,       OpCode::kGetChildren,
    OpCode::kSync,        OpCode::kPing,     OpCode::kGetChildren2, OpCode::kCreate2,
    OpCode::kAuth,        OpCode::kMulti,    OpCode::kSetWatches,   OpCode::kCloseSession,
    OpCode::kSetWatches2, OpCode::kAddWatch, OpCode::kCheckWatches, OpCode::kRemoveWatches,
    OpCode::kMultiRead,   OpCode{99},
};

Bytes WithoutLength(const Bytes& frame) {
  FrameCutter cutter(1 << 30);
  cutter.Add(frame);
  auto inner = cutter.Next();
  LS_CHECK(inner.ok() && inner->has_value());
  LS_CHECK_EQ(cutter.buffered(), size_t{0});
  return **inner;
}

template <typename Decode, typename Encode>
void RoundTrip(const Bytes& frame, Decode decode, Encode encode) {
  auto record = decode(frame);
  if (!record.ok()) return;
  // The frame stands by its name: a decoded record may be a view of it.
  const Bytes encoded = WithoutLength(encode(*record));
  auto again = decode(encoded);
  LS_CHECK(again.ok());
  LS_CHECK(*again == *record);
}

void DecodeRequestOf(const Bytes& frame) {
  auto request = DecodeRequest(frame);
  if (!request.ok()) return;
  auto again =
      DecodeRequest(WithoutLength(EncodeRequest(request->xid, request->op, request->body)));
  LS_CHECK(again.ok());
  LS_CHECK(again->xid == request->xid && again->op == request->op);
  LS_CHECK(again->body == request->body);
}

void DecodeAll(const Bytes& frame) {
  RoundTrip(frame, DecodeConnectRequest, EncodeConnectRequest);
  RoundTrip(frame, DecodeConnectResponse, EncodeConnectResponse);
  RoundTrip(frame, DecodeWatcherEvent,
            [](const WatcherEvent& event) { return EncodeWatcherEvent(Zxid(), event); });
  DecodeRequestOf(frame);
  auto header = DecodeReplyHeader(frame);
  for (OpCode op : kOps) {
    RoundTrip(
        frame, [op](const Bytes& bytes) { return DecodeResponse(op, bytes); },
        [&](const ResponseBody& body) { return EncodeReply(*header, body); });
  }
  if (frame.size() > 1 && ValidatePath(frame.view()).ok()) {
    LS_CHECK(ValidatePath(ParentPath(frame.view())).ok());
    LS_CHECK(!NodeName(frame.view()).empty());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const Bytes stream =
      Bytes::Copy(std::string_view(reinterpret_cast<const char*>(data) + 1, size - 1));
  DecodeAll(stream);

  const size_t cut = stream.size() * data[0] / 256;
  FrameCutter cutter(1 << 16);
  size_t taken = 0;
  for (const Bytes& piece : {stream.Slice(0, cut), stream.Slice(cut)}) {
    cutter.Add(piece);
    taken += piece.size();
    while (true) {
      auto frame = cutter.Next();
      if (!frame.ok()) return 0;
      if (!frame->has_value()) break;
      LS_CHECK_GE(taken, (*frame)->size() + 4);
      taken -= (*frame)->size() + 4;
      DecodeAll(**frame);
    }
    LS_CHECK_EQ(cutter.buffered(), taken);
  }
  return 0;
}
