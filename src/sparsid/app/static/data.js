// First screen: files, the roles of their columns, what is wrong with them.
import * as api from "./api.js";
import { el, button, field, number, select, table } from "./dom.js";
import { Chart } from "./chart.js";

const ROLES = [["input", "input"], ["output", "output"], ["time", "time"], ["ignore", "ignore"]];

export function dataScreen(app) {
  const { files, raw } = app.state;
  const parts = [dropZone(app, files.length > 0)];
  if (raw.error) parts.push(el("p", { class: "notice bad" }, raw.error));
  if (raw.records.length) parts.push(summary(app), picture(app));
  parts.push(...files.map((file) => fileCard(app, file)));
  return parts;
}

function dropZone(app, small) {
  const input = el("input", {
    type: "file", multiple: true, id: "file", class: "unseen", accept: app.state.suffixes.join(","),
    onchange: () => take(app, [...input.files]),
  });
  const zone = el("label", { class: small ? "drop small" : "drop", htmlFor: "file" },
    el("strong", {}, small ? "Drop more files, or choose them" : "Drop a recording here, or choose a file"),
    el("span", { class: "soft" }, "CSV, Excel, MATLAB, Parquet, HDF5 and more, one row for each sample. Files stay on this computer."));
  zone.addEventListener("dragover", (event) => { event.preventDefault(); zone.classList.add("over"); });
  zone.addEventListener("dragleave", () => zone.classList.remove("over"));
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    zone.classList.remove("over");
    take(app, [...event.dataTransfer.files]);
  });
  return el("section", { class: "wide" }, input, zone);
}

async function take(app, files) {
  for (const file of files) {
    app.say(`Reading ${file.name}`);
    const path = `files?name=${encodeURIComponent(file.name)}`;
    if (!await app.act(api.upload(path, file), `${file.name} is loaded.`)) return;
  }
}

function summary(app) {
  const { records, channels } = app.state.raw;
  const count = (side) => channels.filter((c) => c.side === side).map((c) => c.name).join(", ") || "none";
  const samples = records.reduce((sum, r) => sum + r.samples, 0);
  const gaps = records.reduce((sum, r) => sum + r.gaps, 0);
  const facts = [
    ["inputs", count("input")], ["outputs", count("output")],
    ["samples", `${samples.toLocaleString("en")}${records.length > 1 ? ` in ${records.length} records` : ""}`],
    ["sampling time", `${number(records[0].dt)} s`],
    ["duration", `${number(samples * records[0].dt)} s`],
  ];
  if (gaps) facts.push(["samples without output", String(gaps)]);
  return el("section", { class: "facts" },
    facts.map(([what, value]) => el("div", { class: "fact" }, el("b", {}, value), el("span", {}, what))),
    el("span", { class: "grow" }),
    button("Prepare →", () => app.go("prepare"), { class: "main", id: "to-prepare" }));
}

// The recorded channels, one above the other.
export function channelChart(app, what, k, more = {}) {
  const kept = app.state[what];
  const record = kept.records[k];
  const height = Math.max(70, Math.min(150, 420 / kept.channels.length));
  const panels = kept.channels.map((channel, c) => ({
    label: `${channel.name}${channel.unit ? ` [${channel.unit}]` : ""}${channel.side === "input" ? " (input)" : ""}`,
    height,
    series: [{ key: String(c), name: channel.name, colour: channel.side === "input" ? "blue" : "ink", kind: "line", width: 1.2 }],
  }));
  return new Chart({
    label: record.name || "record", panels, length: record.samples, dt: record.dt, start: record.start,
    load: (first, stop, width, signal) =>
      api.signals(`signals?what=${what}&record=${k}&first=${first}&stop=${stop}&width=${width}`, signal),
    ...more,
  });
}

export function recordChoice(app, what, render) {
  const records = app.state[what].records;
  app.kept.record = Math.min(app.kept.record || 0, records.length - 1);
  if (records.length < 2) return null;
  const options = records.map((r, k) => [String(k), `${k + 1}: ${r.name} (${r.samples} samples)`]);
  const choice = select(options, String(app.kept.record), {
    id: "record", onchange: () => { app.kept.record = Number(choice.value); render(); },
  });
  return field("Record", choice);
}

function picture(app) {
  return el("section", { class: "wide" },
    recordChoice(app, "raw", () => app.render()),
    app.chart(channelChart(app, "raw", Math.min(app.kept.record || 0, app.state.raw.records.length - 1))));
}

function fileCard(app, file) {
  const change = (value) => app.act(api.patch(`files/${file.id}`, value), "Changed.");
  const dt = el("input", {
    type: "number", min: "0", step: "any", value: file.dt ?? "", placeholder: "from the file", id: `dt-${file.id}`,
    onchange: () => change({ dt: dt.value === "" ? null : Number(dt.value) }),
  });
  const rows = file.columns.map((column, k) => {
    const role = select(ROLES, column.role, {
      "aria-label": `role of ${column.name}`, id: `role-${file.id}-${k}`, disabled: !column.numeric && column.role !== "time",
      onchange: () => change({ columns: [{ name: column.name, role: role.value }] }),
    });
    const unit = el("input", {
      value: column.unit, size: 6, maxLength: 20, "aria-label": `unit of ${column.name}`, id: `unit-${file.id}-${k}`,
      onchange: () => change({ columns: [{ name: column.name, unit: unit.value }] }),
    });
    const range = column.numeric ? `${number(column.low)} to ${number(column.high)}` : "text";
    return [el("b", {}, column.name), role, unit, range,
      el("span", { class: column.warnings.length ? "warn" : "soft" }, column.warnings.join("; ") || "")];
  });
  return el("section", { class: "card wide" },
    el("div", { class: "row" }, el("h2", {}, file.name), el("span", { class: "grow" }),
      button("Remove", () => app.act(api.remove(`files/${file.id}`), `${file.name} was removed.`),
        { "aria-label": `remove ${file.name}`, id: `remove-${file.id}` })),
    table(["column", "role", "unit", "range", ""], rows, { label: `columns of ${file.name}`, class: "columns" }),
    field("Sampling time [s]", dt, "Only where the file does not tell it, or tells it wrong."),
    el("details", {}, el("summary", {}, "First rows"),
      table(file.columns.map((c) => c.name), file.rows, { label: `first rows of ${file.name}` })));
}
