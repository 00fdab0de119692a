// Signals over a common time axis, on a canvas. Drag to zoom or to choose a range,
// double-click for all; + - arrows and 0 on the keyboard. Only what the screen can show
// is fetched: lowest and highest value in every column, so that spikes never vanish.
import { el, button, number } from "./dom.js";

const LEFT = 62, RIGHT = 14, TOP = 10, GAP = 16, BOTTOM = 40;
export const COLOURS = ["orange", "blue", "green", "purple", "yellow", "sky"];
const DASHES = [[], [7, 3], [2, 3], [9, 3, 2, 3], [4, 2], [1, 2]];

export function ticks(low, high, count) {
  const raw = (high - low) / Math.max(count, 1);
  const unit = 10 ** Math.floor(Math.log10(raw));
  const step = unit * [1, 2, 5, 10].find((m) => m * unit >= raw * (1 - 1e-9));
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(k * step);
  return found.map((v) => Number(v.toPrecision(12)));
}

export class Chart {
  // panels: [{ label, height, series: [{ key, label, colour, kind, dash }], zero }]
  // load(first, stop, width, signal): promise of signals; length in samples.
  constructor({ label, panels, load, length, dt, start = 0, marks = [], chosen, compact }) {
    Object.assign(this, { label, panels, load, length, dt, start, marks, chosen });
    this.first = 0;
    this.stop = length;
    this.range = null;
    this.mode = "zoom";
    this.canvas = el("canvas", { tabIndex: 0, role: "img", "aria-label": this.spoken() });
    this.tip = el("div", { class: "tip" });
    const tool = (text, name, act) => button(text, act, { "aria-label": name, title: name });
    this.tools = el("div", { class: "tools" },
      chosen && this.modes(), this.legend(), el("span", { class: "grow" }),
      tool("+", "zoom in", () => this.scale(0.5)), tool("−", "zoom out", () => this.scale(2)),
      tool("←", "earlier", () => this.move(-0.5)), tool("→", "later", () => this.move(0.5)),
      tool("all", "show all", () => this.show(0, this.length)));
    this.node = el("figure", { class: "chart" }, !compact && this.tools, this.canvas, this.tip);
    this.listen();
    this.watch = new ResizeObserver(() => this.resize());
    this.watch.observe(this.node);
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.redraw = () => this.draw();
    this.dark.addEventListener("change", this.redraw);
  }

  spoken() {
    const seconds = (this.length - 1) * this.dt;
    return `${this.label}: ${this.panels.map((p) => p.label).join(", ")}; ${this.length} samples `
      + `over ${number(seconds)} seconds. Plus and minus zoom, arrows move, 0 shows all.`;
  }

  modes() {
    const set = (mode) => { this.mode = mode; for (const b of buttons) b.setAttribute("aria-pressed", String(b.dataset.mode === mode)); };
    const make = (mode, text) => {
      const b = button(text, () => set(mode), { "aria-pressed": String(mode === this.mode) });
      b.dataset.mode = mode;
      return b;
    };
    const buttons = [make("zoom", "Drag zooms"), make("choose", "Drag chooses")];
    return el("span", { class: "switch", role: "group", "aria-label": "what dragging does" }, buttons);
  }

  legend() {
    const seen = new Set();
    const keys = this.panels.flatMap((p) => p.series).filter((s) => s.label && !seen.has(s.label) && seen.add(s.label));
    return el("span", { class: "legend" }, keys.map((s) =>
      el("span", { class: `key ${s.kind === "band" ? "band" : "line"} c-${s.colour}` }, s.label)));
  }

  listen() {
    const canvas = this.canvas;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      this.from = this.sampleAt(event);
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      this.at = this.sampleAt(event);
      this.tell(this.at);
      this.draw();
    });
    canvas.addEventListener("pointerleave", () => { this.at = undefined; this.draw(); });
    canvas.addEventListener("pointerup", (event) => {
      const a = this.from, b = this.sampleAt(event);
      this.from = undefined;
      const moved = a !== undefined && Math.abs(this.x(b) - this.x(a)) > 4;
      if (!moved) { this.draw(); return; }
      const first = Math.min(a, b), stop = Math.max(a, b) + 1;
      if (this.mode === "choose" && this.chosen) this.choose(first, stop, true);
      else this.show(first, stop);
    });
    canvas.addEventListener("pointercancel", () => { this.from = undefined; });
    canvas.addEventListener("dblclick", () => this.show(0, this.length));
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      this.scale(event.deltaY > 0 ? 1.25 : 0.8, this.sampleAt(event));
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      const moves = {
        "+": () => this.scale(0.5), "=": () => this.scale(0.5), "-": () => this.scale(2),
        ArrowLeft: () => this.move(-0.25), ArrowRight: () => this.move(0.25),
        0: () => this.show(0, this.length), Home: () => this.show(0, this.length),
      };
      if (!moves[event.key] || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      moves[event.key]();
      this.tip.setAttribute("aria-live", "polite");
      this.tip.textContent = `${number(this.time(this.first))} to ${number(this.time(this.stop - 1))} s`;
    });
  }

  choose(first, stop, tell = false) {
    this.range = first === null ? null : [first, stop];
    if (tell) this.chosen(first, stop);
    this.draw();
  }

  time(k) { return (this.start + k) * this.dt; }
  x(k) { return LEFT + (this.width - LEFT - RIGHT) * (k - this.first) / Math.max(this.stop - 1 - this.first, 1); }
  sampleAt(event) {
    const place = event.clientX - this.canvas.getBoundingClientRect().left;
    const share = (place - LEFT) / (this.width - LEFT - RIGHT);
    const k = Math.round(this.first + share * (this.stop - 1 - this.first));
    return Math.min(this.stop - 1, Math.max(this.first, k));
  }

  show(first, stop) {
    const least = Math.min(8, this.length);
    first = Math.max(0, Math.round(first));
    stop = Math.min(this.length, Math.round(stop));
    if (stop - first < least) {
      first = Math.max(0, Math.min(Math.round((first + stop - least) / 2), this.length - least));
      stop = first + least;
    }
    Object.assign(this, { first, stop });
    this.draw();
    this.fetch();
  }

  scale(factor, around = (this.first + this.stop) / 2) {
    this.show(around - (around - this.first) * factor, around + (this.stop - around) * factor);
  }

  move(share) {
    const length = this.stop - this.first;
    const first = Math.min(Math.max(0, this.first + share * length), this.length - length);
    this.show(first, first + length);
  }

  resize() {
    const width = this.node.clientWidth - 2;
    if (width <= 0 || width === this.width) return;
    this.width = width;
    this.height = TOP + this.panels.reduce((sum, p) => sum + p.height + GAP, 0) - GAP + BOTTOM;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = width * ratio;
    this.canvas.height = this.height * ratio;
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${this.height}px`;
    this.draw();
    this.fetch();
  }

  async fetch() {
    this.asking?.abort();
    const asking = this.asking = new AbortController();
    try {
      const columns = Math.round((this.width - LEFT - RIGHT) * Math.min(window.devicePixelRatio || 1, 2));
      const data = await this.load(this.first, this.stop, Math.max(columns, 50), asking.signal);
      if (asking === this.asking) { this.data = data; this.draw(); this.node.dataset.ready = "yes"; }
    } catch (error) {
      if (error.name !== "AbortError") this.tip.textContent = error.message;
    }
  }

  // Sample in the middle of a column of the data at hand.
  column(j) {
    const { first, stop, columns } = this.data;
    const count = stop - first;
    if (columns === count) return first + j;
    return first + (Math.floor(j * count / columns) + Math.floor((j + 1) * count / columns) - 1) / 2;
  }

  visible() {
    const { first, stop, columns } = this.data;
    const at = (k) => (k - first) / (stop - first) * columns;
    return [Math.max(0, Math.floor(at(this.first)) - 1), Math.min(columns, Math.ceil(at(this.stop)) + 1)];
  }

  // Ends of the values in a panel; bands widen it up to a limit.
  extent(panel) {
    let low = Infinity, high = -Infinity, wideLow = Infinity, wideHigh = -Infinity;
    const [a, b] = this.visible();
    for (const s of panel.series) {
      const got = this.data.found[s.key];
      if (!got) continue;
      for (let j = a; j < b; j++) {
        const l = got.low[j] + got.base, h = got.high[j] + got.base;
        if (s.kind === "band") { if (l < wideLow) wideLow = l; if (h > wideHigh) wideHigh = h; }
        else { if (l < low) low = l; if (h > high) high = h; }
      }
    }
    if (!(high >= low)) [low, high] = [-1, 1];
    if (panel.zero) { high = Math.max(-low, high); low = -high; }
    const spread = high - low || Math.abs(high) || 1;
    low = Math.max(Math.min(low, wideLow), low - 0.4 * spread);
    high = Math.min(Math.max(high, wideHigh), high + 0.4 * spread);
    return [low - 0.06 * spread, high + 0.06 * spread];
  }

  draw() {
    if (!this.width) return;
    const pen = this.canvas.getContext("2d"), ratio = window.devicePixelRatio || 1;
    const style = getComputedStyle(this.node);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, this.width, this.height);
    pen.font = "12px system-ui, sans-serif";
    const right = this.width - RIGHT, base = this.height - BOTTOM;
    this.shade(pen, colour, base);
    const times = ticks(this.time(this.first), this.time(Math.max(this.stop - 1, this.first + 1)), this.width / 110);
    pen.lineWidth = 1;
    for (const t of times) {
      const at = this.x(t / this.dt - this.start);
      pen.strokeStyle = colour("grid");
      pen.beginPath(); pen.moveTo(at, TOP); pen.lineTo(at, base); pen.stroke();
      pen.fillStyle = colour("soft");
      pen.textAlign = "center";
      pen.fillText(number(t, 7), at, base + 16);
    }
    pen.fillText("time [s]", (LEFT + right) / 2, base + 33);
    let top = TOP;
    for (const panel of this.panels) {
      this.panel(pen, colour, panel, top, right);
      top += panel.height + GAP;
    }
    this.pointer(pen, colour, base);
  }

  shade(pen, colour, base) {
    const area = (a, b, name, alpha) => {
      const left = Math.max(this.x(a), LEFT), end = Math.min(this.x(b), this.width - RIGHT);
      if (end <= left) return;
      pen.globalAlpha = alpha;
      pen.fillStyle = colour(name);
      pen.fillRect(left, TOP, end - left, base - TOP);
      pen.globalAlpha = 1;
    };
    for (const [a, b] of this.marks) area(a, b - 1, "blue", 0.1);
    if (this.range) area(this.range[0], this.range[1] - 1, "orange", 0.2);
  }

  panel(pen, colour, panel, top, right) {
    const bottom = top + panel.height;
    pen.strokeStyle = colour("line");
    pen.strokeRect(LEFT + 0.5, top + 0.5, right - LEFT - 1, panel.height - 1);
    if (this.data) {
      const [low, high] = this.extent(panel);
      const y = (v) => top + panel.height * (high - v) / (high - low);
      pen.textAlign = "right";
      for (const v of ticks(low, high, Math.max(panel.height / 32, 3))) {
        pen.strokeStyle = colour("grid");
        pen.beginPath(); pen.moveTo(LEFT, y(v)); pen.lineTo(right, y(v)); pen.stroke();
        pen.fillStyle = colour("soft");
        pen.fillText(number(v, 5), LEFT - 6, y(v) + 4);
      }
      pen.save();
      pen.beginPath(); pen.rect(LEFT, top, right - LEFT, panel.height); pen.clip();
      for (const s of panel.series) if (s.kind === "band") this.band(pen, colour, s, y);
      for (const s of panel.series) if (s.kind !== "band") this.curve(pen, colour, s, y);
      pen.restore();
    }
    pen.textAlign = "left";
    pen.font = "600 12px system-ui, sans-serif";
    const width = pen.measureText(panel.label).width;
    pen.globalAlpha = 0.8;
    pen.fillStyle = colour("paper");
    pen.fillRect(LEFT + 5, top + 4, width + 8, 17);
    pen.globalAlpha = 1;
    pen.fillStyle = colour("ink");
    pen.fillText(panel.label, LEFT + 9, top + 17);
    pen.font = "12px system-ui, sans-serif";
    panel.bottom = bottom;
  }

  curve(pen, colour, series, y) {
    const got = this.data.found[series.key];
    if (!got) return;
    const [a, b] = this.visible();
    const dense = this.data.columns < this.data.stop - this.data.first;
    pen.strokeStyle = colour(series.colour);
    pen.lineWidth = series.width || 1.4;
    pen.setLineDash(dense ? [] : series.dash || []);
    pen.lineJoin = "round";
    pen.beginPath();
    let down = false;
    for (let j = a; j < b; j++) {
      const l = got.low[j];
      if (Number.isNaN(l)) { down = false; continue; }
      const at = this.x(this.column(j)), place = y(l + got.base);
      if (down) pen.lineTo(at, place); else pen.moveTo(at, place);
      const h = got.high[j];
      if (h !== l) pen.lineTo(at, y(h + got.base));
      else if (!down) pen.lineTo(at + 0.01, place);
      down = true;
    }
    pen.stroke();
    pen.setLineDash([]);
  }

  band(pen, colour, series, y) {
    const got = this.data.found[series.key];
    if (!got) return;
    const [a, b] = this.visible();
    pen.fillStyle = colour(series.colour);
    pen.globalAlpha = 0.2;
    let begun = -1;
    const close = (end) => {
      if (begun < 0) return;
      pen.beginPath();
      for (let j = begun; j < end; j++) pen.lineTo(this.x(this.column(j)), y(got.high[j] + got.base));
      for (let j = end - 1; j >= begun; j--) pen.lineTo(this.x(this.column(j)), y(got.low[j] + got.base));
      pen.fill();
      begun = -1;
    };
    for (let j = a; j < b; j++) {
      if (Number.isNaN(got.low[j]) || Number.isNaN(got.high[j])) close(j);
      else if (begun < 0) begun = j;
    }
    close(b);
    pen.globalAlpha = 1;
  }

  pointer(pen, colour, base) {
    if (this.at === undefined) return;
    if (this.from !== undefined) {
      const a = this.x(Math.min(this.from, this.at)), b = this.x(Math.max(this.from, this.at));
      pen.globalAlpha = 0.18;
      pen.fillStyle = colour(this.mode === "choose" ? "orange" : "blue");
      pen.fillRect(a, TOP, b - a, base - TOP);
      pen.globalAlpha = 1;
    }
    pen.strokeStyle = colour("soft");
    pen.setLineDash([3, 3]);
    const at = this.x(this.at);
    pen.beginPath(); pen.moveTo(at, TOP); pen.lineTo(at, base); pen.stroke();
    pen.setLineDash([]);
  }

  tell(k) {
    if (!this.data) return;
    const { first, stop, columns } = this.data;
    const j = Math.floor((k - first) / (stop - first) * columns);
    if (j < 0 || j >= columns) return;
    const parts = [];
    for (const s of this.panels.flatMap((p) => p.series)) {
      const got = this.data.found[s.key];
      if (!got || !s.name) continue;
      const l = got.low[j] + got.base, h = got.high[j] + got.base;
      parts.push(`${s.name} ${l === h || Number.isNaN(l) ? number(l) : `${number(l)} to ${number(h)}`}`);
    }
    this.tip.removeAttribute("aria-live");
    this.tip.textContent = `${number(this.time(k), 7)} s:  ${parts.join(",  ")}`;
  }

  close() {
    this.asking?.abort();
    this.watch.disconnect();
    this.dark.removeEventListener("change", this.redraw);
  }
}

export { DASHES };
