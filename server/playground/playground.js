// The playground: asks POST /generate for a stream and shows it as it comes.

import { readEvents } from "./events.js";
import { Settings, clearErrors, showError } from "./settings.js";
import { TokenView } from "./tokens.js";

const REASONS = {
  length: "max_tokens",
  stop: "a stop string or the end of text",
  timeout: "timeout_s",
  shutdown: "the end of the server",
};

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

// An answer that is no text, in words. `details` says which fields are wrong.
class Refusal extends Error {
  constructor(status, message, details = []) {
    super(message);
    this.status = status;
    this.details = details;
  }
}

// ---- Asking ----

async function ask(path, options = {}) {
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  let response;
  try {
    response = await fetch(path, { ...options, headers, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, "The server does not answer: the connection failed.");
  }
  if (!response.ok) throw await refusalOf(response);
  return response;
}

async function refusalOf(response) {
  const body = await response.json().catch(() => ({}));
  const wait = response.headers.get("Retry-After");
  const again = wait === null ? "" : ` Try again in ${wait} s.`;
  let reason = `The server says: ${body.error ?? `status ${response.status}`}.`;
  if (response.status === 401) reason = key ? "The key is not the server's." : "The server asks for a key.";
  return new Refusal(response.status, reason + again, body.details);
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
    const response = await ask("generate", { method: "POST", body: bodyOf(fields), signal: running.signal });
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
    if (event.error) throw new Refusal(response.status, `The server says: ${event.error}.`);
    if ("finish_reason" in event) {
      take(event, figures);
    } else {
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
function explain({ status, message, details = [] }) {
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
  find("repeat").hidden = seed === null;
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
    const url = new URL("generate", document.baseURI);
    find("command").value = `curl -sN ${url}${authorization} -d ${quoted(bodyOf(requestFields()))}`;
  } catch (problem) {
    find("command").value = problem.message;
  }
}

// ---- The page ----

async function describe() {
  try {
    const description = await (await ask("openapi.json")).json();
    const content = description.paths["/generate"].post.requestBody.content;
    settings.build(content["application/json"].schema.properties);
    const models = await (await ask("v1/models")).json();
    find("model").textContent = `Model: ${models.data[0].id}`;
    find("key-form").hidden = true;
    clear();
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
  if (!/^[!-~]+$/.test(given)) {
    showError("key", "must have ASCII characters alone, and no spaces");
    return;
  }
  key = given;
  if (await describe()) find("field-prompt").focus();
});
find("copy").hidden = !navigator.clipboard; // which pages have on this machine or by HTTPS
find("copy").addEventListener("click", async () => {
  await navigator.clipboard.writeText(find("command").value);
  say("Copied.");
});
find("curl").addEventListener("toggle", showCommand);
document.addEventListener("input", showCommand);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && running) running.abort();
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    generate();
  }
});

describe();
