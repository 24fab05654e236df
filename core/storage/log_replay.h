// What the retained journal says about the partition logs: for each, up to where its files are to
// be trusted, and what comes after.
//
// Why this is right, whatever truncations came in between. Let the retained journal begin, for one
// log, with the state (start, end0) and go on with the records r1 ... rn. A segment of the journal
// is dropped only when the files of all logs that it has records of have been synced since those
// records were carried out on them. So at the crash the files hold durably all of [start, end0),
// except for what r1 ... rn, as far as they had been carried out, have done to them since. Appends
// write behind the end only; a truncation to t changes nothing below t, and what is appended
// afterwards changes nothing below t either. So everything below
//
//     T = min(end0, every truncation among r1 ... rn)
//
// is as it was: trusted. And no record of the log's final state at or above T can come from before
// r1: if T = end0 there is none there; else T is one of the truncations, which removed everything
// above, and whatever the log has there has been appended by a record after it. All of that is in
// the retained journal. So: cut the files at T, and append what is left of the appends. The same
// holds when the crash comes again in the midst of that, since the files are only cut at T, and
// written above.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "core/storage/log_table.h"
#include "core/storage/store.h"

namespace lockstep::storage {

struct ReplayedLog {
  // The retained journal has made the log: its directory, or what is in it, may not be durable.
  bool created = false;
  // It has made the log empty somewhere above its end: nothing in the files is of use.
  bool reset = false;
  bool touched = false;          // it has any record of the log
  int64_t trusted_end = 0;       // T above
  bool ends_with_batch = false;  // the last batch below T ends there
  // Snapshots of producers above this, or any if `reset`, may be of a history that was cut.
  int64_t lowest_cut = INT64_MAX;
  std::vector<LogAppend> appends;  // what follows T, in order
};

class LogReplay {
 public:
  // The next record of the journal that counts. Returns null, or what is wrong with it at this
  // place.
  const char* Add(const Record& record);

  const LogTable& table() const { return table_; }
  absl::btree_map<LogNumber, ReplayedLog>& logs() { return logs_; }
  // Names of the directories of logs that the retained journal has deleted, and not made again.
  const std::vector<std::string>& deleted() const { return deleted_; }

 private:
  void Change(ReplayedLog* log, const LogExtent& before, const LogChange& change);

  bool began_ = false;
  LogTable table_;
  absl::btree_map<LogNumber, ReplayedLog> logs_;
  std::vector<std::string> deleted_;
};

}  // namespace lockstep::storage
