// Small pictures in SVG: correlations over lags, poles, curves over frequency or time.
import { el, number } from "./dom.js";
import { ticks } from "./chart.js";

const NS = "http://www.w3.org/2000/svg";
const W = 340, H = 190, L = 46, R = 10, T = 10, B = 34;

function shape(name, attributes, parent, text) {
  const node = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
}

// A frame with axes; returns where values lie. log: frequencies in powers of ten.
function frame({ label, x, y, xLabel, log = false }) {
  const svg = document.createElementNS(NS, "svg");
  for (const [k, v] of Object.entries({ viewBox: `0 0 ${W} ${H}`, class: "plot", role: "img", "aria-label": label })) svg.setAttribute(k, v);
  const place = (v) => (log ? Math.log10(v) : v);
  const [x0, x1] = x.map(place), [y0, y1] = y;
  const at = (v) => L + (W - L - R) * (place(v) - x0) / (x1 - x0 || 1);
  const up = (v) => T + (H - T - B) * (y1 - v) / (y1 - y0 || 1);
  for (const v of ticks(y0, y1, 4)) {
    shape("line", { x1: L, x2: W - R, y1: up(v), y2: up(v), class: "rule" }, svg);
    shape("text", { x: L - 5, y: up(v) + 4, "text-anchor": "end" }, svg, number(v, 3));
  }
  const marks = log
    ? Array.from({ length: Math.floor(x1) - Math.ceil(x0) + 1 }, (_, k) => 10 ** (Math.ceil(x0) + k))
    : ticks(x0, x1, 5);
  for (const v of marks) {
    shape("line", { x1: at(v), x2: at(v), y1: T, y2: H - B, class: "rule" }, svg);
    shape("text", { x: at(v), y: H - B + 14, "text-anchor": "middle" }, svg, number(v, 3));
  }
  shape("text", { x: (L + W - R) / 2, y: H - 4, "text-anchor": "middle" }, svg, xLabel);
  return { svg, at, up };
}

const ends = (values, room = 0.06) => {
  const known = values.filter((v) => v !== null && Number.isFinite(v));
  const low = Math.min(...known), high = Math.max(...known), spread = high - low || Math.abs(high) || 1;
  return [low - room * spread, high + room * spread];
};

const captioned = (svg, text) => el("figure", {}, svg, el("figcaption", {}, text));

export function lagChart(test) {
  const reach = 1.15 * Math.max(test.limit, ...test.values.map(Math.abs));
  const what = test.source === null ? `${test.output} with itself` : `${test.output} and ${test.source}`;
  const { svg, at, up } = frame({
    label: test.verdict, x: [test.lags[0] - 0.5, test.lags.at(-1) + 0.5], y: [-reach, reach], xLabel: "lag [samples]",
  });
  shape("rect", { x: L, width: W - L - R, y: up(test.limit), height: up(-test.limit) - up(test.limit), class: "allowed" }, svg);
  test.lags.forEach((lag, k) => {
    const outside = Math.abs(test.values[k]) > test.limit;
    shape("line", { x1: at(lag), x2: at(lag), y1: up(0), y2: up(test.values[k]), class: outside ? "stem out" : "stem" }, svg);
  });
  return captioned(svg, `Residuals: ${what}${test.passed ? "" : " (beyond chance)"}`);
}

export function poleChart(poles, label) {
  const { svg, at, up } = frame({ label, x: [-1.9, 1.9], y: [-1.1, 1.1], xLabel: "real part" });
  shape("ellipse", { cx: at(0), cy: up(0), rx: at(1) - at(0), ry: up(0) - up(1), class: "circle" }, svg);
  for (const p of poles) {
    const x = at(p.real), y = up(p.imag);
    shape("path", { d: `M${x - 4} ${y - 4}L${x + 4} ${y + 4}M${x - 4} ${y + 4}L${x + 4} ${y - 4}`, class: "pole" }, svg);
  }
  return captioned(svg, label);
}

// One curve with a band of its members.
export function curveChart({ label, x, y, low, high, xLabel, log }) {
  const { svg, at, up } = frame({ label, x: [x[0], x.at(-1)], y: ends([...y, ...(low || []), ...(high || [])]), xLabel, log });
  const path = (values, back) => {
    const points = values.map((v, k) => `${at(x[k]).toFixed(1)} ${up(v).toFixed(1)}`);
    return (back ? points.reverse() : points).join("L");
  };
  if (low && high) shape("path", { d: `M${path(high)}L${path(low, true)}Z`, class: "spread" }, svg);
  shape("path", { d: `M${path(y)}`, class: "trace" }, svg);
  return captioned(svg, label);
}
