// The page: five steps, one at a time, and the state that the server keeps.
import * as api from "./api.js";
import { el } from "./dom.js";
import { dataScreen } from "./data.js";
import { prepareScreen } from "./prepare.js";
import { identifyScreen } from "./identify.js";
import { compareScreen } from "./compare.js";
import { useScreen } from "./use.js";

const STEPS = [
  ["data", "Data", dataScreen],
  ["prepare", "Prepare", prepareScreen],
  ["identify", "Identify", identifyScreen],
  ["compare", "Compare", compareScreen],
  ["use", "Use", useScreen],
];

const app = {
  state: null,
  step: "data",
  kept: {}, // what screens remember while the page is open: ticks, shapes, settings
  listeners: new Set(),
  charts: [],

  say(text) { document.getElementById("status").textContent = text; },

  fail(error) {
    const box = document.getElementById("alert");
    box.hidden = !error;
    box.replaceChildren();
    if (!error) return;
    box.append(el("span", {}, error.message || String(error)),
      el("button", { type: "button", "aria-label": "close the message", onclick: () => app.fail(null) }, "×"));
  },

  // Do something on the server; what it answers is the new state.
  async act(promise, said) {
    try {
      document.body.classList.add("busy");
      app.state = await promise;
      app.fail(null);
      app.render();
      if (said) app.say(said);
      app.listen();
      return true;
    } catch (error) {
      app.fail(error);
      return false;
    } finally {
      document.body.classList.remove("busy");
    }
  },

  go(step) {
    app.step = step;
    app.fail(null);
    app.render();
    document.getElementById("screen").focus({ preventScroll: true });
    window.scrollTo(0, 0);
  },

  done: () => app.state.models.filter((m) => m.state === "done"),

  // Hear news of running fits for as long as there are any.
  async listen() {
    const open = app.state.models.some((m) => !["done", "failed"].includes(m.state));
    if (!open || app.listening) return;
    app.listening = true;
    try {
      await api.follow((news) => {
        let ended = false;
        for (const told of news) {
          const model = app.state.models.find((m) => m.id === told.id);
          if (!model) continue;
          if (model.state !== told.state) ended = true;
          if (model.state !== told.state && told.state === "done") app.say(`${model.name} is ready.`);
          Object.assign(model, told);
        }
        if (ended) app.render();
        else for (const heard of app.listeners) heard();
      });
    } catch (error) {
      app.fail(error);
    }
    app.listening = false;
  },

  chart(chart) { app.charts.push(chart); return chart.node; },

  render() {
    const focused = document.activeElement?.id;
    const scroll = window.scrollY;
    for (const chart of app.charts) chart.close();
    app.charts = [];
    app.listeners.clear();
    steps();
    const [, name, screen] = STEPS.find(([key]) => key === app.step);
    document.title = `${name} · sparsid`;
    document.getElementById("where").textContent = app.state.folder;
    document.getElementById("screen").replaceChildren(el("h1", { class: "unseen" }, name), ...[screen(app)].flat());
    window.scrollTo(0, scroll);
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  },
};

function steps() {
  const models = app.state.models;
  const running = models.some((m) => ["running", "stopping", "waiting"].includes(m.state));
  const told = {
    data: app.state.files.length || "",
    prepare: app.state.steps.length || "",
    identify: running ? "…" : models.length || "",
  };
  document.getElementById("steps").replaceChildren(...STEPS.map(([key, name], k) => el("button", {
    type: "button", id: `step-${key}`, class: "step",
    "aria-current": key === app.step ? "step" : null,
    disabled: !reachable(key),
    onclick: () => app.go(key),
  }, el("span", { class: "count", "aria-hidden": "true" }, String(k + 1)), name,
  told[key] && el("span", { class: "badge" }, String(told[key])))));
}

function reachable(key) {
  if (key === "data") return true;
  if (key === "prepare" || key === "identify") return app.state.raw.records.length > 0 || app.state.models.length > 0;
  return app.done().length > 0;
}

// Files dropped beside the drop zone must not replace the page.
for (const kind of ["dragover", "drop"]) window.addEventListener(kind, (event) => event.preventDefault());

try {
  app.state = await api.get("state");
  app.render();
  app.listen();
} catch (error) {
  document.getElementById("screen").replaceChildren(el("p", {}, "The session could not be opened."));
  app.fail(error);
}
