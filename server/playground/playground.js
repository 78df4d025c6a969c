// The playground: asks POST /generate for a stream and shows it as it comes.

import { readEvents } from "./events.js";
import { Problem, Settings, clearErrors, showError } from "./settings.js";
import { TokenView } from "./tokens.js";

const REASONS = {
  length: "max_tokens",
  stop: "a stop string or the end of text",
  timeout: "timeout_s",
  shutdown: "the end of the server",
};

const STRANGE = "The answer is not kael's";

const find = (id) => document.getElementById(id);

const settings = new Settings(find("main-settings"), find("more-settings"), "request");
const view = new TokenView({
  list: find("tokens"),
  whole: find("whole"),
  legend: find("legend"),
  panel: find("token"),
  summary: find("token-summary"),
  alternatives: find("alternatives"),
});

let key = ""; // kept nowhere else
let running = null; // the AbortController of the request that runs

// Without the user info that document.baseURI may have: fetch() refuses it, and the command shall not tell it.
const addressOf = (path) => new URL(path, location.origin + location.pathname);

// An answer that is no text, in words. `details` says which fields are wrong.
class Refusal extends Error {
  constructor(status, message, details = []) {
    super(message);
    this.status = status;
    this.details = details;
  }
}

// ---- Asking ----

// The answer to a request, if it is of that type.
async function ask(path, type, options = {}) {
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  let response;
  try {
    response = await fetch(addressOf(path), { ...options, headers, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, "The server does not answer: the connection failed.");
  }
  if (!response.ok) throw await refusalOf(response);
  const given = response.headers.get("Content-Type")?.split(";")[0] ?? "no content type";
  if (given !== type) throw new Refusal(0, `${STRANGE}: status ${response.status}, ${given}.`);
  return response;
}

async function refusalOf(response) {
  const body = await response.json().catch(() => null);
  const wait = response.headers.get("Retry-After");
  const again = /^\d+$/.test(wait) ? ` Try again in ${wait} s.` : "";
  let reason = errorOf(body) ?? `The server says: status ${response.status}.`;
  if (response.status === 401) reason = key ? "The key is not the server's." : "The server asks for a key.";
  const isDetail = (detail) => typeof detail?.field === "string" && typeof detail.message === "string";
  return new Refusal(response.status, reason + again, [body?.details].flat().filter(isDetail));
}

// What a body or an event says that went wrong, in this server's form or in OpenAI's, or null.
function errorOf(body) {
  const said = body?.error?.message ?? body?.error;
  return typeof said === "string" ? `The server says: ${said.replace(/\.$/, "")}.` : null;
}

// Names and JSON texts: a number of JavaScript does not hold every seed.
function requestFields() {
  return new Map([
    ["prompt", JSON.stringify(find("field-prompt").value)],
    ...settings.read(),
    ["stream", "true"],
    ["details", "true"],
  ]);
}

function bodyOf(fields) {
  return `{${[...fields].map(([name, text]) => `"${name}": ${text}`).join(", ")}}`;
}

async function generate() {
  if (running) return;
  clear();
  const began = performance.now();
  const figures = { tokens: 0, rate: null, first: null, reason: null, seed: null };
  running = new AbortController();
  setRunning(true);
  say("Generating.");
  try {
    const fields = requestFields();
    figures.seed = fields.get("seed") ?? null;
    const response = await ask("generate", "text/event-stream", {
      method: "POST",
      body: bodyOf(fields),
      signal: running.signal,
    });
    await show(response, figures, began, fields.get("echo") === "true");
    say(`Finished: ${count(figures.tokens)}.`);
  } catch (error) {
    const length = figures.tokens ? ` after ${count(figures.tokens)}` : "";
    if (error.name === "AbortError") {
      figures.reason = "you";
      say(`Stopped${length}.`);
    } else {
      say(figures.tokens ? `Broken off${length}.` : "");
      explain(error);
    }
  } finally {
    running = null;
    setRunning(false);
    view.end();
    find("figures").hidden = !figures.tokens;
    tell(figures);
  }
}

// Shows a stream, of which the first event may be the prompt, until its good end.
async function show(response, figures, began, hasPrompt) {
  let isPrompt = hasPrompt;
  let isComplete = false;
  for await (const data of readEvents(response.body)) {
    isComplete = data === "[DONE]";
    if (isComplete) continue;
    const event = JSON.parse(data);
    const error = errorOf(event);
    if (error) throw new Refusal(response.status, error);
    if ("finish_reason" in event) {
      take(event, figures);
    } else {
      if (typeof event.text !== "string") throw new TypeError("an event without text");
      view.add(event);
      if (!isPrompt) figures.tokens += event.logprobs?.length ?? 1;
      if (!isPrompt) figures.first ??= (performance.now() - began) / 1000;
      isPrompt = false;
    }
    find("figures").hidden = false;
    tell(figures);
  }
  if (!isComplete) throw new Refusal(0, "The connection broke before the end: the text is not complete.");
}

// The server's own figures, which end a stream.
function take({ finish_reason, seed, usage, timings }, figures) {
  figures.tokens = usage.completion_tokens;
  figures.rate = timings.tokens_per_second;
  figures.first = timings.first_token_seconds;
  figures.reason = REASONS[finish_reason] ?? finish_reason;
  if (seed !== null) figures.seed ??= String(seed);
}

// ---- Telling ----

function clear() {
  clearErrors();
  view.clear();
  find("alert").textContent = "";
  find("figures").hidden = true;
}

function say(text) {
  find("status").textContent = text;
}

// Says what went wrong, and at the field that it concerns.
function explain(error) {
  const isTold = error instanceof Refusal || error instanceof Problem;
  if (!isTold) console.error(error); // what the page stumbled on in an answer is not for its reader
  const { status, message, details } = isTold ? error : new Refusal(0, `${STRANGE}: its form is unknown.`);
  const wrong = details.map((detail) => ({ ...detail, name: detail.field.split("/")[1] ?? "the request" }));
  const sentences = wrong.map((detail) => `${detail.name} ${detail.message}.`);
  if (status === 413) wrong.push({ name: "prompt", message });
  if (status === 401) {
    find("key-form").hidden = false;
    wrong.push({ name: "key", message });
  }
  const inputs = wrong.map((detail) => showError(detail.name, detail.message));
  find("alert").textContent = sentences.join(" ") || message;
  inputs.find(Boolean)?.focus();
}

function tell({ tokens, rate, first, reason, seed }) {
  find("figure-tokens").textContent = tokens;
  find("figure-rate").textContent = rate === null ? "–" : rate.toFixed(1);
  find("figure-first").textContent = first === null ? "–" : seconds(first);
  find("figure-reason").textContent = reason ?? "–";
  find("figure-seed").textContent = seed ?? "–";
  find("repeat").hidden = seed === null || !settings.input("seed");
}

function setRunning(isRunning) {
  // Not `disabled`, which would take the focus from a button that was just pressed.
  find("generate").setAttribute("aria-disabled", isRunning);
  find("stop").setAttribute("aria-disabled", !isRunning);
  find("tokens").setAttribute("aria-busy", isRunning);
}

function count(tokens) {
  return tokens === 1 ? "1 token" : `${tokens} tokens`;
}

function seconds(figure) {
  return figure < 1 ? `${(1000 * figure).toPrecision(3)} ms` : `${figure.toFixed(2)} s`;
}

function showCommand() {
  if (!find("curl").open) return;
  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  const authorization = key ? " -H 'Authorization: Bearer KEY'" : "";
  try {
    const url = quoted(addressOf("generate").href);
    find("command").value = `curl -sN ${url}${authorization} -d ${quoted(bodyOf(requestFields()))}`;
  } catch (problem) {
    find("command").value = problem.message;
  }
}

// ---- The page ----

async function describe() {
  try {
    const description = await (await ask("openapi.json", "application/json")).json();
    const content = description.paths["/generate"].post.requestBody.content;
    settings.build(content["application/json"].schema.properties);
    const models = await (await ask("v1/models", "application/json")).json();
    find("model-name").textContent = models.data[0].id;
    find("model").hidden = false;
    find("key-form").hidden = true;
    find("field-key").value = "";
    return true;
  } catch (error) {
    explain(error);
    return false;
  }
}

find("request").addEventListener("submit", (event) => {
  event.preventDefault();
  generate();
});
find("stop").addEventListener("click", () => running?.abort());
find("repeat").addEventListener("click", () => {
  const input = settings.input("seed");
  input.value = find("figure-seed").textContent;
  input.focus();
});
find("key-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const given = find("field-key").value.trim();
  clearErrors();
  find("alert").textContent = "";
  if (!/^[!-~]+$/.test(given)) {
    showError("key", "must have ASCII characters alone, and no spaces");
    return;
  }
  key = given;
  if (await describe()) find("field-prompt").focus();
});
find("copy").hidden = !navigator.clipboard; // which pages have on this machine or by HTTPS
find("copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(find("command").value);
    say("Copied.");
  } catch {
    find("command").select();
    say("The browser does not let the page copy: the command is selected for it.");
  }
});
find("curl").addEventListener("toggle", showCommand);
document.addEventListener("input", showCommand);
document.addEventListener("keydown", (event) => {
  if (event.isComposing) return; // it is the input method's
  if (event.key === "Escape" && running) running.abort();
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    generate();
  }
});

// A browser may keep the page that is left, with all that it holds, and show it again.
window.addEventListener("pagehide", () => {
  running?.abort();
  key = find("field-key").value = "";
});
window.addEventListener("pageshow", (event) => {
  if (event.persisted) describe();
});

describe();
