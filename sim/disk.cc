#include "sim/disk.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/base/random.h"
#include "sim/purpose.h"

namespace lockstep::sim {

using storage::FileDone;
using storage::FileError;
using storage::FileOp;
using storage::OpKind;

namespace {

std::string KeyOf(storage::Directory directory, std::string_view file) {
  static constexpr char kLetters[] = {'d', 'l', 'p'};
  std::string key(1, kLetters[static_cast<size_t>(directory)]);
  key.append(file);
  return key;
}

// Of the entries of the directory itself, or of a subdirectory.
std::string EntriesKey(storage::Directory directory, std::string_view subdirectory) {
  return KeyOf(directory, std::string(subdirectory) + "/");
}

// The last part of a path.
std::string_view NameOf(std::string_view path) {
  const std::string_view subdirectory = storage::SubdirectoryOf(path);
  return subdirectory.empty() ? path : path.substr(subdirectory.size() + 1);
}

// All chains that an operation belongs to.
std::vector<std::string> KeysOf(const FileOp& op) {
  std::vector<std::string> keys;
  const bool whole = op.kind == OpKind::kList || op.kind == OpKind::kSyncDirectory;
  if (!op.file.empty() && !whole) keys.push_back(KeyOf(op.directory, op.file));
  if (!op.target.empty()) keys.push_back(KeyOf(op.directory, op.target));
  switch (op.kind) {
    case OpKind::kList:
    case OpKind::kSyncDirectory:
      keys.push_back(EntriesKey(op.directory, op.file));
      break;
    case OpKind::kRename:
      // Of a subdirectory, perhaps: what follows under the new name comes after it.
      if (op.directory == storage::Directory::kLogs) {
        keys.push_back(EntriesKey(op.directory, op.file));
        keys.push_back(EntriesKey(op.directory, op.target));
      }
      [[fallthrough]];
    case OpKind::kCreate:
    case OpKind::kRemove:
      keys.push_back(EntriesKey(op.directory, storage::SubdirectoryOf(op.file)));
      break;
    case OpKind::kMakeDirectory:
    case OpKind::kRemoveDirectory:
      keys.push_back(EntriesKey(op.directory, op.file));
      keys.push_back(EntriesKey(op.directory, ""));
      break;
    case OpKind::kRead:
    case OpKind::kWrite:
    case OpKind::kSync:
    case OpKind::kTruncate:
      break;
  }
  return keys;
}

}  // namespace

Disk::Disk(const DiskPlan& plan, uint64_t seed, uint32_t server, EventQueue* queue,
           uint32_t streams)
    : plan_(plan),
      random_(StreamFor(seed, Purpose::kDisk, server)),
      seed_(seed),
      streams_(streams),
      server_(server),
      queue_(queue),
      dirs_(storage::kDirectories) {}

Duration Disk::TimeFor(OpKind kind) {
  const bool sync = kind == OpKind::kSync || kind == OpKind::kSyncDirectory;
  Duration time = Around(random_, sync ? plan_.sync : plan_.op);
  if (sync && plan_.slow_sync_per_mille > 0 && random_.Chance(plan_.slow_sync_per_mille, 1000)) {
    time = time * 10;
  }
  return time * slowness_;
}

Instant* Disk::ChainOf(std::string_view key) {
  for (Chain& chain : chains_) {
    if (chain.key == key) return &chain.busy_until;
  }
  chains_.push_back({std::string(key), Instant{}});
  return &chains_.back().busy_until;
}

void Disk::Submit(Instant now, FileOp op) {
  // The end of the last operation of each chain that this one belongs to.
  const std::vector<std::string> keys = KeysOf(op);
  Instant at = now;
  for (const std::string& key : keys) at = std::max(at, *ChainOf(key));
  if (streams_ != 0) random_ = KeyedStream(seed_, streams_, Purpose::kDisk, server_, now);
  at = at + TimeFor(op.kind);
  for (const std::string& key : keys) *ChainOf(key) = at;
  // Ends of idle chains say nothing.
  if (chains_.size() > 16) {
    std::erase_if(chains_, [&](const Chain& chain) { return chain.busy_until < now; });
  }
  const uint64_t number = next_number_++;
  pending_.push_back({number, std::move(op)});
  queue_->Push(at, {TaskKind::kDiskDone, server_, 0, number});
}

bool Disk::Complete(uint64_t operation, FileDone* done) {
  auto it = std::find_if(pending_.begin(), pending_.end(),
                         [&](const Pending& p) { return p.number == operation; });
  if (it == pending_.end()) return false;
  const FileOp op = std::move(it->op);
  pending_.erase(it);
  *done = CarryOut(op);
  if (done->error == FileError::kNoSpace || done->error == FileError::kIo) reported_error_ = true;
  return true;
}

Disk::Dir* Disk::DirAt(storage::Directory directory, std::string_view path) {
  Dir& top = dirs_[static_cast<size_t>(directory)];
  if (path.empty()) return &top;
  auto it = top.cached.find(std::string(path));
  if (it == top.cached.end() || files_[it->second].dir == 0) return nullptr;
  return &dirs_[files_[it->second].dir];
}

Disk::Dir* Disk::DirOf(const FileOp& op) {
  return DirAt(op.directory, storage::SubdirectoryOf(op.file));
}

Disk::File* Disk::Find(const FileOp& op) {
  const Dir* dir = DirOf(op);
  if (dir == nullptr) return nullptr;
  auto it = dir->cached.find(std::string(NameOf(op.file)));
  return it == dir->cached.end() ? nullptr : &files_[it->second];
}

FileDone Disk::CarryOut(const FileOp& op) {
  bool& failed = failed_[static_cast<size_t>(op.directory)];
  if (storage::Changes(op.kind) && failed) {
    return {.id = op.id, .error = FileError::kIo, .message = "after a failure"};
  }
  FileDone done = Perform(op);
  failed |= storage::Changes(op.kind) && done.error != FileError::kNone;
  return done;
}

FileDone Disk::Perform(const FileOp& op) {
  FileDone done;
  done.id = op.id;
  const bool may_fail =
      op.kind == OpKind::kCreate || op.kind == OpKind::kWrite || op.kind == OpKind::kSync;
  if (may_fail && fail_next_) {
    fail_next_ = false;
    // As Linux does: the pages count as clean afterwards, and nobody will write them again.
    if (File* file = Find(op); file != nullptr && op.kind == OpKind::kSync) {
      // What earlier ones lied about has reached the disk by now: it could not be forgiven any
      // more.
      MakeDurable(file, file->lied);
      file->changes.clear();
      file->cache_is_a_lie = true;
    }
    done.error = FileError::kIo;
    done.message = "simulated failure";
    return done;
  }
  const bool whole = op.kind == OpKind::kList || op.kind == OpKind::kSyncDirectory;
  Dir* dir = whole ? DirAt(op.directory, op.file) : DirOf(op);
  if (dir == nullptr) {
    done.error = FileError::kNotFound;
    return done;
  }
  switch (op.kind) {
    case OpKind::kList:
      DoList(*dir, &done);
      return done;
    case OpKind::kSyncDirectory:
      ++syncs_;
      if (lying_) {
        dir->lied = dir->changes.size();
      } else {
        MakeDurable(dir, dir->changes.size());
      }
      return done;
    case OpKind::kCreate:
    case OpKind::kMakeDirectory:
      done.error = DoCreate(op);
      return done;
    case OpKind::kRename:
    case OpKind::kRemove:
    case OpKind::kRemoveDirectory:
      done.error = DoEntry(op, dir);
      return done;
    case OpKind::kRead:
    case OpKind::kWrite:
    case OpKind::kSync:
    case OpKind::kTruncate:
      break;
  }
  File* file = Find(op);
  if (file == nullptr) {
    done.error = FileError::kNotFound;
    return done;
  }
  switch (op.kind) {
    case OpKind::kRead:
      DoRead(op, *file, &done);
      return done;
    case OpKind::kWrite:
      done.error = DoWrite(op, file);
      return done;
    case OpKind::kSync:
      DoSync(file);
      return done;
    case OpKind::kTruncate:
      file->cached.resize(op.size);
      EndFlaws(NumberOf(*file), op.size, UINT64_MAX);
      file->changes.push_back({true, op.size, ""});
      return done;
    default:
      LS_UNREACHABLE();
  }
}

void Disk::DoList(const Dir& dir, FileDone* done) const {
  for (const auto& [name, number] : dir.cached) {
    const File& file = files_[number];
    done->names.push_back(file.dir == 0 ? name : name + "/");
    done->sizes.push_back(file.cached.size());
  }
}

FileError Disk::DoCreate(const FileOp& op) {
  Dir& dir = *DirOf(op);
  const std::string name(NameOf(op.file));
  if (dir.cached.contains(name)) return FileError::kExists;
  if (full_) return FileError::kNoSpace;
  const uint32_t number = static_cast<uint32_t>(files_.size());
  files_.emplace_back();
  if (op.kind == OpKind::kMakeDirectory) {
    files_.back().dir = dirs_.size();
    dirs_.emplace_back();
  } else if (op.size > 0) {
    files_.back().cached.assign(op.size, '\0');
    files_.back().changes.push_back({true, op.size, ""});
  }
  dir.cached.emplace(name, number);
  dir.changes.push_back({OpKind::kCreate, name, "", number});
  return FileError::kNone;
}

FileError Disk::DoEntry(const FileOp& op, Dir* dir) {
  const std::string name(NameOf(op.file));
  auto it = dir->cached.find(name);
  if (it == dir->cached.end()) return FileError::kNotFound;
  const size_t subdirectory = files_[it->second].dir;
  if (op.kind == OpKind::kRemove) EndFlaws(it->second, 0, UINT64_MAX);
  if (op.kind == OpKind::kRemoveDirectory &&
      (subdirectory == 0 || !dirs_[subdirectory].cached.empty())) {
    return FileError::kIo;
  }
  EntryChange change{op.kind == OpKind::kRename ? OpKind::kRename : OpKind::kRemove, name,
                     std::string(NameOf(op.target)), it->second};
  ApplyEntry(change, &dir->cached);
  dir->changes.push_back(std::move(change));
  return FileError::kNone;
}

FileError Disk::DoWrite(const FileOp& op, File* file) {
  Change change;
  change.offset = op.offset;
  for (const Bytes& piece : op.data) change.data.append(piece.view());
  const uint64_t end = op.offset + change.data.size();
  if (full_ && end > file->cached.size()) return FileError::kNoSpace;
  EndFlaws(NumberOf(*file), op.offset, end);
  if (misdirect_ && MayMisdirect(op)) Misdirect(op, *file, change.data);
  if (file->cached.size() < end) file->cached.resize(end);
  file->cached.replace(op.offset, change.data.size(), change.data);
  file->changes.push_back(std::move(change));
  return FileError::kNone;
}

void Disk::DoSync(File* file) {
  ++syncs_;
  if (lying_) {
    file->lied = file->changes.size();
  } else {
    MakeDurable(file, file->changes.size());
  }
}

void Disk::MakeDurable(File* file, size_t changes) {
  for (size_t i = 0; i < changes; ++i) {
    const Change& change = file->changes[i];
    if (change.truncate) {
      file->durable.resize(change.offset);
      continue;
    }
    const uint64_t end = change.offset + change.data.size();
    if (file->durable.size() < end) file->durable.resize(end);
    file->durable.replace(change.offset, change.data.size(), change.data);
  }
  file->changes.erase(file->changes.begin(),
                      file->changes.begin() + static_cast<ptrdiff_t>(changes));
  file->lied = 0;
}

void Disk::MakeDurable(Dir* dir, size_t changes) {
  for (size_t i = 0; i < changes; ++i) ApplyEntry(dir->changes[i], &dir->durable);
  dir->changes.erase(dir->changes.begin(), dir->changes.begin() + static_cast<ptrdiff_t>(changes));
  dir->lied = 0;
}

// ---- Damage ------------------------------------------------------------------------------------

void Disk::DoRead(const FileOp& op, const File& file, FileDone* done) const {
  if (op.offset >= file.cached.size()) return;
  std::string data = file.cached.substr(op.offset, op.size);
  const uint64_t end = op.offset + data.size();
  for (const Flaw& flaw : flaws_) {
    if (flaw.file != NumberOf(file) || flaw.end() <= op.offset || flaw.offset >= end) continue;
    if (flaw.unreadable) {
      done->error = FileError::kIo;
      done->message = "simulated unreadable sector";
      return;
    }
    const uint64_t from = std::max(flaw.offset, op.offset);
    const uint64_t to = std::min(flaw.end(), end);
    data.replace(from - op.offset, to - from, flaw.content, from - flaw.offset, to - from);
  }
  done->data = Bytes::Copy(data);
}

std::vector<uint32_t> Disk::FilesIn(storage::Directory directory,
                                    const std::string& subdirectory) const {
  const Dir* dir = &dirs_[static_cast<size_t>(directory)];
  if (!subdirectory.empty()) {
    const auto entry = dir->cached.find(subdirectory);
    if (entry == dir->cached.end()) return {};
    dir = &dirs_[files_[entry->second].dir];
  }
  std::vector<uint32_t> files;
  for (const auto& [name, number] : dir->cached) {
    if (files_[number].dir == 0) files.push_back(number);
  }
  return files;
}

// Logs first, where there are any: what the journal and snapshots have is most of a disk.
std::vector<uint32_t> Disk::Victims(uint32_t place) const {
  std::vector<uint32_t> victims;
  const auto add = [&](const std::vector<uint32_t>& files) {
    victims.insert(victims.end(), files.begin(), files.end());
  };
  for (const std::string& log : bearable_.logs) add(FilesIn(storage::Directory::kLogs, log));
  if (bearable_.journal && (victims.empty() || place % 4 == 0)) {
    add(FilesIn(storage::Directory::kData));
    add(FilesIn(storage::Directory::kLog));
  }
  return victims;
}

std::optional<Disk::Sector> Disk::SectorAt(uint32_t place) const {
  const auto sectors_of = [](const File& file) {
    return (file.cached.size() + kSectorBytes - 1) / kSectorBytes;
  };
  const std::vector<uint32_t> victims = Victims(place);
  uint64_t total = 0;
  for (const uint32_t number : victims) total += sectors_of(files_[number]);
  if (total == 0) return std::nullopt;
  uint64_t sector = place % total;
  for (const uint32_t number : victims) {
    const uint64_t sectors = sectors_of(files_[number]);
    if (sector < sectors) {
      const uint64_t offset = sector * kSectorBytes;
      return Sector{number, offset, std::min(kSectorBytes, files_[number].cached.size() - offset)};
    }
    sector -= sectors;
  }
  LS_UNREACHABLE();
}

bool Disk::MayMisdirect(const FileOp& op) const {
  if (op.directory != storage::Directory::kLogs) return bearable_.journal;
  return std::binary_search(bearable_.logs.begin(), bearable_.logs.end(),
                            storage::SubdirectoryOf(op.file));
}

bool Disk::Rot(uint32_t place) {
  const std::optional<Sector> sector = SectorAt(place);
  if (!sector) return false;
  std::string content = files_[sector->file].cached.substr(sector->offset, sector->size);
  const uint64_t draw = Mix64(place);
  // One bit or a few neighbours, anywhere in the sector.
  char& byte = content[draw % content.size()];
  byte = static_cast<char>(byte ^ static_cast<char>(1 + (draw >> 32) % 255));
  EndFlaws(sector->file, sector->offset, sector->offset + sector->size);
  ever_damaged_ = true;
  flaws_.push_back({sector->file, sector->offset, std::move(content), false});
  return true;
}

bool Disk::BreakSector(uint32_t place) {
  const std::optional<Sector> sector = SectorAt(place);
  if (!sector) return false;
  EndFlaws(sector->file, sector->offset, sector->offset + sector->size);
  ever_damaged_ = true;
  flaws_.push_back({sector->file, sector->offset, std::string(sector->size, '\0'), true});
  return true;
}

void Disk::Misdirect(const FileOp& op, const File& file, std::string_view data) {
  const std::optional<Sector> sector = SectorAt(*std::exchange(misdirect_, std::nullopt));
  if (!sector || data.empty()) return;
  // What was where it belongs stays; beyond the end of the file that is nothing.
  std::string before =
      op.offset < file.cached.size() ? file.cached.substr(op.offset, data.size()) : std::string();
  before.resize(data.size());
  const File& victim = files_[sector->file];
  std::string astray(data.substr(0, victim.cached.size() - sector->offset));
  EndFlaws(sector->file, sector->offset, sector->offset + astray.size());
  ever_damaged_ = true;
  flaws_.push_back({sector->file, sector->offset, std::move(astray), false});
  flaws_.push_back({NumberOf(file), op.offset, std::move(before), false});
}

void Disk::EndFlaws(uint32_t file, uint64_t from, uint64_t to) {
  for (size_t i = 0; i < flaws_.size();) {
    Flaw& flaw = flaws_[i];
    if (flaw.file != file || flaw.end() <= from || flaw.offset >= to) {
      ++i;
      continue;
    }
    // What is left of it, before and behind; a sector that is written to can be read as a whole.
    Flaw rest[2] = {flaw, flaw};
    rest[0].content.resize(flaw.offset < from ? from - flaw.offset : 0);
    rest[1].content.erase(0, to < flaw.end() ? to - flaw.offset : flaw.content.size());
    rest[1].offset = to;
    const bool whole = flaw.unreadable;
    flaws_.erase(flaws_.begin() + static_cast<ptrdiff_t>(i));
    for (Flaw& part : rest) {
      if (whole || part.content.empty()) continue;
      flaws_.insert(flaws_.begin() + static_cast<ptrdiff_t>(i), std::move(part));
      ++i;
    }
  }
}

bool Disk::damaged() const {
  return lost_promises_ || lying_ || misdirect_ || !flaws_.empty() ||
         std::any_of(files_.begin(), files_.end(), [](const File& f) { return f.lied > 0; }) ||
         std::any_of(dirs_.begin(), dirs_.end(), [](const Dir& d) { return d.lied > 0; });
}

bool Disk::journal_damaged() const {
  if (flaws_.empty()) return false;
  std::vector<uint32_t> files = FilesIn(storage::Directory::kData);
  const std::vector<uint32_t> journal = FilesIn(storage::Directory::kLog);
  files.insert(files.end(), journal.begin(), journal.end());
  return std::any_of(flaws_.begin(), flaws_.end(), [&](const Flaw& flaw) {
    return std::find(files.begin(), files.end(), flaw.file) != files.end();
  });
}

void Disk::RepairJournal() {
  for (const storage::Directory directory : {storage::Directory::kData, storage::Directory::kLog}) {
    for (const uint32_t file : FilesIn(directory)) EndFlaws(file, 0, UINT64_MAX);
  }
}

void Disk::RepairLog(const std::string& directory) {
  for (const uint32_t file : FilesIn(storage::Directory::kLogs, directory)) {
    EndFlaws(file, 0, UINT64_MAX);
  }
}

std::vector<std::string> Disk::LiedLogs() const {
  std::vector<std::string> logs;
  for (const auto& [name, number] : dirs_[static_cast<size_t>(storage::Directory::kLogs)].cached) {
    if (files_[number].dir == 0) continue;
    const std::vector<uint32_t> files = FilesIn(storage::Directory::kLogs, name);
    const bool lied = dirs_[files_[number].dir].lied > 0 ||
                      std::any_of(files.begin(), files.end(),
                                  [this](uint32_t file) { return files_[file].lied > 0; });
    if (lied) logs.push_back(name);
  }
  return logs;
}

void Disk::KeepWordIn(storage::Directory directory, const std::string& subdirectory) {
  for (const uint32_t number : FilesIn(directory, subdirectory)) {
    MakeDurable(&files_[number], files_[number].lied);
  }
  Dir* dir = DirAt(directory, subdirectory);
  if (dir == nullptr) return;
  MakeDurable(dir, dir->lied);
  // One that was removed comes back if the removal is lost.
  for (const auto& [name, number] : dir->durable) {
    if (files_[number].dir == 0) MakeDurable(&files_[number], files_[number].lied);
  }
}

void Disk::KeepWord() {
  KeepWordIn(storage::Directory::kData, "");
  KeepWordIn(storage::Directory::kLog, "");
  KeepWordIn(storage::Directory::kLogs, "");
  const Entries logs = dirs_[static_cast<size_t>(storage::Directory::kLogs)].cached;
  for (const auto& [name, number] : logs) {
    if (files_[number].dir == 0) continue;
    if (std::binary_search(bearable_.logs.begin(), bearable_.logs.end(), name)) continue;
    KeepWordIn(storage::Directory::kLogs, name);
  }
  if (!bearable_.journal) return RepairJournal();
  // The newest may be one that is only prepared.
  const std::vector<uint32_t> journal = FilesIn(storage::Directory::kLog);
  for (size_t i = journal.size() - std::min(journal.size(), size_t{2}); i < journal.size(); ++i) {
    EndFlaws(journal[i], 0, UINT64_MAX);
  }
}

void Disk::Forgive() {
  std::erase_if(flaws_, [](const Flaw& flaw) { return !flaw.unreadable; });
  for (File& file : files_) MakeDurable(&file, file.lied);
  for (Dir& dir : dirs_) MakeDurable(&dir, dir.lied);
}

// ---- Crashes -----------------------------------------------------------------------------------

void Disk::ApplyEntry(const EntryChange& change, Entries* entries) {
  switch (change.kind) {
    case OpKind::kCreate:
      entries->insert_or_assign(change.name, change.file);
      return;
    case OpKind::kRemove:
      entries->erase(change.name);
      return;
    case OpKind::kRename: {
      // Without its source on the disk, the rename is not there either.
      auto it = entries->find(change.name);
      if (it == entries->end()) return;
      const uint32_t file = it->second;
      entries->erase(it);
      entries->insert_or_assign(change.target, file);
      return;
    }
    default:
      LS_UNREACHABLE();
  }
}

void Disk::KillProcess(bool may_forget) {
  // What the process had handed to its system: each chain is carried out up to some point.
  std::vector<std::string> stopped;
  auto is_stopped = [&](const std::string& key) {
    return std::find(stopped.begin(), stopped.end(), key) != stopped.end();
  };
  for (Pending& p : pending_) {
    std::vector<std::string> keys = KeysOf(p.op);
    const bool goes_on = random_.Chance(1, 2) && std::none_of(keys.begin(), keys.end(), is_stopped);
    if (goes_on) {
      CarryOut(p.op);
    } else {
      stopped.insert(stopped.end(), keys.begin(), keys.end());
    }
  }
  pending_.clear();
  chains_.clear();
  misdirect_.reset();
  if (!may_forget) Forgive();
  reported_error_ = false;
  failed_ = {};
}

void Disk::Replace() {
  KillProcess();
  files_.clear();
  flaws_.clear();
  lost_promises_ = false;
  bearable_ = {};
  dirs_.clear();
  dirs_.resize(storage::kDirectories);
}

uint64_t Disk::PowerLoss(bool may_forget) {
  KillProcess(may_forget);
  uint64_t unsynced = 0;
  for (const File& file : files_) lost_promises_ |= file.lied > 0;
  for (const Dir& dir : dirs_) lost_promises_ |= dir.lied > 0;
  for (File& file : files_) {
    unsynced += file.changes.size();
    LoseUnsynced(&file);
  }
  for (Dir& dir : dirs_) {
    unsynced += dir.changes.size();
    LoseEntries(&dir);
  }
  return unsynced;
}

// For each sector that has unsynced changes, a number of them that reached the disk; the length
// likewise. Contents are then what the kept changes make of the durable ones.
void Disk::LoseUnsynced(File* file) {
  if (file->cache_is_a_lie) file->cached = file->durable;
  file->cache_is_a_lie = false;
  if (file->changes.empty()) return;
  enum { kNone, kAll, kSome } way = kSome;
  const bool allowed[3] = {plan_.keeps_none, plan_.keeps_all, plan_.keeps_some};
  for (uint64_t start = random_.Below(3), i = 0; i < 3; ++i) {
    if (!allowed[(start + i) % 3]) continue;
    way = static_cast<decltype(way)>((start + i) % 3);
    break;
  }
  uint64_t sectors = (file->durable.size() + kSectorBytes - 1) / kSectorBytes;
  for (const Change& change : file->changes) {
    const uint64_t end = change.offset + change.data.size();
    sectors = std::max(sectors, (end + kSectorBytes - 1) / kSectorBytes);
  }
  // How many changes touch each sector; a truncation touches all from its new size on.
  auto range = [&](const Change& change) {
    const uint64_t first = change.offset / kSectorBytes;
    const uint64_t last =
        change.truncate ? sectors
                        : (change.offset + change.data.size() + kSectorBytes - 1) / kSectorBytes;
    return std::pair<uint64_t, uint64_t>(first, last);
  };
  std::vector<uint32_t> kept(sectors, 0);
  for (const Change& change : file->changes) {
    const auto [first, last] = range(change);
    for (uint64_t s = first; s < last; ++s) ++kept[s];
  }
  for (uint32_t& count : kept) {
    if (count == 0) continue;
    if (way == kNone) count = 0;
    if (way == kSome) count = static_cast<uint32_t>(random_.Below(count + 1));
  }
  std::vector<uint64_t> lengths = {file->durable.size()};
  std::string content = std::move(file->durable);
  content.resize(sectors * kSectorBytes);
  for (const Change& change : file->changes) {
    const auto [first, last] = range(change);
    for (uint64_t s = first; s < last; ++s) {
      if (kept[s] == 0) continue;
      --kept[s];
      const uint64_t from = std::max(s * kSectorBytes, change.offset);
      if (change.truncate) {
        std::fill(content.begin() + static_cast<ptrdiff_t>(from),
                  content.begin() + static_cast<ptrdiff_t>((s + 1) * kSectorBytes), '\0');
        continue;
      }
      const uint64_t to =
          std::min((s + 1) * kSectorBytes, change.offset + uint64_t{change.data.size()});
      if (from < to) content.replace(from, to - from, change.data, from - change.offset, to - from);
    }
    lengths.push_back(change.truncate
                          ? change.offset
                          : std::max(lengths.back(), change.offset + change.data.size()));
  }
  size_t length = lengths.size() - 1;
  if (way == kNone) length = 0;
  if (way == kSome) length = random_.Below(lengths.size());
  content.resize(lengths[length]);
  file->durable = content;
  file->cached = std::move(content);
  file->changes.clear();
  file->lied = 0;
}

void Disk::LoseEntries(Dir* dir) {
  if (!dir->changes.empty()) {
    const size_t prefix = random_.Below(dir->changes.size() + 1);
    for (size_t i = 0; i < dir->changes.size(); ++i) {
      const bool kept = plan_.entries_out_of_order ? random_.Chance(1, 2) : i < prefix;
      if (kept) ApplyEntry(dir->changes[i], &dir->durable);
    }
    dir->changes.clear();
    dir->lied = 0;
  }
  dir->cached = dir->durable;
}

void Disk::ClearFaults() {
  slowness_ = 1;
  fail_next_ = false;
  full_ = false;
  lying_ = false;
  misdirect_.reset();
}

}  // namespace lockstep::sim
