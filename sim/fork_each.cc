#include "sim/fork_each.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <vector>

namespace lockstep::sim {
namespace {

struct Child {
  pid_t pid = -1;
  int pipe = -1;
  size_t number = 0;
  std::string said;
};

[[noreturn]] void BeChild(const std::function<std::string(size_t)>& work, size_t number, int to) {
  const std::string text = work(number);
  size_t at = 0;
  while (at < text.size()) {
    const ssize_t n = write(to, text.data() + at, text.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) _exit(1);
    at += static_cast<size_t>(n);
  }
  _exit(0);
}

bool StartChild(const std::function<std::string(size_t)>& work, size_t number,
                std::vector<Child>* children) {
  int ends[2];
  if (pipe(ends) != 0) {
    std::perror("lockstep-sim: pipe");
    return false;
  }
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    BeChild(work, number, ends[1]);
  }
  close(ends[1]);
  if (pid < 0) {
    std::perror("lockstep-sim: fork");
    close(ends[0]);
    return false;
  }
  children->push_back({pid, ends[0], number, ""});
  return true;
}

void KillAll(const std::vector<Child>& children) {
  for (const Child& child : children) {
    kill(child.pid, SIGKILL);
    waitpid(child.pid, nullptr, 0);
    close(child.pipe);
  }
}

// Whether it has ended.
bool Read(Child* child, bool* well) {
  char chunk[65536];
  const ssize_t n = read(child->pipe, chunk, sizeof chunk);
  if (n < 0 && errno == EINTR) return false;
  if (n > 0) {
    child->said.append(chunk, static_cast<size_t>(n));
    return false;
  }
  int status = 0;
  waitpid(child->pid, &status, 0);
  close(child->pipe);
  *well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return true;
}

}  // namespace

bool ForkEach(uint32_t jobs, size_t count, const std::function<std::string(size_t)>& work,
              const std::function<bool(size_t, std::optional<std::string>)>& done) {
  std::vector<Child> children;
  size_t next = 0;
  while (next < count || !children.empty()) {
    while (next < count && children.size() < std::max(jobs, 1u)) {
      if (!StartChild(work, next, &children)) {
        KillAll(children);
        return false;
      }
      ++next;
    }
    std::vector<pollfd> polled;
    for (const Child& child : children) polled.push_back({child.pipe, POLLIN, 0});
    poll(polled.data(), polled.size(), -1);
    for (size_t i = polled.size(); i-- > 0;) {
      bool well = false;
      if (polled[i].revents == 0 || !Read(&children[i], &well)) continue;
      Child ended = std::move(children[i]);
      children.erase(children.begin() + static_cast<ptrdiff_t>(i));
      const bool more =
          done(ended.number, well ? std::optional(std::move(ended.said)) : std::nullopt);
      if (!more) {
        KillAll(children);
        return true;
      }
    }
  }
  return true;
}

}  // namespace lockstep::sim
