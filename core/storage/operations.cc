#include "core/storage/operations.h"

#include "core/base/check.h"
#include "core/storage/file_names.h"

namespace lockstep::storage {
namespace {

const char* Verb(OpKind kind) {
  switch (kind) {
    case OpKind::kList:
      return "list";
    case OpKind::kRead:
      return "read";
    case OpKind::kCreate:
      return "create";
    case OpKind::kWrite:
      return "write";
    case OpKind::kSync:
      return "sync";
    case OpKind::kTruncate:
      return "truncate";
    case OpKind::kRename:
      return "rename";
    case OpKind::kRemove:
      return "remove";
    case OpKind::kSyncDirectory:
      return "sync the directory";
    case OpKind::kMakeDirectory:
      return "make the directory";
    case OpKind::kRemoveDirectory:
      return "remove the directory";
  }
  LS_UNREACHABLE();
}

}  // namespace

void Operations::Issue(Owner owner, uint64_t number, FileOp op, StoreOutput* output) {
  op.id = {incarnation_, first_ + under_way_.size()};
  uint64_t size = op.size;
  for (const Bytes& slice : op.data) size += slice.size();
  under_way_.emplace_back(Operation{.owner = owner,
                                    .number = number,
                                    .kind = op.kind,
                                    .directory = op.directory,
                                    .file = op.file,
                                    .offset = op.offset,
                                    .size = size});
  output->ops.push_back(std::move(op));
}

std::optional<Operation> Operations::Complete(const FileDone& done) {
  if (done.id.incarnation != incarnation_ || done.id.sequence < first_) return std::nullopt;
  const uint64_t index = done.id.sequence - first_;
  if (index >= under_way_.size()) return std::nullopt;
  std::optional<Operation> operation = std::move(under_way_[index]);
  under_way_[index].reset();
  while (!under_way_.empty() && !under_way_.front().has_value()) {
    under_way_.pop_front();
    ++first_;
  }
  return operation;
}

std::string DescribeFailure(const Operation& operation, const FileDone& done) {
  const std::string name = Describe(operation.directory, operation.file);
  const std::string because = done.message.empty() ? ToString(done.error) : done.message;
  if (done.error == FileError::kNoSpace) {
    return "the disk of " + name + " is full (" + because +
           "): free some space and start the server again; nothing that was acknowledged is lost";
  }
  if (done.error == FileError::kExists) {
    return std::string("cannot ") + Verb(operation.kind) + " " + name +
           ": it is there already, and this server has not made it. Its directories are for it "
           "alone: move away what another program, or another server, has put there, then start "
           "the server again; nothing that was acknowledged is lost";
  }
  return std::string("cannot ") + Verb(operation.kind) + " " + name + ": " + because +
         ". A failed file operation is never retried, since what the disk kept is unknown: check "
         "the disk and the permissions, then start the server again; it recovers what is durable";
}

}  // namespace lockstep::storage
