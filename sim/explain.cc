#include "sim/explain.h"

#include <algorithm>
#include <cctype>
#include <deque>
#include <map>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "sim/checkers/invariants.h"

namespace lockstep::sim {
namespace {

constexpr size_t kLastSteps = 14;
constexpr size_t kLastStepsOfOne = 5;
constexpr size_t kFaultsShown = 30;

// A line of a trace in its columns.
struct Seen {
  std::string time;
  std::string who;
  std::string what;
  std::string line;
};

std::string Word(std::string_view* text) {
  while (!text->empty() && text->front() == ' ') text->remove_prefix(1);
  const size_t end = std::min(text->find(' '), text->size());
  std::string word(text->substr(0, end));
  text->remove_prefix(end);
  return word;
}

Seen Columns(std::string_view line) {
  Seen seen;
  seen.line = std::string(line);
  seen.time = Word(&line);
  seen.who = Word(&line);
  seen.what = Word(&line);
  return seen;
}

// Transport, of which there is a line for every message, and what had no effect.
bool IsNoise(const Seen& seen) {
  return seen.what == "bytes" || seen.what == "written" || seen.what == "accepted" ||
         seen.what == "closed" || seen.what == "sync-completed" || seen.what == "lost" ||
         seen.what == "digest-compared" || seen.what == "ignored" ||
         (seen.what == "connected" && seen.line.find(" with ") != std::string::npos);
}

// Whether `name` stands in the line as a whole: t0-1 is not t0-11.
bool Mentions(std::string_view line, std::string_view name) {
  for (size_t at = line.find(name); at != std::string_view::npos; at = line.find(name, at + 1)) {
    const size_t end = at + name.size();
    const auto is_word = [&](size_t i) {
      return std::isalnum(static_cast<unsigned char>(line[i])) != 0;
    };
    if ((at == 0 || !is_word(at - 1)) && (end == line.size() || !is_word(end))) return true;
  }
  return false;
}

class Collector {
 public:
  explicit Collector(const std::vector<std::string>& names) : names_(names) {}

  static void Take(void* context, std::string_view line) {
    static_cast<Collector*>(context)->Take(Columns(line));
  }

  std::vector<Seen> faults;
  std::map<std::string, std::deque<std::pair<size_t, Seen>>> last;  // of each, with their order
  std::optional<Seen> heals;
  // Of each name, the line that tells most: of a zxid, where it was applied first, or came up; of
  // what is there for long (a partition, a path), the newest.
  std::map<std::string, Seen> telling;

 private:
  void Take(Seen seen) {
    ++count_;
    if (seen.who == "fault") {
      if (seen.what != "ends") faults.push_back(std::move(seen));
      return;
    }
    if (seen.who == "world" && seen.what == "heals") heals = seen;
    if (seen.who == "world" || seen.who == "plan" || IsNoise(seen)) return;
    for (const std::string& name : names_) {
      auto it = telling.find(name);
      const bool better = it == telling.end() || name[0] != '<' ||
                          (seen.what == "applies" && it->second.what != "applies");
      if (better && Mentions(seen.line, name)) telling[name] = seen;
    }
    auto& of = last[seen.who];
    of.push_back({count_, std::move(seen)});
    if (of.size() > kLastStepsOfOne) of.pop_front();
  }

  const std::vector<std::string>& names_;
  size_t count_ = 0;
};

std::string Says(const std::string& invariant) {
  for (const InvariantInfo& info : AllInvariants()) {
    if (info.name == invariant) return info.says;
  }
  return invariant == "deterministic" ? "two runs of one seed are the same" : "";
}

// What is known of the other side: the line about what the failure names, or when all should have
// become well.
std::string OtherFact(const Collector& seen, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    auto it = seen.telling.find(name);
    if (it != seen.telling.end()) return it->second.line;
  }
  if (seen.heals) return absl::StrCat(seen.heals->line, " (no fault since then)");
  return "";
}

}  // namespace

std::vector<std::string> NamesIn(std::string_view sentence) {
  std::vector<std::string> zxids;
  std::vector<std::string> others;
  const auto add = [](std::vector<std::string>* names, std::string_view name) {
    const std::string text(name);
    if (std::find(names->begin(), names->end(), text) == names->end()) names->push_back(text);
  };
  for (size_t i = 0; i < sentence.size(); ++i) {
    const bool starts = i == 0 || sentence[i - 1] == ' ' || sentence[i - 1] == '(';
    if (sentence[i] == '<') {
      const size_t end = sentence.find('>', i);
      if (end == std::string_view::npos || end - i > 24) continue;
      // Nothing but zxids has a comma between these; <0,0> says nothing.
      const std::string_view zxid = sentence.substr(i, end - i + 1);
      if (zxid.find(',') != std::string_view::npos && zxid != "<0,0>") add(&zxids, zxid);
      i = end;
      continue;
    }
    if (!starts) continue;
    size_t end = sentence.find_first_of(" ,;:()", i);
    if (end == std::string_view::npos) end = sentence.size();
    const std::string_view word = sentence.substr(i, end - i);
    const bool path = word.size() > 1 && word[0] == '/';
    const bool session = word.starts_with("0x");
    const bool partition = word.size() >= 4 && word[0] == 't' && word.find('-') > 1 &&
                           std::isdigit(static_cast<unsigned char>(word[1])) != 0 &&
                           std::isdigit(static_cast<unsigned char>(word.back())) != 0;
    if (path || session || partition) add(&others, word);
  }
  // A zxid names one event of the run; the others many.
  zxids.insert(zxids.end(), others.begin(), others.end());
  return zxids;
}

std::string Explain(RunOptions options, const Failure& failure) {
  const std::vector<std::string> names = NamesIn(failure.detail);
  Collector seen(names);
  options.sink = &Collector::Take;
  options.sink_context = &seen;
  options.hash_log = nullptr;
  options.record = nullptr;
  options.observer = nullptr;
  const RunResult result = RunSeed(options);
  const int64_t us = result.time.ns / 1000;
  std::string text = absl::StrCat(failure.invariant, " failed at ", us / 1'000'000, ".",
                                  std::to_string(1'000'000 + us % 1'000'000).substr(1), " s.\n");
  absl::StrAppend(&text, "\nWhat must hold: ", Says(failure.invariant), ".\n");
  text += "\nWhat contradicts it:\n";
  const std::string other = OtherFact(seen, names);
  if (!other.empty()) absl::StrAppend(&text, "  ", other, "\n  and yet\n");
  absl::StrAppend(&text, "  ", failure.detail, "\n");

  text += "\nWho did what last:\n";
  std::vector<std::pair<size_t, Seen>> last;
  for (const auto& [who, lines] : seen.last) last.insert(last.end(), lines.begin(), lines.end());
  std::sort(last.begin(), last.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  const size_t from = last.size() > kLastSteps ? last.size() - kLastSteps : 0;
  for (size_t i = from; i < last.size(); ++i) {
    absl::StrAppend(&text, "  ", last[i].second.line, "\n");
  }

  absl::StrAppend(&text, "\nWhat was done to them: ", seen.faults.size(),
                  seen.faults.size() == 1 ? " fault" : " faults");
  text += seen.faults.empty() ? ".\n" : "\n";
  const size_t first = seen.faults.size() > kFaultsShown ? seen.faults.size() - kFaultsShown : 0;
  if (first > 0) absl::StrAppend(&text, "  … ", first, " before these; the schedule has all\n");
  for (size_t i = first; i < seen.faults.size(); ++i) {
    absl::StrAppend(&text, "  ", seen.faults[i].line, "\n");
  }
  return text;
}

}  // namespace lockstep::sim
