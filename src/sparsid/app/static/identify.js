// Third screen: one button and a budget; what is tried, live; Stop keeps the best.
import * as api from "./api.js";
import { el, button, duration, field, number, select } from "./dom.js";

const BUDGETS = [["10", "10 seconds"], ["30", "30 seconds"], ["60", "1 minute"], ["180", "3 minutes"], ["600", "10 minutes"], ["", "as long as it takes"]];
const KINDS = [["auto", "automatic"], ["linear", "linear only"], ["linear first", "linear, with neurons beside it"],
  ["cascade", "cascade of stores"], ["even output", "modulus of a linear one"]];
const STATES = { waiting: "waiting", running: "running", stopping: "stopping with the best so far", done: "done", failed: "failed" };

export function identifyScreen(app) {
  const models = [...app.state.models].reverse();
  return [el("div", { class: "columns-2 narrow-first" }, form(app),
    el("section", { id: "models", "aria-label": "Models" },
      models.length ? models.map((m) => card(app, m)) : el("div", { class: "empty" },
        el("p", {}, "No model yet. A linear one is there after seconds; neurons join it only if parts of your record that they did not learn from want them."))))];
}

function form(app) {
  const kept = app.kept.fit ||= { budget: "60", structure: "auto", states: "", neurons: "", seed: "0", name: "" };
  const keep = (node, key) => { node.addEventListener("change", () => { kept[key] = node.value; }); return node; };
  const box = (key, properties) => keep(el("input", { id: key, value: kept[key], ...properties }), key);
  const value = (key) => (kept[key] === "" ? null : Number(kept[key]));
  const begin = () => app.act(api.post("models", {
    name: kept.name, budget: value("budget"), structure: kept.structure,
    states: value("states"), neurons: value("neurons"), seed: value("seed"),
  }), "The fit begins.").then((ok) => { if (ok) kept.name = ""; });
  const { records, channels = [] } = app.state.prepared;
  const names = (side) => channels.filter((c) => c.side === side).map((c) => c.name).join(", ");
  const samples = records.reduce((sum, r) => sum + r.samples - r.test.reduce((s, [a, b]) => s + b - a, 0), 0);
  return el("section", { class: "card" }, el("h2", {}, "Find a model"),
    records.length
      ? el("p", {}, `From ${names("input") || "no input"} to ${names("output")}, ${samples.toLocaleString("en")} samples to learn from.`)
      : el("p", { class: "notice bad" }, app.state.prepared.error || "Load data first."),
    field("Time it may take", keep(select(BUDGETS, kept.budget, { id: "budget" }), "budget")),
    button("Find a model", begin, { class: "main big", id: "find", disabled: !records.length }),
    el("details", { open: Boolean(kept.open), ontoggle: (event) => { kept.open = event.target.open; } }, el("summary", { id: "advanced" }, "Advanced"),
      field("Name", box("name", { maxLength: 60, placeholder: "Model" })),
      field("Kind", keep(select(KINDS, kept.structure, { id: "structure" }), "structure")),
      field("States", box("states", { type: "number", min: 1, max: 100, placeholder: "chosen" })),
      field("Neurons", box("neurons", { type: "number", min: 1, max: 100, placeholder: "chosen" })),
      field("Seed", box("seed", { type: "number", min: 0, step: 1 }), "Makes results repeatable.")));
}

function card(app, model) {
  const body = el("div", { class: "model-body" });
  const fill = () => body.replaceChildren(...[content(app, model)].flat().filter(Boolean));
  fill();
  if (["running", "stopping", "waiting"].includes(model.state)) app.listeners.add(fill);
  const name = el("input", {
    class: "name", value: model.name, "aria-label": `name of ${model.name}`, id: `name-${model.id}`, maxLength: 60,
    onchange: () => app.act(api.patch(`models/${model.id}`, { name: name.value }), "Renamed."),
  });
  const idle = !["running", "stopping"].includes(model.state);
  return el("article", { class: `card model ${model.state}`, "aria-label": model.name },
    el("div", { class: "row" }, name, el("span", { class: `state ${model.state}` }, STATES[model.state]), el("span", { class: "grow" }),
      model.state === "running" && button("Stop, keep the best", () => app.act(api.post(`models/${model.id}/stop`, {}), "Stopping."), { id: `stop-${model.id}` }),
      idle && button("Remove", () => app.act(api.remove(`models/${model.id}`), "Removed."), { "aria-label": `remove ${model.name}` })),
    body);
}

function content(app, model) {
  if (model.state === "failed") return el("p", { class: "notice bad" }, model.error);
  if (model.state === "waiting") return el("p", { class: "soft" }, "Begins when the fit before it has ended.");
  const progress = model.progress;
  if (model.state === "done") {
    return [el("p", {}, `${sentence(model.described)} ${model.kept} are left; found in ${duration(model.seconds)}, ${model.outcome}.`),
      model.notes.map((note) => el("p", { class: "soft" }, sentence(note))),
      candidates(model.candidates.map((c) => [c.name, c.held_out_error])),
      el("div", { class: "row" }, button("Compare →", () => { (app.kept.ticked ||= new Set()).add(model.id); app.go("compare"); }, { id: `compare-${model.id}` }),
        button("Use →", () => { app.kept.use = model.id; app.go("use"); }))];
  }
  if (!progress) return el("p", { class: "soft" }, "Starting…");
  const budget = model.settings.budget;
  const share = budget ? Math.min(1, progress.seconds / budget) : null;
  const time = duration(progress.seconds) + (budget ? ` of ${duration(budget)}` : "");
  return [
    el("progress", { max: 1, value: share, "aria-label": "time used" }),
    el("p", {}, `${sentence(progress.phase)} ${progress.total > 1 ? `(${progress.done} of ${progress.total}) ` : ""}· ${time}`),
    curve(progress), candidates(progress.candidates)];
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1).replace(/,$/, "") + (/[.!?]$/.test(text) ? "" : ".");

// Held-out errors as bars: shorter is better.
function candidates(list) {
  if (!list || !list.length) return null;
  const sorted = [...list].sort((a, b) => a[1] - b[1]).slice(0, 8);
  const worst = Math.min(1, Math.max(...sorted.map((c) => c[1]))) || 1;
  return el("div", { class: "candidates", role: "list", "aria-label": "candidates, error over held-out blocks" },
    el("p", { class: "soft" }, "Candidates: error of the free run over blocks not learnt from, in deviations of the output"),
    sorted.map(([name, error], k) => {
      const bar = el("span", { class: "bar" });
      bar.style.width = `${Math.max(1, 100 * Math.min(1, error / worst))}%`;
      return el("div", { class: k ? "candidate" : "candidate best", role: "listitem" },
        el("span", {}, name), el("span", { class: "track", "aria-hidden": "true" }, bar), el("span", { class: "value" }, number(error, 3)));
    }));
}

// The best error so far over time, as steps.
function curve({ course, seconds }) {
  if (!course || course.length < 2) return null;
  const NS = "http://www.w3.org/2000/svg";
  const W = 300, H = 48;
  const logs = course.map((p) => Math.log(Math.max(p[1], 1e-6)));
  const high = Math.max(...logs), low = Math.min(...logs);
  const x = (t) => (W * t) / Math.max(seconds, 1e-3), y = (v) => 4 + (H - 8) * (high - v) / Math.max(high - low, 1e-9);
  let d = "";
  course.forEach(([t], k) => { d += k ? `H${x(t).toFixed(1)}V${y(logs[k]).toFixed(1)}` : `M${x(t).toFixed(1)} ${y(logs[k]).toFixed(1)}`; });
  const svg = document.createElementNS(NS, "svg");
  svg.setAttribute("viewBox", `0 0 ${W} ${H}`);
  svg.setAttribute("class", "course");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `best error so far, from ${number(course[0][1], 3)} to ${number(course.at(-1)[1], 3)}`);
  const path = document.createElementNS(NS, "path");
  path.setAttribute("d", `${d}H${W}`);
  svg.append(path);
  return svg;
}
