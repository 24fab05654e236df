// Which file operations may be carried out at the same time: the order that storage::FileOp
// promises, and no other. Reads do not wait for the syncs of the disk, nor those of one file for
// what happens to another.
//
// Operations on one file, and those on the entries of one directory, are carried out in the order
// in which they were given, except for what makes no difference: reads beside each other, and
// beside writes elsewhere in the file (who reads what is old does not hold up an append); a sync
// beside reads, and beside writes that come after it, which may then be durable early.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/storage/file_ops.h"

namespace lockstep::shell {

// Not synchronized.
class FileOrder {
 public:
  // Names an operation as long as it is under way: dense from 1, in the order of Add.
  using Ticket = uint64_t;

  // Takes an operation of Directory::kLogs. True: it may be carried out at once. False: Done will
  // tell when.
  // Writes to one file that are told together are to be carried out in the order of their tickets.
  bool Add(const storage::FileOp& op, Ticket* ticket);

  // It has been carried out. Appends those that may be carried out now, ascending.
  void Done(Ticket ticket, std::vector<Ticket>* ready);

  size_t under_way() const { return operations_.size(); }

 private:
  enum class Mode : uint8_t { kRead, kSync, kWrite, kChange };
  static constexpr size_t kModes = 4;

  // What an operation does to a file, or to the entries of a directory. Of reads and writes, where.
  struct Access {
    Mode mode = Mode::kRead;
    uint64_t begin = 0;
    uint64_t end = UINT64_MAX;  // exclusive
  };
  struct Queue {
    std::array<size_t, kModes> active = {};  // so many of each
    std::map<Ticket, Access> ranges;         // of active reads and writes
    std::deque<std::pair<Ticket, Access>> waiting;
  };
  struct Claim {
    std::map<std::string, Queue, std::less<>>::iterator queue;
    Mode mode = Mode::kRead;
  };
  struct Operation {
    std::vector<Claim> claims;
    size_t waits_for = 0;  // so many of the claims
  };

  static bool MayStart(const Queue& queue, const Access& access);
  static void Start(Queue* queue, Ticket ticket, const Access& access);
  void Take(Ticket ticket, Operation* operation, std::string_view key, const Access& access);

  std::map<Ticket, Operation> operations_;
  // By the file's path; of a directory's entries, its path and a slash.
  std::map<std::string, Queue, std::less<>> queues_;
  Ticket last_ = 0;
};

}  // namespace lockstep::shell
