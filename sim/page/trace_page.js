// The page around the diagram: mouse, keys, details, the overview.

(function page() {
  const byId = (id) => document.getElementById(id);
  const trace = new Trace(JSON.parse(byId("data").textContent));
  const diagram = new Diagram(byId("diagram"), trace);
  const NARROWEST = 1000;  // nanoseconds from the left to the right

  // ---- What is seen

  let waiting = false;
  function redraw() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      diagram.draw();
      drawOverview();
      showStatus();
    });
  }

  function look(from, to) {
    const span = Math.max(NARROWEST, Math.min(to - from, trace.end * 1.04));
    let start = (from + to) / 2 - span / 2;
    start = Math.max(-trace.end * 0.02, Math.min(start, trace.end * 1.02 - span));
    diagram.from = start;
    diagram.to = start + span;
    redraw();
  }
  const fit = () => look(-trace.end * 0.01, trace.end * 1.02);
  const move = (share) => look(diagram.from + (diagram.to - diagram.from) * share, diagram.to + (diagram.to - diagram.from) * share);
  function zoom(factor, around = middle()) {
    look(around - (around - diagram.from) * factor, around + (diagram.to - around) * factor);
  }
  // Keys zoom around what is selected, if that is in sight.
  function middle() {
    if (diagram.selected !== null) {
      const at = trace.timeOn(diagram.selected, diagram.lane);
      if (at >= diagram.from && at <= diagram.to) return at;
    }
    return (diagram.from + diagram.to) / 2;
  }
  function reveal(at) {
    const span = diagram.to - diagram.from;
    if (at < diagram.from + span * 0.05 || at > diagram.to - span * 0.05) look(at - span / 2, at + span / 2);
    else redraw();
  }

  function showStatus() {
    byId("status").textContent = `${seconds(diagram.from)} to ${seconds(diagram.to)} s (${duration(diagram.to - diagram.from)}) · `
      + `${trace.shown.toLocaleString("en")} of ${trace.items.toLocaleString("en")} events, messages and faults · `
      + `${trace.head.events.toLocaleString("en")} simulated events, ${trace.head.committed.toLocaleString("en")} transactions · `
      + `hash ${trace.head.hash}`;
  }

  // ---- Details

  function element(name, text, parent, className) {
    const made = document.createElement(name);
    if (text !== null) made.textContent = text;
    if (className) made.className = className;
    parent.appendChild(made);
    return made;
  }
  function fields(parent, pairs) {
    const list = element("dl", null, parent);
    for (const [name, value] of pairs) {
      if (value === "" || value === null || value === undefined) continue;
      element("dt", name, list);
      element("dd", value, list, "mono");
    }
  }

  function showDetails() {
    const to = byId("details");
    to.textContent = "";
    if (diagram.selected === null) return showRun(to);
    const item = diagram.selected, i = trace.indexOf(item), text = trace.strings;
    let lane = diagram.lane;
    if (trace.typeOf(item) === "message") {
      const m = trace.messages;
      if (lane === null) lane = m.from[i];
      element("h2", text[m.name[i]], to);
      fields(to, [["action", text[m.action[i]] === "send" ? "" : text[m.action[i]]], ["from", trace.nodes[m.from[i]]], ["to", trace.nodes[m.to[i]]],
        ["connection", text[m.link[i]]], ["sent", `${seconds(m.sent[i], 9)} s`],
        ["arrived", m.arrived[i] < 0 ? "never: lost, or under way at the end" : `${seconds(m.arrived[i], 9)} s`],
        ["took", m.arrived[i] < 0 ? "" : duration(m.arrived[i] - m.sent[i])], ["message", text[m.detail[i]]]]);
    } else if (trace.typeOf(item) === "mark") {
      const k = trace.marks;
      if (lane === null) lane = k.node[i] < 0 ? null : k.node[i];
      element("h2", text[k.what[i]] || text[k.name[i]], to);
      fields(to, [["action", text[k.name[i]]], ["of", trace.laneName(k.node[i])], ["at", `${seconds(k.at[i], 9)} s`],
        ["details", text[k.detail[i]]]]);
    } else {
      const fault = trace.faults[i];
      element("h2", `fault: ${text[fault.kind]}`, to);
      fields(to, [["about", fault.nodes.map((node) => trace.nodes[node]).join(", ")], ["from", `${seconds(fault.from, 9)} s`],
        ["to", fault.to > fault.from ? `${seconds(fault.to, 9)} s` : "at once"],
        ["lasts", fault.to > fault.from ? duration(fault.to - fault.from) : ""], ["decided", text[fault.detail]]]);
    }
    showNeighbours(to, item, lane);
  }

  // What is around it on its lane.
  function showNeighbours(to, item, lane) {
    const { items, times } = trace.inOrder(lane);
    const at = items.indexOf(item);
    if (at < 0) return;
    element("h2", lane === null ? "Around it" : `Around it on ${trace.nodes[lane]}`, to);
    for (let n = Math.max(0, at - 8); n < Math.min(items.length, at + 9); ++n) {
      const row = element("div", null, to, n === at ? "near here" : "near");
      element("time", seconds(times[n]), row);
      element("span", trace.title(items[n], lane), row);
      const chosen = items[n];
      row.onclick = () => { diagram.lane = lane; select(chosen); };
    }
  }

  function showRun(to) {
    const head = trace.head;
    element("h2", "The run", to);
    fields(to, [["seed", head.seed], ["scenario", head.scenario], ["broken", head.break.join(", ")], ["again", head.command],
      ["failed", head.failure ? head.failure.invariant : ""], ["because", head.failure ? head.failure.detail : ""],
      ["drawn", head.plan]]);
  }

  function select(item, show = true) {
    diagram.selected = item;
    showDetails();
    if (item !== null && show) reveal(trace.timeOn(item, diagram.lane));
    redraw();
  }
  function step(by) {
    const item = trace.next(diagram.selected, by > 0 ? diagram.from : diagram.to, diagram.lane, by);
    if (item !== null) select(item);
  }
  function stepFault(by) {
    const at = diagram.selected === null ? diagram.from - 1 : trace.timeOn(diagram.selected, null);
    const current = diagram.selected !== null && trace.typeOf(diagram.selected) === "fault" ? trace.indexOf(diagram.selected) : null;
    let i = current !== null ? current + by : trace.faults.findIndex((fault) => fault.from >= at);
    if (current === null && by < 0) i = (i < 0 ? trace.faults.length : i) - 1;
    if (i >= 0 && i < trace.faults.length) select(trace.fault(i));
  }
  function showEnd() {
    const span = Math.min(diagram.to - diagram.from, trace.end / 20);
    look(trace.end * 1.005 - span, trace.end * 1.005);
  }

  // ---- The overview: how much happened when, and where one is

  const overview = byId("overview");
  const histogram = new Float64Array(400);
  function countEvents() {
    histogram.fill(0);
    const add = (at) => { ++histogram[Math.max(0, Math.min(399, Math.floor(at / trace.end * 400)))]; };
    for (let i = 0; i < trace.messages.count; ++i) if (trace.messages.shown[i]) add(trace.messages.sent[i]);
    for (let i = 0; i < trace.marks.count; ++i) if (trace.marks.shown[i]) add(trace.marks.at[i]);
  }
  function drawOverview() {
    const ratio = window.devicePixelRatio || 1, width = overview.clientWidth, height = overview.clientHeight;
    overview.width = width * ratio;
    overview.height = height * ratio;
    const c = overview.getContext("2d");
    c.scale(ratio, ratio);
    const most = Math.sqrt(Math.max(1, ...histogram));
    c.fillStyle = diagram.color("lane");
    histogram.forEach((count, i) => {
      const tall = Math.sqrt(count) / most * (height - 12);
      c.fillRect(i / 400 * width, height - tall, width / 400, tall);
    });
    c.fillStyle = diagram.color("faults");
    for (const fault of trace.faults) {
      c.fillRect(fault.from / trace.end * width, 2, Math.max(2, (fault.to - fault.from) / trace.end * width), 5);
    }
    const x0 = diagram.from / trace.end * width, x1 = diagram.to / trace.end * width;
    c.fillStyle = diagram.color("accent");
    c.globalAlpha = 0.16;
    c.fillRect(x0, 0, Math.max(2, x1 - x0), height);
    c.globalAlpha = 1;
    c.strokeStyle = diagram.color("accent");
    c.strokeRect(x0 + 0.5, 0.5, Math.max(2, x1 - x0) - 1, height - 1);
  }
  let pulling = false;
  function pull(event) {
    const at = (event.clientX - overview.getBoundingClientRect().left) / overview.clientWidth * trace.end;
    const span = Math.min(diagram.to - diagram.from, trace.end / 2);
    look(at - span / 2, at + span / 2);
  }
  overview.onpointerdown = (event) => { pulling = true; overview.setPointerCapture(event.pointerId); pull(event); };
  overview.onpointermove = (event) => { if (pulling) pull(event); };
  overview.onpointerup = () => { pulling = false; };

  // ---- Mouse

  const canvas = diagram.canvas, tip = byId("tip");
  let drag = null;
  canvas.onpointerdown = (event) => {
    drag = { x: event.offsetX, from: diagram.from, to: diagram.to, moved: false };
    if (event.pointerId !== undefined && event.isTrusted) canvas.setPointerCapture(event.pointerId);
  };
  canvas.onpointermove = (event) => {
    if (drag !== null) {
      if (Math.abs(event.offsetX - drag.x) > 3) drag.moved = true;
      if (drag.moved) {
        canvas.classList.add("dragging");
        const moved = (drag.x - event.offsetX) / (diagram.width - GUTTER) * (drag.to - drag.from);
        look(drag.from + moved, drag.to + moved);
      }
      tip.hidden = true;
      return;
    }
    const item = diagram.hit(event.offsetX, event.offsetY);
    tip.hidden = item === null;
    if (item === null) return;
    tip.textContent = `${seconds(trace.timeOn(item, null))} s  ${trace.title(item)}`;
    tip.style.left = `${Math.min(event.offsetX + 14, diagram.width - 240)}px`;
    tip.style.top = `${event.offsetY + 16}px`;
  };
  canvas.onpointerup = (event) => {
    canvas.classList.remove("dragging");
    if (drag !== null && !drag.moved) {
      const lane = event.offsetX < GUTTER ? nearestLane(event.offsetY) : null;
      diagram.lane = lane;
      select(lane === null ? diagram.hit(event.offsetX, event.offsetY) : null, false);
    }
    drag = null;
  };
  canvas.onpointerleave = () => { tip.hidden = true; };
  canvas.ondblclick = (event) => zoom(0.3, diagram.time(event.offsetX));
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const sideways = event.shiftKey ? event.deltaY : event.deltaX;
    if (Math.abs(sideways) > Math.abs(event.deltaY) || event.shiftKey) move(sideways / diagram.width);
    else zoom(Math.exp(event.deltaY * 0.0015), diagram.time(Math.max(GUTTER, event.offsetX)));
  }, { passive: false });
  function nearestLane(y) {
    let best = 0;
    diagram.laneY.forEach((lane, n) => { if (Math.abs(lane - y) < Math.abs(diagram.laneY[best] - y)) best = n; });
    return best;
  }
  function moveLane(by) {
    const next = diagram.lane === null ? (by > 0 ? 0 : trace.nodes.length - 1) : diagram.lane + by;
    diagram.lane = next < 0 || next >= trace.nodes.length ? null : next;
    redraw();
  }

  // ---- Keys and buttons

  const filter = byId("filter"), help = byId("help");
  const KEYS = {
    ArrowLeft: (event) => move(event.shiftKey ? -0.9 : -0.15), ArrowRight: (event) => move(event.shiftKey ? 0.9 : 0.15),
    ArrowUp: () => moveLane(-1), ArrowDown: () => moveLane(1), "+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1 / 0.6),
    "0": fit, n: () => step(1), p: () => step(-1), x: () => stepFault(1), X: () => stepFault(-1), e: showEnd, d: changeTheme,
    "?": () => help.showModal(), Escape: () => { diagram.lane = null; select(null); },
    Enter: () => {
      if (diagram.selected === null) return;
      const at = trace.timeOn(diagram.selected, diagram.lane), span = Math.min(diagram.to - diagram.from, trace.end) / 8;
      look(at - span / 2, at + span / 2);
    },
    "/": () => filter.focus(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    if (event.target === filter) {
      if (event.key === "Escape" || event.key === "Enter") { filter.blur(); canvas.focus(); }
      return;
    }
    // A button that has the focus is pressed by these.
    if (event.target.tagName === "BUTTON" && (event.key === "Enter" || event.key === " ")) return;
    const action = KEYS[event.key];
    if (!action) return;
    event.preventDefault();
    action(event);
  });

  function refilter() {
    trace.setFilter(filter.value);
    countEvents();
    redraw();
  }
  filter.oninput = refilter;
  for (const kind of KIND_NAMES) {
    if (!trace.brokers && (kind === "broker" || kind === "partitions")) continue;
    const button = element("button", KINDS[kind][0], byId("kinds"));
    button.style.setProperty("--of", `var(--${kind})`);
    button.setAttribute("aria-pressed", trace.on[kind]);
    button.onclick = () => {
      trace.on[kind] = !trace.on[kind];
      button.setAttribute("aria-pressed", trace.on[kind]);
      refilter();
    };
  }
  byId("in").onclick = () => zoom(0.6);
  byId("out").onclick = () => zoom(1 / 0.6);
  byId("fit").onclick = fit;
  byId("fault").onclick = () => stepFault(1);
  byId("end").onclick = showEnd;
  byId("help-button").onclick = () => help.showModal();
  byId("theme").onclick = changeTheme;

  function setTheme(theme) {
    document.documentElement.dataset.theme = theme;
    diagram.readColors();
    redraw();
  }
  function changeTheme() { setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"); }

  // ---- Begin

  const head = trace.head;
  byId("title").textContent = `Lockstep · ${head.scenario} · seed ${head.seed}` + (head.break.length ? ` · without ${head.break.join(", ")}` : "");
  document.title = `${head.failure ? head.failure.invariant + " · " : ""}Lockstep seed ${head.seed}`;
  byId("verdict").className = head.failure ? "bad" : "good";
  byId("verdict").textContent = head.failure ? `${head.failure.invariant} failed: ${head.failure.detail}` : "nothing wrong";
  byId("verdict").title = byId("verdict").textContent;
  for (const role of ["established", "serving", "leading", "following", "looking", "recovering"]) {
    const entry = element("span", null, byId("legend"));
    element("i", null, entry).style.background = `var(--${role})`;
    entry.append(role);
  }
  element("div", "The number in a band is its epoch. Ticks below a lane: a transaction is applied. Hatched: down. Dashed frame: paused. × : lost.",
    byId("legend"));
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  dark.onchange = () => setTheme(dark.matches ? "dark" : "light");
  window.onresize = () => { diagram.resize(); redraw(); };
  diagram.resize();
  countEvents();
  setTheme(location.hash === "#dark" || (location.hash !== "#light" && dark.matches) ? "dark" : "light");
  fit();
  showDetails();
  // For tests, and for whoever has a question that the page does not answer.
  window.lockstep = { trace, diagram, select, look, fit };
})();
