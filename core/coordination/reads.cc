#include "core/coordination/reads.h"

#include <string>
#include <utility>
#include <variant>

#include "core/coordination/access.h"

namespace lockstep::coordination {
namespace {

// Of the results of one multiRead; what comes after that many is refused. Java's clients take
// answers of 1 MiB.
constexpr size_t kMultiReadBytesMax = 4 << 20;
constexpr size_t kMultiReadResultBytes = 128;  // in memory, beside what it reads

class Reader {
 public:
  Reader(const Tree& tree, ConnectionId watcher, RequestHeader header, Watches* watches)
      : tree_(tree), watcher_(watcher), header_(header), watches_(watches) {}

  Bytes Exists(const ExistsRequest& request) {
    if (request.path.find('\0') != std::string_view::npos) return Error(ErrorCode::kBadArguments);
    // Also where there is no node: this is how a client waits for its creation.
    if (request.watch) Watch(request.path, kWatchData);
    const Znode* node = tree_.Find(request.path);
    if (node == nullptr) return Error(ErrorCode::kNoNode);
    return Reply(StatResponse{Tree::StatOf(*node)});
  }

  Bytes GetData(const GetDataRequest& request) {
    const Znode* node = tree_.Find(request.path);
    if (ErrorCode error = Readable(node); error != ErrorCode::kOk) return Error(error);
    if (request.watch) Watch(request.path, kWatchData);
    return Reply(GetDataResponse{{node->data(), node->null_data()}, Tree::StatOf(*node)});
  }

  Bytes GetAcl(const GetAclRequest& request) {
    const Znode* node = tree_.Find(request.path);
    if (node == nullptr) return Error(ErrorCode::kNoNode);
    if (!Allows(*node, kPermissionRead | kPermissionAdmin)) return Error(ErrorCode::kNoAuth);
    return Reply(GetAclResponse{node->acl(), Tree::StatOf(*node)});
  }

  Bytes GetChildren(const GetChildrenRequest& request) {
    const Znode* node = tree_.Find(request.path);
    if (ErrorCode error = Readable(node); error != ErrorCode::kOk) return Error(error);
    if (request.watch) Watch(request.path, kWatchChildren);
    if (header_.op == OpCode::kGetChildren) return Reply(GetChildrenResponse{node->ChildNames()});
    return Reply(GetChildren2Response{node->ChildNames(), Tree::StatOf(*node)});
  }

  // Each operation succeeds or fails by itself, as of one state.
  Bytes MultiRead(const MultiReadRequest& request) {
    MultiResponse response;
    response.results.reserve(request.operations.size());
    size_t bytes = 0;
    for (const MultiReadRequest::Operation& operation : request.operations) {
      const std::string_view path =
          std::visit([](const auto& one) { return one.path; }, operation.body);
      const Znode* node = tree_.Find(path);
      ErrorCode error = Readable(node);
      // A request of a few bytes may ask for the same megabyte again and again.
      if (error == ErrorCode::kOk && bytes > kMultiReadBytesMax) error = ErrorCode::kQuotaExceeded;
      if (error != ErrorCode::kOk) {
        response.results.push_back({OpCode::kError, ErrorResponse{error}});
      } else if (const auto* data = std::get_if<GetDataRequest>(&operation.body)) {
        if (data->watch) Watch(path, kWatchData);
        bytes += node->data().size() + kMultiReadResultBytes;
        response.results.push_back({operation.op, GetDataResponse{{node->data(), node->null_data()},
                                                                  Tree::StatOf(*node)}});
      } else {
        const auto& children = std::get<GetChildrenRequest>(operation.body);
        if (children.watch) Watch(path, kWatchChildren);
        GetChildrenResponse names{node->ChildNames()};
        for (std::string_view name : names.children) bytes += name.size() + sizeof name;
        bytes += kMultiReadResultBytes;
        response.results.push_back({operation.op, std::move(names)});
      }
    }
    return Reply(response);
  }

  // A watch whose event the client has missed while it was away fires at once, before the reply.
  ReadAnswer SetWatches(const SetWatchesRequest& request) {
    ReadAnswer answer;
    auto fire = [&](WatchEventType type, std::string_view path) {
      answer.events.push_back(EncodeWatcherEvent(kEventZxid, {.type = type, .path = path}));
    };
    for (std::string_view path : request.data) {
      const Znode* node = tree_.Find(path);
      if (node == nullptr) {
        fire(WatchEventType::kNodeDeleted, path);
      } else if (node->stat().mzxid > request.relative_zxid) {
        fire(WatchEventType::kNodeDataChanged, path);
      } else {
        Watch(path, kWatchData);
      }
    }
    for (std::string_view path : request.exist) {
      if (tree_.Find(path) != nullptr) {
        fire(WatchEventType::kNodeCreated, path);
      } else {
        Watch(path, kWatchData);
      }
    }
    for (std::string_view path : request.child) {
      const Znode* node = tree_.Find(path);
      if (node == nullptr) {
        fire(WatchEventType::kNodeDeleted, path);
      } else if (node->stat().pzxid > request.relative_zxid) {
        fire(WatchEventType::kNodeChildrenChanged, path);
      } else {
        Watch(path, kWatchChildren);
      }
    }
    answer.reply = Reply(EmptyResponse());
    return answer;
  }

  ReadAnswer SetWatches2(const SetWatches2Request& request) {
    // Persistent ones tell what changes from here on: what has changed meanwhile, the client sees
    // when it reads.
    for (std::string_view path : request.persistent) Watch(path, kWatchPersistent);
    for (std::string_view path : request.recursive) Watch(path, kWatchRecursive);
    return SetWatches(request.one_shot);
  }

  // Whether there is a node does not matter.
  Bytes AddWatch(const AddWatchRequest& request) {
    switch (request.mode) {
      case AddWatchMode::kPersistent:
        Watch(request.path, kWatchPersistent);
        return Reply(AddWatchResponse());
      case AddWatchMode::kPersistentRecursive:
        Watch(request.path, kWatchRecursive);
        return Reply(AddWatchResponse());
    }
    return Error(ErrorCode::kMarshallingError);
  }

  Bytes CheckOrRemoveWatches(const RemoveWatchesRequest& request) {
    const WatchKinds kinds = KindsOf(request.type);
    if (kinds == 0) return Error(ErrorCode::kMarshallingError);
    const std::string path(request.path);
    const bool found = header_.op == OpCode::kCheckWatches
                           ? watches_->Has(path, watcher_, kinds)
                           : watches_->Remove(path, watcher_, kinds);
    return found ? Reply(EmptyResponse()) : Error(ErrorCode::kNoWatcher);
  }

  Bytes Error(ErrorCode error) {
    return EncodeReply({.xid = header_.xid, .zxid = tree_.last_zxid(), .error = error});
  }

 private:
  static bool Allows(const Znode& node, int32_t permissions) {
    return (PermissionsOf(node.acl()) & permissions) != 0;
  }
  static ErrorCode Readable(const Znode* node) {
    if (node == nullptr) return ErrorCode::kNoNode;
    return Allows(*node, kPermissionRead) ? ErrorCode::kOk : ErrorCode::kNoAuth;
  }
  // None for a type that does not exist.
  static WatchKinds KindsOf(WatcherType type) {
    switch (type) {
      case WatcherType::kChildren:
        return kWatchChildren;
      case WatcherType::kData:
        return kWatchData;
      case WatcherType::kAny:
        return kWatchAny;
      case WatcherType::kPersistent:
        return kWatchPersistent;
      case WatcherType::kPersistentRecursive:
        return kWatchRecursive;
    }
    return 0;
  }
  void Watch(std::string_view path, WatchKinds kinds) {
    watches_->Add(std::string(path), watcher_, kinds);
  }
  Bytes Reply(const ResponseBody& body) {
    return EncodeReply({.xid = header_.xid, .zxid = tree_.last_zxid()}, body);
  }

  const Tree& tree_;
  const ConnectionId watcher_;
  const RequestHeader header_;
  Watches* const watches_;
};

}  // namespace

ReadAnswer AnswerRead(const Tree& tree, ConnectionId watcher, const Bytes& frame,
                      Watches* watches) {
  Reader reader(tree, watcher, PeekHeader(frame), watches);
  absl::StatusOr<Request> request = DecodeRequest(frame);
  if (!request.ok()) return {{}, reader.Error(ErrorCode::kMarshallingError)};
  const RequestBody& body = request->body;
  if (const auto* exists = std::get_if<ExistsRequest>(&body)) return {{}, reader.Exists(*exists)};
  if (const auto* data = std::get_if<GetDataRequest>(&body)) return {{}, reader.GetData(*data)};
  if (const auto* acl = std::get_if<GetAclRequest>(&body)) return {{}, reader.GetAcl(*acl)};
  if (const auto* children = std::get_if<GetChildrenRequest>(&body)) {
    return {{}, reader.GetChildren(*children)};
  }
  if (const auto* multi = std::get_if<MultiReadRequest>(&body)) {
    return {{}, reader.MultiRead(*multi)};
  }
  if (const auto* set_watches = std::get_if<SetWatchesRequest>(&body)) {
    return reader.SetWatches(*set_watches);
  }
  if (const auto* set_watches = std::get_if<SetWatches2Request>(&body)) {
    return reader.SetWatches2(*set_watches);
  }
  if (const auto* add = std::get_if<AddWatchRequest>(&body)) return {{}, reader.AddWatch(*add)};
  if (const auto* remove = std::get_if<RemoveWatchesRequest>(&body)) {
    return {{}, reader.CheckOrRemoveWatches(*remove)};
  }
  return {{}, reader.Error(ErrorCode::kUnimplemented)};
}

}  // namespace lockstep::coordination
