// Questions to the server. The token came in the fragment of the address; it is sent as
// a header, which no other page can do.
const KEY = "sparsid-token";
const given = location.hash.slice(1);
if (/^[\w-]{40,}$/.test(given)) {
  sessionStorage.setItem(KEY, given);
  history.replaceState(null, "", location.pathname);
}
const token = () => sessionStorage.getItem(KEY) || "";

async function asked(path, options = {}) {
  let answer;
  try {
    answer = await fetch(`/api/${path}`, {
      ...options,
      headers: { "X-Sparsid-Token": token(), ...(options.headers || {}) },
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The app does not answer: it was closed. Start it again with the "
      + "same command; everything is kept.");
  }
  if (!answer.ok) {
    let text = `The server answered ${answer.status}.`;
    try { text = (await answer.json()).error || text; } catch { /* no reason given */ }
    if (answer.status === 401) {
      text = "This link is no longer valid: open the one that the command shows.";
    }
    throw new Error(text);
  }
  return answer;
}

const json = (method) => async (path, value) => (await asked(path, {
  method,
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify(value),
})).json();

export const get = async (path) => (await asked(path)).json();
export const post = json("POST");
export const patch = json("PATCH");
export const put = json("PUT");
export const remove = async (path) => (await asked(path, { method: "DELETE" })).json();
export const upload = async (path, file) => (await asked(path, {
  method: "POST",
  headers: { "Content-Type": "application/octet-stream" },
  body: file,
})).json();
export const text = async (path) => (await asked(path)).text();

// Signals: a header in JSON, then single precision, as `signals.packed` writes it.
export async function signals(path, signal) {
  const buffer = await (await asked(path, { signal })).arrayBuffer();
  const length = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const n = head.columns;
  const found = {};
  head.series.forEach((name, k) => {
    const at = 4 + length + 8 * n * k;
    found[name] = {
      low: new Float32Array(buffer, at, n),
      high: new Float32Array(buffer, at + 4 * n, n),
      base: head.bases[k],
    };
  });
  return { ...head, found };
}

// A line of news whenever something about the fits has changed; ends when all ended.
export async function follow(heard) {
  const answer = await asked("news");
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) heard(JSON.parse(line));
  }
}

export async function save(path, options) {
  const answer = await asked(path, options);
  const told = /filename="([^"]+)"/.exec(answer.headers.get("Content-Disposition") || "");
  const address = URL.createObjectURL(await answer.blob());
  const link = document.createElement("a");
  link.href = address;
  link.download = told ? told[1] : "download";
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
export const savePosted = (path, value) => save(path, {
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify(value),
});
