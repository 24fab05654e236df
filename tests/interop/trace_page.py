"""The page of `lockstep-sim run --format html`, looked at by Chromium: it draws, it filters, it answers keys and clicks, in light
and dark, with ten events and with a hundred thousand. Prints a line per case; skips all where there is no Chromium."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("LOCKSTEP_BUILD", ROOT / "build" / "release"))

# Runs in the page right after its own script, in real time; what it collects is what the checks below look at.
PROBE = """
<script>
(() => {
  const out = {errors: window.failures};
  const { trace, diagram, select, look, fit } = window.lockstep;
  const press = (key, more) => document.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, ...more}));
  const target = document.getElementById("diagram");
  const colours = () => {
    diagram.draw();
    const data = target.getContext("2d").getImageData(0, 0, target.width, target.height).data;
    const seen = new Set();
    for (let i = 0; i < data.length; i += 4 * 7) seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
    return seen.size;
  };
  out.items = trace.items; out.nodes = trace.nodes.length; out.servers = trace.servers; out.shown = trace.shown;
  out.colours = colours();
  out.draw_ms = Math.min(...[0, 1, 2, 3, 4].map(() => { diagram.draw(); return diagram.frameMs; }));
  out.verdict = document.getElementById("verdict").textContent;
  // Keys: zoom, move, all of it.
  const whole = diagram.to - diagram.from;
  press("+"); press("+"); out.zoomed = (diagram.to - diagram.from) / whole;
  const before = diagram.from; press("ArrowRight"); out.moved = diagram.from > before;
  press("0"); out.fits = Math.abs((diagram.to - diagram.from) / whole - 1) < 1e-9;
  // Going through what happens; the details name it.
  press("n"); out.first = diagram.selected; press("n"); out.second = diagram.selected; press("p"); out.back = diagram.selected;
  out.details = document.getElementById("details").textContent;
  press("Escape"); out.cleared = diagram.selected;
  press("x"); out.fault = diagram.selected === null ? null : trace.typeOf(diagram.selected);
  press("Escape");
  // A click upon an arrow selects it.
  let message = -1;
  trace.eachMessage(0, trace.end, (i) => { if (message < 0 && trace.messages.arrived[i] > 0) message = i; });
  if (message >= 0) {
    const sent = trace.messages.sent[message], arrived = trace.messages.arrived[message], span = Math.max(arrived - sent, 1) * 4;
    look(sent - span, arrived + span);
    diagram.draw();
    const [x0, y0, x1, y1] = diagram.arrow(message);
    const box = target.getBoundingClientRect(), at = {clientX: box.left + (x0 + x1) / 2, clientY: box.top + (y0 + y1) / 2, bubbles: true};
    target.dispatchEvent(new PointerEvent("pointerdown", at));
    target.dispatchEvent(new PointerEvent("pointerup", at));
    out.clicked = diagram.selected === null ? null : trace.typeOf(diagram.selected);
  }
  press("Escape"); fit();
  // The filter.
  const filter = document.getElementById("filter");
  const filtered = (text) => { filter.value = text; filter.dispatchEvent(new Event("input")); return trace.shown; };
  out.of_s1 = filtered("s1"); out.of_nothing = filtered("no-such-word"); out.again = filtered("");
  // Light and dark.
  const light = document.documentElement.dataset.theme; press("d");
  out.themes = [light, document.documentElement.dataset.theme]; out.colours_other = colours();
  const result = document.createElement("pre");
  result.id = "result"; result.textContent = JSON.stringify(out);
  document.body.appendChild(result);
})();
</script>
"""
# Before everything else, so that no error is missed.
CATCH = '<script>window.failures = []; window.onerror = (what) => { window.failures.push(String(what)); };</script>'


def chromium():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    return None


def browse(browser, page, directory, *options):
    command = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
               "--window-size=1300,800", f"--user-data-dir={directory}/profile", *options,
               page.as_uri() + "#light"]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=240).stdout


def look_at(browser, directory, name, arguments):
    """Writes the page of a run, and what Chromium found in it."""
    page = Path(directory) / f"{name}.html"
    run = subprocess.run([BUILD / "lockstep-sim", *arguments, "--trace", page, "--format", "html"], capture_output=True, text=True,
                         cwd=directory)
    text = page.read_text()
    probed = Path(directory) / f"{name}.probed.html"
    probed.write_text(text.replace("<head>", "<head>" + CATCH, 1).replace("</body>", PROBE + "</body>", 1))
    dom = browse(browser, probed, directory, "--dump-dom")
    found = re.search(r'<pre id="result">(.*?)</pre>', dom, re.S)
    if not found:
        raise AssertionError(f"the page did not come to its end: {dom[-300:]!r}")
    return run, json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def check_page(seen):
    check(seen["errors"] == [], f"errors: {seen['errors']}")
    check(seen["colours"] > 8 and seen["colours_other"] > 8, f"drawn with {seen['colours']} colours, then {seen['colours_other']}")
    check(seen["shown"] > 0 and seen["again"] == seen["shown"], "the filter gives back all")
    check(seen["of_nothing"] == 0 and 0 < seen["of_s1"] < seen["shown"], f"the filter lets {seen['of_s1']} of {seen['shown']} through")
    check(seen["zoomed"] < 0.5 and seen["moved"] and seen["fits"], "keys zoom and move")
    check(seen["first"] is not None and seen["back"] == seen["first"] != seen["second"], "n and p go through the events")
    check(len(seen["details"]) > 20 and seen["cleared"] is None, "details are shown")
    check(seen.get("clicked") is not None, "a click upon an arrow selects")
    check(sorted(seen["themes"]) == ["dark", "light"], f"themes: {seen['themes']}")


def a_run(browser, directory):
    _, seen = look_at(browser, directory, "run", ["run", "--once", "--seed", "17"])
    check_page(seen)
    check(seen["verdict"] == "nothing wrong", seen["verdict"])
    check(seen["fault"] == "fault", "x goes to a fault")


def brokers(browser, directory):
    _, seen = look_at(browser, directory, "brokers", ["run", "--once", "--scenario", "brokers", "--seed", "3"])
    check_page(seen)
    check(seen["items"] > 10_000, f"{seen['items']} items")


def a_failure(browser, directory):
    run, seen = look_at(browser, directory, "failure", ["run", "--once", "--seed", "3", "--break", "ack_after_durable"])
    check(run.returncode == 1, run.stdout)
    check(seen["errors"] == [], f"errors: {seen['errors']}")
    check("failed:" in seen["verdict"], seen["verdict"])


def sized(directory, name, messages):
    """The page of a run with its data multiplied, or cut, to so many messages."""
    page = Path(directory) / f"{name}.html"
    subprocess.run([BUILD / "lockstep-sim", "run", "--once", "--seed", "17", "--trace", page, "--format", "html"],
                   check=True, capture_output=True, cwd=directory)
    text = page.read_text()
    start = text.index('id="data">') + len('id="data">')
    stop = text.index("</script>", start)
    data = json.loads(text[start:stop])
    flat, end = data["messages"], data["end"]
    rows = [flat[i:i + 8] for i in range(0, len(flat), 8)]
    wanted = rows[:messages]
    turn = 1
    while len(wanted) < messages:
        wanted += [[r[0] + turn * end, r[1] if r[1] < 0 else r[1] + turn * end, *r[2:]] for r in rows[:messages - len(wanted)]]
        turn += 1
    data["messages"] = [number for row in wanted for number in row]
    data["end"] = end * turn
    if messages < len(rows):
        data["marks"] = data["marks"][:5 * messages]
    # All kinds are switched on, so that all are drawn.
    script = PROBE.replace("const out = {", 'document.querySelectorAll("#kinds button[aria-pressed=false]").forEach((b) => b.click()); const out = {')
    probed = text[:start] + json.dumps(data).replace("</", "<\\/") + text[stop:]
    page.write_text(probed.replace("<head>", "<head>" + CATCH, 1).replace("</body>", script + "</body>", 1))
    return page


def probe(browser, page, directory):
    found = re.search(r'<pre id="result">(.*?)</pre>', browse(browser, page, directory, "--dump-dom"), re.S)
    check(found, "the page did not come to its end")
    return json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))


def ten_events(browser, directory):
    seen = probe(browser, sized(directory, "ten", 10), directory)
    check(seen["errors"] == [], f"errors: {seen['errors']}")
    check(seen["colours"] > 4 and seen["shown"] > 0, "it draws")


def a_hundred_thousand_events(browser, directory):
    seen = probe(browser, sized(directory, "many", 100_000), directory)
    check(seen["errors"] == [], f"errors: {seen['errors']}")
    check(seen["shown"] > 100_000 and seen["colours"] > 8, f"{seen['shown']} shown")
    check(0 < seen["of_s1"] < seen["shown"], "it filters")
    print(f"   {seen['shown']:,} events and messages: a frame of all of them takes {seen['draw_ms']:.0f} ms")


def main():
    pattern = sys.argv[1] if len(sys.argv) > 1 else ""
    cases = [a_run, brokers, a_failure, ten_events, a_hundred_thousand_events]
    cases = [case for case in cases if pattern in f"trace_page.{case.__name__}"]
    if not cases:
        return 0
    browser = chromium()
    if browser is None:
        print("skipped: the page of traces is looked at by Chromium, which is not installed (apt-get install chromium)")
        return 0
    failed = 0
    with tempfile.TemporaryDirectory() as directory:
        for case in cases:
            try:
                case(browser, directory)
                print(f"ok trace_page.{case.__name__}", flush=True)
            except (AssertionError, OSError, subprocess.SubprocessError, ValueError) as error:
                failed += 1
                print(f"FAILED trace_page.{case.__name__}: {error}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
