// Elements without HTML: whatever comes from data is text, never markup.
export function el(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "class") node.className = value;
    else if (key in node && key !== "list" && !key.startsWith("aria")) node[key] = value;
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat(3).filter((c) => c !== null && c !== undefined && c !== false));
  return node;
}

let count = 0;
// A labelled control: the label is tied to it, for screen readers and larger targets.
export function field(label, control, hint) {
  control.id ||= `field-${++count}`;
  return el("div", { class: "field" }, el("label", { htmlFor: control.id }, label), control,
    hint && el("small", {}, hint));
}

export function select(options, value, properties = {}) {
  const node = el("select", properties, options.map(([key, text]) => el("option", { value: key }, text)));
  node.value = value;
  return node;
}

export function button(label, act, properties = {}) {
  return el("button", { type: "button", ...properties, onclick: act }, label);
}

export function table(head, rows, properties = {}) {
  return el("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": properties.label || "table" },
    el("table", { class: properties.class },
      el("thead", {}, el("tr", {}, head.map((cell) => el("th", { scope: "col" }, cell)))),
      el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell) => el("td", {}, cell ?? "")))))));
}

export function number(value, digits = 4) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(2);
  return String(Number(value.toPrecision(digits)));
}

export const withUnit = (value, unit) => `${number(value, 3)}${unit ? ` ${unit}` : ""}`;

export function duration(seconds) {
  if (seconds < 60) return `${seconds.toFixed(0)} s`;
  return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}
