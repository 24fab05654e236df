"""The rules of the source that no compiler checks: who includes whom, words that core may not use, and what is linked
into core's object files. Run by ./dev check; docs/architecture.md says why.
"""

import re
import subprocess

LINES_MAX = 800

# folder -> what it may include of ours; the folder itself is always allowed. A name without a slash is all of core/NAME.
MAY_INCLUDE = {
    "core/base": [],
    "core/kafka": ["core/base", "core/records", "core/storage", "core/replication"],
    "core/records": ["core/base"],
    "core/zab": ["core/base"],
    "core/storage": ["core/base", "core/records"],
    "core/coordination": ["core/base"],
    "core/replication": ["core/base", "core/records", "core/storage", "core/coordination"],
    "core/wire": ["core/base", "core/zab/messages.h", "core/replication/messages.h", "lockstep_generated.h"],
    "core/server": ["core/base", "core/records", "core/zab", "core/storage", "core/coordination", "core/replication",
                    "core/kafka", "core/wire"],
    "shell": ["core"],
    "sim": ["core"],
    "bench": ["core", "sim"],
    "fuzz": ["core", "sim", "shell", "tests/support"],
    "tests": ["core", "sim", "shell", "lockstep_generated.h"],
}

# The one part of the simulator that runs on a real machine: the program around it.
HOSTED = re.compile(r"sim/(main\.cc|(campaign|campaign_command|campaign_result|fork_each|measure|schedule_commands|schedule_file|trace_output|zoo)\.(cc|h))$")
PURE = re.compile(r"(core|sim)/")

# In core and sim: what may not be written, and what to write instead.
BANNED = [
    (r"\bstd::unordered_\w+", "absl::flat_hash_map for look-ups, std::map or absl::btree_map where it is iterated"),
    (r"\b(steady_clock|system_clock|high_resolution_clock)\b", "take `Instant now` as a parameter"),
    (r"\bstd::(random_device|mt19937(_64)?|default_random_engine|\w+_distribution)\b", "RandomStream (core/base/random.h)"),
    (r"\b(rand|srand|random)\s*\(", "RandomStream (core/base/random.h)"),
    (r"\bstd::(thread|jthread|mutex|shared_mutex|condition_variable|async|future|promise)\b",
     "nothing: a machine has one thread, its host's"),
    (r"\bstd::(cout|cerr|clog|cin|ifstream|ofstream|fstream)\b", "events, or the output of Step"),
    (r"\bthread_local\b", "a member"),
    (r"\b(float|double)\b", "integers: parts per million, or multiply before dividing"),
    (r"\bassert\s*\(", "LS_CHECK (core/base/check.h): always on"),
    (r"\bstd::hash\b", "an ordered container, or a digest of our own: std::hash differs between libraries"),
    (r"\bstd::(map|set)<\s*(const\s+)?\w+\s*\*", "an id as the key: pointers order differently from run to run"),
]
BANNED_INCLUDES = re.compile(
    r"<(chrono|thread|mutex|shared_mutex|condition_variable|future|random|iostream|fstream|filesystem|ctime|unordered_map|"
    r"unordered_set|cassert|unistd\.h|fcntl\.h|poll\.h|pthread\.h|sys/.*|boost/.*|spdlog/.*)>")
# Everywhere.
BANNED_EVERYWHERE = [
    (r"\b(TODO|XXX|HACK)\b", "do it, or write an issue"),
    (r"\busing namespace std\b", "names"),
]

# Symbols that core and the simulator's library must not need. check.cc prints and aborts, which is all they may do.
BANNED_SYMBOLS = re.compile(
    r"^(clock_gettime|gettimeofday|time|clock|nanosleep|usleep|sleep|getrandom|getentropy|rand|rand_r|random|srand|drand48|"
    r"pthread_(create|mutex_lock|cond_wait|rwlock_\w+)|socket|connect|accept4?|bind|listen|send(to|msg)?|recv(from|msg)?|"
    r"open(64|at)?|creat|read|write|pread(64)?|pwrite(64)?|readv|writev|fopen(64)?|fread|fsync|fdatasync|rename|unlink|mmap(64)?|"
    r"fork|exec\w*|system|getenv|getpid|localtime(_r)?|epoll_\w+|poll|select|"
    r"std::random_device.*|std::chrono::.*::now\(\)|std::thread::.*|std::this_thread::.*|std::condition_variable::.*|"
    r"std::basic_[io]?fstream.*|std::filesystem::.*|std::cout|std::cerr|std::_Hash_bytes.*)(@.*)?$")


def without_comments(text):
    """The code alone, line by line: comments, and what stands in quotes, are blanked."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match[0])
    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)+\'', blank, text, flags=re.S)


def folder_of(name):
    parts = name.split("/")
    return "/".join(parts[:2]) if parts[0] == "core" else parts[0]


def include_errors(name, text):
    folder = folder_of(name)
    if folder not in MAY_INCLUDE:
        return [f"{name}: folder {folder} has no include rules; add it to tests/source_rules.py"]
    allowed = [folder, *MAY_INCLUDE[folder]]
    errors = []
    for number, line in enumerate(text.splitlines(), 1):
        ours = re.match(r'#include "([^"]+)"', line)
        system = re.match(r"#include (<[^>]+>)", line)
        if ours and (ours[1].split("/")[0] in ("core", "shell", "sim", "tests", "bench", "fuzz")
                     or ours[1].endswith("_generated.h")):
            if not any(ours[1] == a or ours[1].startswith(a + "/") for a in allowed):
                errors.append(f"{name}:{number}: {folder} may not include {ours[1]}; it may include {', '.join(allowed)}")
        if system and PURE.match(name) and not HOSTED.match(name) and BANNED_INCLUDES.match(system[1]):
            errors.append(f"{name}:{number}: {system[1]} is for hosts: shell/, or the simulator's own program")
    return errors


def word_errors(name, text):
    errors = []
    code = without_comments(text).splitlines()
    pure = PURE.match(name) and not HOSTED.match(name)
    for number, line in enumerate(code, 1):
        for pattern, instead in BANNED if pure else []:
            found = re.search(pattern, line)
            if found:
                errors.append(f"{name}:{number}: `{found[0]}` is banned here; instead: {instead}")
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, instead in BANNED_EVERYWHERE:
            found = re.search(pattern, line)
            if found:
                errors.append(f"{name}:{number}: `{found[0]}` is banned; instead: {instead}")
    return errors


def check_sources(root, names):
    """Prints what breaks the rules; returns whether nothing does."""
    errors = []
    for name in names:
        text = (root / name).read_text()
        errors += include_errors(name, text) + word_errors(name, text)
        lines = text.count("\n")
        if lines > LINES_MAX:
            print(f"warning: {name} has {lines} lines: a file above {LINES_MAX} holds a second idea; find it")
    print("\n".join(errors) + ("\n" if errors else "") + f"source rules: {len(names)} files, {len(errors)} errors")
    return not errors


def check_links(root, names):
    """Links between documents, and to sources, lead somewhere."""
    errors = []
    for name in names:
        for number, line in enumerate((root / name).read_text().splitlines(), 1):
            for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", re.sub(r"`[^`]*`", "", line)):
                if "://" not in target and not (root / name).parent.joinpath(target).exists():
                    errors.append(f"{name}:{number}: no such file: {target}")
    print("\n".join(errors) + ("\n" if errors else "") + f"links: {len(names)} documents, {len(errors)} errors")
    return not errors


def check_objects(root, build):
    """The same for the object files of core and of the simulator's library."""
    archives = sorted(build.glob("core/*/lib*.a")) + sorted(build.glob("sim/lib*.a"))
    errors, objects = [], 0
    for archive in archives:
        listing = subprocess.run(["nm", "-C", "-u", archive], capture_output=True, text=True, check=True).stdout
        unit = "?"
        for line in listing.splitlines():
            if line.endswith(":"):
                unit = line.rstrip(":").split("/")[-1]
                objects += 1
                continue
            symbol = line.strip().removeprefix("U ").removeprefix("w ").strip()
            if BANNED_SYMBOLS.match(symbol):
                errors.append(f"{archive.relative_to(root)}({unit}) needs `{symbol}`: a machine reads no clock, file, "
                              "socket, thread or random device")
    if not objects:
        errors.append("no object files of core found")
    print("\n".join(errors) + ("\n" if errors else "") + f"purity: {objects} object files, {len(errors)} errors")
    return not errors
