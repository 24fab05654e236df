"use strict";
// What the page shows: the data as they stand in it, indexes over them, and what the filter lets through.
// Times are nanoseconds of the simulated world.

// Kinds that can be switched off, with their colours (a CSS variable each) and whether they are on at first.
const KINDS = {
  zab: ["Proposals", true], ack: ["Acks", true], commit: ["Commits", true], sync: ["Synchronization", true],
  election: ["Elections", false], ping: ["Pings", false], forwarded: ["Forwarded", false], client: ["Clients", true],
  broker: ["Brokers", true], roles: ["Roles", true], sessions: ["Sessions", false], partitions: ["Partitions", true],
  storage: ["Storage", false], connections: ["Connections", false], other: ["Other", true], faults: ["Faults", true],
};
const KIND_NAMES = Object.keys(KINDS);

const KIND_OF_MESSAGE = {
  Proposal: "zab", Ack: "ack", Commit: "commit", UpToDate: "sync", FollowerInfo: "sync", LeaderInfo: "sync", AckEpoch: "sync",
  Diff: "sync", Trunc: "sync", Snap: "sync", SnapChunk: "sync", NewLeader: "sync", AckNewLeader: "sync", Hello: "connections",
  Notification: "election", Ping: "ping", Request: "forwarded", Reply: "forwarded", ReplicaFetchRequest: "broker",
  ReplicaFetchResponse: "broker",
};

function kindsOfMarks() {
  const of = {};
  const add = (kind, words) => words.split(" ").forEach((word) => { of[word] = kind; });
  add("commit", "applies");
  add("roles", "looking following leading established up-to-date starts killed power-off stops asked-to-stop pauses resumes heals healed"
      + " epoch-proposed epoch-accepted new-leader-acked truncated epoch-exhausted recovered not-serving digest-mismatch");
  add("sync", "sync-diff sync-trunc sync-trunc-diff sync-snap learner-dropped snapshot-received");
  add("election", "election-round");
  add("storage", "torn-tail segment-rolled segment-dropped snapshot-written sync-completed log-damaged log-cut log-stray"
      + " digest-compared");
  add("sessions", "session-created session-closed session-moved session-expired session-lost watch-fired broker-registered"
      + " broker-unregistered broker-fenced");
  add("connections", "connection-refused connection-closed backpressure accepted connected closed lost ignored");
  add("partitions", "partition-leading partition-following partition-resigned history-diverged log-truncated log-restarted"
      + " fetch-refused fetch-failed isr-shrink isr-expand isr-changed isr-change-failed produces-failed elected election-lost"
      + " unclean-election handed-over reassignment-step replica-opened replica-closed state-change-queue-full"
      + " state-change-ignored znode-unreadable topic-removed groups-loaded group-generation group-member-expired");
  add("client", "request reply event produced assigned admin");
  return of;
}

// Items are numbered: messages first, then marks, then faults.
class Trace {
  constructor(data) {
    Object.assign(this, { head: data, strings: data.strings, nodes: data.nodes, servers: data.servers, bands: data.bands });
    this.end = Math.max(1, data.end);
    this.faults = data.faults.map(([from, to, kind, detail, nodes]) => ({ from, to, kind, detail, nodes }));
    this.readMessages(data.messages);
    this.readMarks(data.marks);
    this.lower = this.strings.map((text) => text.toLowerCase());
    this.on = {};
    for (const kind of KIND_NAMES) this.on[kind] = KINDS[kind][1];
    // Without clients of Kafka's there is nothing of brokers to be shown.
    this.brokers = this.messages.kind.includes(KIND_NAMES.indexOf("broker")) || this.strings.includes("broker");
    this.words = [];
    this.applyFilter();
  }

  readMessages(flat) {
    const count = flat.length / 8;
    const m = this.messages = {
      count, sent: new Float64Array(count), arrived: new Float64Array(count), from: new Uint16Array(count), to: new Uint16Array(count),
      link: new Uint32Array(count), name: new Uint32Array(count), action: new Uint32Array(count), detail: new Uint32Array(count),
      kind: new Uint8Array(count), shown: new Uint8Array(count),
    };
    for (let i = 0; i < count; ++i) {
      const at = i * 8;
      m.sent[i] = flat[at]; m.arrived[i] = flat[at + 1]; m.from[i] = flat[at + 2]; m.to[i] = flat[at + 3];
      m.link[i] = flat[at + 4]; m.name[i] = flat[at + 5]; m.action[i] = flat[at + 6]; m.detail[i] = flat[at + 7];
      const link = this.strings[m.link[i]];
      const kind = KIND_OF_MESSAGE[this.strings[m.name[i]]] || (link === "client" || link === "broker" ? "client" : "sessions");
      m.kind[i] = KIND_NAMES.indexOf(kind);
    }
    // A message is seen from its sending to its arrival: of each block, the latest arrival, so that blocks can be left out.
    this.block = 256;
    this.blockEnd = [];
    for (let b = 0; b < count; b += this.block) {
      let end = 0;
      for (let i = b; i < Math.min(count, b + this.block); ++i) end = Math.max(end, m.sent[i], m.arrived[i]);
      this.blockEnd.push(end);
    }
  }

  readMarks(flat) {
    const count = flat.length / 5, kinds = kindsOfMarks();
    const m = this.marks = {
      count, at: new Float64Array(count), node: new Int16Array(count), name: new Uint32Array(count), what: new Uint32Array(count),
      detail: new Uint32Array(count), kind: new Uint8Array(count), shown: new Uint8Array(count),
    };
    for (let i = 0; i < count; ++i) {
      const at = i * 5;
      m.at[i] = flat[at]; m.node[i] = flat[at + 1]; m.name[i] = flat[at + 2]; m.what[i] = flat[at + 3]; m.detail[i] = flat[at + 4];
      m.kind[i] = KIND_NAMES.indexOf(kinds[this.strings[m.what[i]]] || "other");
    }
  }

  setFilter(text) {
    this.words = text.toLowerCase().split(/\s+/).filter((word) => word);
    this.applyFilter();
  }

  // All words must be found; one that is the name of a node means the node.
  applyFilter() {
    const tests = this.words.map((word) => {
      const node = this.nodes.indexOf(word);
      return { node, found: node >= 0 ? null : Uint8Array.from(this.lower, (text) => (text.includes(word) ? 1 : 0)) };
    });
    const on = KIND_NAMES.map((kind) => this.on[kind]);
    const m = this.messages, k = this.marks;
    let shown = 0;
    for (let i = 0; i < m.count; ++i) {
      m.shown[i] = on[m.kind[i]] && tests.every(({ node, found }) => (node >= 0 ? m.from[i] === node || m.to[i] === node
        : found[m.name[i]] || found[m.detail[i]] || found[m.action[i]] || found[m.link[i]])) ? 1 : 0;
      shown += m.shown[i];
    }
    for (let i = 0; i < k.count; ++i) {
      k.shown[i] = on[k.kind[i]] && tests.every(({ node, found }) => (node >= 0 ? k.node[i] === node
        : found[k.name[i]] || found[k.detail[i]] || found[k.what[i]])) ? 1 : 0;
      shown += k.shown[i];
    }
    for (const fault of this.faults) {
      fault.shown = this.on.faults && tests.every(({ node, found }) => (node >= 0 ? fault.nodes.includes(node)
        : found[fault.kind] || found[fault.detail])) ? 1 : 0;
      shown += fault.shown;
    }
    this.shown = shown;
    this.order = null;
  }

  // Calls fn with each message that is shown and under way between the two times.
  eachMessage(from, to, fn) {
    const m = this.messages;
    for (let b = 0; b < this.blockEnd.length; ++b) {
      const first = b * this.block;
      if (m.sent[first] > to) return;
      if (this.blockEnd[b] < from) continue;
      const last = Math.min(m.count, first + this.block);
      for (let i = first; i < last && m.sent[i] <= to; ++i) {
        if (m.shown[i] && Math.max(m.sent[i], m.arrived[i]) >= from) fn(i);
      }
    }
  }

  eachMark(from, to, fn) {
    const k = this.marks;
    let low = 0, high = k.count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (k.at[middle] < from) low = middle + 1; else high = middle;
    }
    for (let i = low; i < k.count && k.at[i] <= to; ++i) if (k.shown[i]) fn(i);
  }

  eachFault(from, to, fn) {
    this.faults.forEach((fault, i) => { if (fault.shown && fault.to >= from && fault.from <= to) fn(i); });
  }

  get items() { return this.messages.count + this.marks.count + this.faults.length; }
  message(i) { return i; }
  mark(i) { return this.messages.count + i; }
  fault(i) { return this.messages.count + this.marks.count + i; }
  typeOf(item) {
    return item < this.messages.count ? "message" : item < this.messages.count + this.marks.count ? "mark" : "fault";
  }
  indexOf(item) {
    const type = this.typeOf(item);
    return type === "message" ? item : type === "mark" ? item - this.messages.count : item - this.messages.count - this.marks.count;
  }

  // When it is on a lane: a message is on two.
  timeOn(item, lane) {
    const i = this.indexOf(item), m = this.messages;
    switch (this.typeOf(item)) {
      case "message": return lane !== null && m.to[i] === lane && m.arrived[i] >= 0 ? m.arrived[i] : m.sent[i];
      case "mark": return this.marks.at[i];
      default: return this.faults[i].from;
    }
  }
  isOn(item, lane) {
    const i = this.indexOf(item);
    switch (this.typeOf(item)) {
      case "message": return this.messages.from[i] === lane || this.messages.to[i] === lane;
      case "mark": return this.marks.node[i] === lane;
      default: return this.faults[i].nodes.includes(lane);
    }
  }

  // All that is shown, of a lane or of all (null), by time.
  inOrder(lane) {
    if (this.order === null || this.order.lane !== lane) {
      const items = [];
      for (let i = 0; i < this.messages.count; ++i) if (this.messages.shown[i]) items.push(this.message(i));
      for (let i = 0; i < this.marks.count; ++i) if (this.marks.shown[i]) items.push(this.mark(i));
      this.faults.forEach((fault, i) => { if (fault.shown) items.push(this.fault(i)); });
      const of = lane === null ? items : items.filter((item) => this.isOn(item, lane));
      const times = new Map(of.map((item) => [item, this.timeOn(item, lane)]));
      of.sort((a, b) => times.get(a) - times.get(b) || a - b);
      this.order = { lane, items: of, times: of.map((item) => times.get(item)) };
    }
    return this.order;
  }

  // The item after (or before) another one, or after a time if there is none.
  next(item, time, lane, step) {
    const { items, times } = this.inOrder(lane);
    let at = item === null ? -1 : items.indexOf(item);
    if (at >= 0) return items[at + step] ?? null;
    at = times.findIndex((t) => t >= time);
    if (step > 0) return at < 0 ? null : items[at];
    return at < 0 ? items[items.length - 1] ?? null : items[at - 1] ?? null;
  }

  laneName(node) { return node < 0 ? "world" : this.nodes[node]; }

  // A line about an item, as from one of its lanes.
  title(item, lane = null) {
    const i = this.indexOf(item);
    switch (this.typeOf(item)) {
      case "message": {
        const m = this.messages;
        const what = this.strings[m.detail[i]] && this.strings[m.detail[i]].startsWith(this.strings[m.name[i]])
          ? this.strings[m.detail[i]] : `${this.strings[m.name[i]]} ${this.strings[m.detail[i]]}`;
        const arrow = lane === m.to[i] ? `← ${this.nodes[m.from[i]]}` : lane === m.from[i] ? `→ ${this.nodes[m.to[i]]}`
          : `${this.nodes[m.from[i]]} → ${this.nodes[m.to[i]]}`;
        return `${what.trim()} ${arrow}${m.arrived[i] < 0 ? " (lost)" : ""}`;
      }
      case "mark": return `${this.strings[this.marks.what[i]] || this.strings[this.marks.name[i]]} ${this.strings[this.marks.detail[i]]}`.trim();
      default: return `${this.strings[this.faults[i].kind]} ${this.strings[this.faults[i].detail]}`.trim();
    }
  }
}

function seconds(ns, digits = 6) { return (ns / 1e9).toFixed(digits); }

function duration(ns) {
  if (ns < 1e3) return `${Math.round(ns)} ns`;
  if (ns < 1e6) return `${(ns / 1e3).toFixed(1)} µs`;
  return ns < 1e9 ? `${(ns / 1e6).toFixed(2)} ms` : `${(ns / 1e9).toFixed(3)} s`;
}
