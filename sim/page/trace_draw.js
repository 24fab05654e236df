// How the diagram is drawn: time goes to the right, each node has a lane. Whatever the number of events is, a frame draws what is
// in sight, and of what would fall on the same pixels one.

const GUTTER = 62;  // names of the lanes
const AXIS = 22;
const FAULT_ROW = 13;
const FAULT_ROWS_MAX = 5;
const BAND = 18;
const ARROWHEADS_MAX = 2500;

class Diagram {
  constructor(canvas, trace) {
    this.canvas = canvas;
    this.trace = trace;
    this.from = 0;
    this.to = trace.end;
    this.selected = null;
    this.lane = null;
    this.layFaults();
    this.readColors();
  }

  readColors() {
    const style = getComputedStyle(document.documentElement);
    this.color = (name) => style.getPropertyValue("--" + name).trim() || "#888";
  }

  // Faults that overlap go to rows of their own, as far as there are any.
  layFaults() {
    const rows = [];
    for (const fault of this.trace.faults) {
      let row = rows.findIndex((end) => end <= fault.from);
      if (row < 0) row = rows.length < FAULT_ROWS_MAX ? rows.length : FAULT_ROWS_MAX - 1;
      rows[row] = Math.max(rows[row] || 0, fault.to + 1);
      fault.row = row;
    }
    this.faultRows = Math.max(1, rows.length);
  }

  resize() {
    const box = this.canvas.parentElement.getBoundingClientRect();
    const ratio = window.devicePixelRatio || 1;
    this.width = Math.max(200, box.width);
    this.height = Math.max(120, box.height);
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.context = this.canvas.getContext("2d");
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    // Servers get the most of the height; clients a little each.
    const { servers, nodes } = this.trace;
    const top = AXIS + this.faultRows * FAULT_ROW + 24;
    const rest = this.height - top - 20;
    const clients = nodes.length - servers;
    const weight = servers + clients * 0.45;
    this.laneY = nodes.map((_, n) => top + rest * (n < servers ? n : servers + (n - servers) * 0.45) / Math.max(1, weight - 0.6));
  }

  x(time) { return GUTTER + (time - this.from) / (this.to - this.from) * (this.width - GUTTER); }
  time(x) { return this.from + (x - GUTTER) / (this.width - GUTTER) * (this.to - this.from); }
  laneY0(node) { return node < 0 ? AXIS + this.faultRows * FAULT_ROW + 4 : this.laneY[node]; }
  faultY(fault) { return AXIS + 2 + fault.row * FAULT_ROW; }

  draw() {
    const started = performance.now();
    const c = this.context;
    c.fillStyle = this.color("paper");
    c.fillRect(0, 0, this.width, this.height);
    this.drawAxis(c);
    c.save();
    c.beginPath();
    c.rect(GUTTER, 0, this.width - GUTTER, this.height);
    c.clip();
    this.drawFaults(c);
    this.drawBands(c);
    this.drawMessages(c);
    this.drawMarks(c);
    this.drawBandTexts(c);
    this.drawEnd(c);
    this.drawSelected(c);
    c.restore();
    this.drawNames(c);
    this.frameMs = performance.now() - started;
  }

  drawAxis(c) {
    const span = this.to - this.from;
    let step = 1;
    while (step * 12 < span) step *= 10;
    for (const part of [1, 2, 5, 10]) {
      if (span / (step / 10 * part) <= 12) { step = step / 10 * part; break; }
    }
    step = Math.max(1, step);
    const digits = Math.max(0, Math.min(9, Math.ceil(-Math.log10(step / 1e9))));
    c.font = "11px system-ui, sans-serif";
    c.textBaseline = "middle";
    for (let t = Math.ceil(this.from / step) * step; t <= this.to; t += step) {
      const x = Math.round(this.x(t)) + 0.5;
      c.strokeStyle = this.color("grid");
      c.beginPath();
      c.moveTo(x, AXIS);
      c.lineTo(x, this.height);
      c.stroke();
      c.fillStyle = this.color("soft");
      c.textAlign = "left";
      c.fillText(`${seconds(t, digits)} s`, x + 3, AXIS / 2);
    }
  }

  drawNames(c) {
    c.font = "600 12px system-ui, sans-serif";
    c.textAlign = "right";
    c.textBaseline = "middle";
    this.trace.nodes.forEach((name, n) => {
      c.fillStyle = n === this.lane ? this.color("select") : n < this.trace.servers ? this.color("ink") : this.color("soft");
      c.fillText(name, GUTTER - 10, this.laneY[n]);
    });
    c.font = "11px system-ui, sans-serif";
    c.fillStyle = this.color("faults");
    c.fillText("faults", GUTTER - 10, AXIS + FAULT_ROW / 2 + 2);
  }

  drawBands(c) {
    c.font = "11px system-ui, sans-serif";
    c.textBaseline = "middle";
    c.textAlign = "left";
    this.trace.nodes.forEach((_, n) => {
      c.strokeStyle = this.color("lane");
      c.beginPath();
      c.moveTo(GUTTER, this.laneY[n] + 0.5);
      c.lineTo(this.width, this.laneY[n] + 0.5);
      c.stroke();
    });
    for (const [server, paused, role, , from, to] of this.trace.bands) {
      if (to < this.from || from > this.to) continue;
      const name = this.trace.strings[role];
      const x0 = Math.max(GUTTER, this.x(from)), x1 = Math.min(this.width, this.x(to));
      const y = this.laneY[server] - BAND / 2, width = Math.max(1, x1 - x0);
      if (paused) {
        c.strokeStyle = this.color("paused");
        c.setLineDash([3, 3]);
        c.strokeRect(x0 + 0.5, y - 2.5, width, BAND + 5);
        c.setLineDash([]);
        if (width > 46) {
          c.fillStyle = this.color("ink");
          c.fillText("paused", x0 + 4, y - 9);
        }
        continue;
      }
      if (name === "down") this.drawDown(c, x0, y, width);
      else {
        c.fillStyle = this.color(name);
        c.fillRect(x0, y, width, BAND);
      }
    }
  }

  // Above the arrows, or nobody could read them.
  drawBandTexts(c) {
    c.font = "600 11px system-ui, sans-serif";
    c.textBaseline = "middle";
    c.textAlign = "left";
    c.lineJoin = "round";
    c.lineWidth = 3;
    for (const [server, paused, role, epoch, from, to] of this.trace.bands) {
      if (paused || to < this.from || from > this.to) continue;
      const name = this.trace.strings[role];
      const x0 = Math.max(GUTTER, this.x(from)), width = Math.min(this.width, this.x(to)) - x0;
      const text = epoch > 0 && name !== "down" ? `${name} · ${epoch}` : name;
      const short = epoch > 0 && name !== "down" ? `${epoch}` : "";
      const shown = c.measureText(text).width < width - 8 ? text : short;
      if (shown === "" || c.measureText(shown).width > width - 8) continue;
      c.strokeStyle = this.color(name === "down" ? "paper" : name);
      c.strokeText(shown, x0 + 4, this.laneY[server] + 0.5);
      c.fillStyle = this.color("ink");
      c.fillText(shown, x0 + 4, this.laneY[server] + 0.5);
    }
    c.lineWidth = 1;
  }

  drawDown(c, x, y, width) {
    c.save();
    c.beginPath();
    c.rect(x, y, width, BAND);
    c.clip();
    c.fillStyle = this.color("paper");
    c.fillRect(x, y, width, BAND);
    c.strokeStyle = this.color("down");
    c.beginPath();
    // The hatching stands still while the diagram moves.
    for (let at = Math.floor(x / 7) * 7 - BAND; at < x + width; at += 7) {
      c.moveTo(at, y + BAND);
      c.lineTo(at + BAND, y);
    }
    c.stroke();
    c.restore();
  }

  drawFaults(c) {
    this.trace.eachFault(this.from, this.to, (i) => {
      const fault = this.trace.faults[i];
      const x0 = this.x(fault.from), x1 = Math.max(x0 + 3, this.x(fault.to)), y = this.faultY(fault);
      c.fillStyle = this.color("faults");
      c.globalAlpha = 0.09;
      for (const node of fault.nodes) {
        if (this.laneY[node] !== undefined) c.fillRect(x0, this.laneY[node] - BAND, x1 - x0, BAND * 2);
      }
      c.globalAlpha = 0.85;
      c.fillRect(x0, y, x1 - x0, FAULT_ROW - 3);
      c.globalAlpha = 1;
      if (x1 - x0 > 50) {
        c.font = "10px system-ui, sans-serif";
        c.fillStyle = this.color("paper");
        c.textAlign = "left";
        c.textBaseline = "middle";
        c.save();
        c.beginPath();
        c.rect(x0, y, x1 - x0, FAULT_ROW - 3);
        c.clip();
        c.fillText(this.trace.title(this.trace.fault(i)), Math.max(x0, GUTTER) + 3, y + (FAULT_ROW - 3) / 2);
        c.restore();
      }
    });
  }

  // Where an arrow begins and ends. One that is lost ends on its way.
  arrow(i) {
    const m = this.trace.messages;
    const y0 = this.laneY[m.from[i]], y1 = this.laneY[m.to[i]];
    const x0 = this.x(m.sent[i]);
    if (m.arrived[i] >= 0) return [x0, y0, this.x(m.arrived[i]), y1];
    return [x0, y0, x0 + 14, y0 + (y1 - y0) * 0.3];
  }

  drawMessages(c) {
    const m = this.trace.messages;
    const paths = KIND_NAMES.map(() => []);
    const lost = [];
    const seen = new Set();
    let count = 0;
    this.trace.eachMessage(this.from, this.to, (i) => {
      const [x0, y0, x1, y1] = this.arrow(i);
      const nodes = (m.from[i] * 64 + m.to[i]) * 32 + m.kind[i];
      const key = (nodes * 8192 + Math.max(0, Math.round(x0))) * 8192 + Math.min(8191, Math.round(x1));
      if (seen.has(key)) return;
      seen.add(key);
      ++count;
      (m.arrived[i] < 0 ? lost : paths[m.kind[i]]).push(x0, y0, x1, y1);
    });
    this.drawn = count;
    const heads = count <= ARROWHEADS_MAX;
    c.lineWidth = 1;
    c.globalAlpha = count > 4000 ? 0.45 : 0.85;
    paths.forEach((path, kind) => {
      if (path.length === 0) return;
      c.strokeStyle = c.fillStyle = this.color(KIND_NAMES[kind]);
      c.beginPath();
      for (let p = 0; p < path.length; p += 4) {
        c.moveTo(path[p], path[p + 1]);
        c.lineTo(path[p + 2], path[p + 3]);
      }
      c.stroke();
      if (heads) this.drawHeads(c, path);
    });
    c.globalAlpha = 0.8;
    c.strokeStyle = this.color("faults");
    c.setLineDash([3, 2]);
    c.beginPath();
    for (let p = 0; p < lost.length; p += 4) {
      c.moveTo(lost[p], lost[p + 1]);
      c.lineTo(lost[p + 2], lost[p + 3]);
    }
    c.stroke();
    c.setLineDash([]);
    c.beginPath();
    for (let p = 0; p < lost.length; p += 4) {
      const x = lost[p + 2], y = lost[p + 3];
      c.moveTo(x - 3, y - 3); c.lineTo(x + 3, y + 3);
      c.moveTo(x + 3, y - 3); c.lineTo(x - 3, y + 3);
    }
    c.stroke();
    c.globalAlpha = 1;
  }

  drawHeads(c, path) {
    c.beginPath();
    for (let p = 0; p < path.length; p += 4) {
      const dx = path[p + 2] - path[p], dy = path[p + 3] - path[p + 1];
      const length = Math.hypot(dx, dy);
      if (length < 10) continue;
      const ux = dx / length, uy = dy / length, x = path[p + 2], y = path[p + 3];
      c.moveTo(x, y);
      c.lineTo(x - 7 * ux - 3 * uy, y - 7 * uy + 3 * ux);
      c.lineTo(x - 7 * ux + 3 * uy, y - 7 * uy - 3 * ux);
      c.closePath();
    }
    c.fill();
  }

  drawMarks(c) {
    const k = this.trace.marks;
    const seen = new Set();
    const commit = KIND_NAMES.indexOf("commit");
    const ticks = [];
    this.trace.eachMark(this.from, this.to, (i) => {
      const x = this.x(k.at[i]), y = this.laneY0(k.node[i]);
      const key = (Math.round(x) * 256 + k.node[i] + 1) * 32 + k.kind[i];
      if (seen.has(key)) return;
      seen.add(key);
      if (k.kind[i] === commit) {
        ticks.push(x, y);
        return;
      }
      c.fillStyle = this.color(KIND_NAMES[k.kind[i]]);
      c.beginPath();
      c.arc(x, y, 3.2, 0, 7);
      c.fill();
    });
    c.strokeStyle = this.color("commit");
    c.lineWidth = 2;
    c.beginPath();
    for (let p = 0; p < ticks.length; p += 2) {
      c.moveTo(ticks[p], ticks[p + 1] + BAND / 2 - 4);
      c.lineTo(ticks[p], ticks[p + 1] + BAND / 2 + 3);
    }
    c.stroke();
    c.lineWidth = 1;
  }

  drawEnd(c) {
    const x = this.x(this.trace.end);
    const failure = this.trace.head.failure;
    c.strokeStyle = this.color(failure ? "bad" : "lane");
    c.lineWidth = failure ? 2 : 1;
    c.beginPath();
    c.moveTo(x, AXIS);
    c.lineTo(x, this.height);
    c.stroke();
    c.lineWidth = 1;
    if (!failure) return;
    c.font = "600 12px system-ui, sans-serif";
    c.textAlign = "right";
    c.textBaseline = "top";
    c.fillStyle = this.color("bad");
    c.fillText(failure.invariant, x - 5, this.height - 16);
  }

  drawSelected(c) {
    if (this.selected === null) return;
    const trace = this.trace, i = trace.indexOf(this.selected);
    c.strokeStyle = c.fillStyle = this.color("select");
    c.lineWidth = 2.5;
    if (trace.typeOf(this.selected) === "message") {
      const path = this.arrow(i);
      c.beginPath();
      c.moveTo(path[0], path[1]);
      c.lineTo(path[2], path[3]);
      c.stroke();
      this.drawHeads(c, path);
    } else if (trace.typeOf(this.selected) === "mark") {
      c.beginPath();
      c.arc(this.x(trace.marks.at[i]), this.laneY0(trace.marks.node[i]), 7, 0, 7);
      c.stroke();
    } else {
      const fault = trace.faults[i], x0 = this.x(fault.from);
      c.strokeRect(x0 - 1, this.faultY(fault) - 1, Math.max(5, this.x(fault.to) - x0) + 2, FAULT_ROW - 1);
    }
    c.lineWidth = 1;
  }

  // What is nearest to a point, or null.
  hit(px, py) {
    let best = null, near = 7;
    const offer = (item, distance) => {
      if (distance < near) { best = item; near = distance; }
    };
    const reach = (this.to - this.from) / this.width * 8;
    const t = this.time(px);
    this.trace.eachFault(t - reach, t + reach, (i) => {
      const fault = this.trace.faults[i], y = this.faultY(fault);
      if (py >= y - 1 && py <= y + FAULT_ROW - 2) offer(this.trace.fault(i), 0.5);
    });
    const k = this.trace.marks;
    this.trace.eachMark(t - reach, t + reach, (i) => {
      // Marks are small, and lie upon arrows.
      offer(this.trace.mark(i), Math.hypot(this.x(k.at[i]) - px, this.laneY0(k.node[i]) - py) - 2);
    });
    this.trace.eachMessage(t - reach, t + reach, (i) => {
      const [x0, y0, x1, y1] = this.arrow(i);
      const length = (x1 - x0) ** 2 + (y1 - y0) ** 2;
      const along = length === 0 ? 0 : Math.max(0, Math.min(1, ((px - x0) * (x1 - x0) + (py - y0) * (y1 - y0)) / length));
      offer(this.trace.message(i), Math.hypot(px - x0 - along * (x1 - x0), py - y0 - along * (y1 - y0)));
    });
    return best;
  }
}
