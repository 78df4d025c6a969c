// The answer as tokens: how likely each was, and what else was likely.

// From the likely to the unlikely, with the least probability of each.
const LEVELS = [
  { from: 0.5, name: "50% or more" },
  { from: 0.2, name: "20% to 50%" },
  { from: 0.05, name: "5% to 20%" },
  { from: 0, name: "less than 5%" },
];

const percent = new Intl.NumberFormat("en", { style: "percent", maximumSignificantDigits: 3 });

export class TokenView {
  // `parts` has the elements list, whole, legend, panel, summary and alternatives.
  constructor(parts) {
    Object.assign(this, parts);
    this.rows = this.alternatives.tBodies[0];
    for (const [level, { name }] of LEVELS.entries()) {
      const sample = make("span", "token", "token");
      sample.dataset.level = level;
      const item = make("li", "", "");
      item.append(sample, ` ${name}`);
      this.legend.append(item);
    }
    this.prompt = this.summary.textContent;
    this.list.addEventListener("pointerover", (event) => this.showTarget(event.target));
    this.list.addEventListener("focusin", (event) => this.showTarget(event.target));
    this.list.addEventListener("keydown", (event) => this.walk(event));
    this.clear();
  }

  clear() {
    this.text = "";
    this.tokens = [];
    this.said = new WeakMap(); // of elements
    this.known = 0; // characters that the tokens so far stand for, of which some may not have come yet
    this.decoder = new TextDecoder("utf-8", { ignoreBOM: true });
    this.active = null;
    this.list.replaceChildren();
    this.list.removeAttribute("role");
    this.list.removeAttribute("aria-label");
    this.whole.textContent = "";
    this.legend.hidden = this.panel.hidden = this.alternatives.hidden = true;
    this.summary.textContent = this.prompt;
  }

  // Adds an event's text and the tokens that begin in it, if the request asked for them.
  add({ text, logprobs }) {
    const start = this.text.length;
    this.text += text;
    if (!logprobs) {
      this.list.append(text);
      return;
    }
    // Within the event again, so that no difference between two decoders of broken UTF-8 adds up.
    this.known = Math.min(Math.max(this.known, start), this.text.length);
    const before = this.tokens.length;
    this.tokens.push(...logprobs.map((said) => this.place(said)));
    // Of the last token before, the end may have come only now.
    for (let index = Math.max(before - 1, 0); index < this.tokens.length; ++index) {
      this.label(this.tokens[index], this.tokens[index + 1]?.start ?? this.text.length);
    }
    this.list.append(...this.tokens.slice(before).map(({ element }) => element));
    if (before === 0 && this.tokens.length) this.begin();
  }

  // The text is complete: those who hear the page can read it as one.
  end() {
    if (this.tokens.length) this.whole.textContent = this.text;
  }

  // A token with the place of its text. A character of several tokens is the last one's.
  place(said) {
    const element = make("span", "token", "");
    element.setAttribute("role", "option");
    element.setAttribute("aria-selected", "false");
    element.tabIndex = -1;
    const probability = said.logprob === null ? null : Math.exp(said.logprob);
    if (probability !== null) element.dataset.level = LEVELS.findIndex(({ from }) => probability >= from);
    element.setAttribute("aria-description", words(probability));
    this.said.set(element, { ...said, probability });
    const start = this.known;
    this.known += this.decoder.decode(Uint8Array.from(said.bytes), { stream: true }).length;
    return { element, start, bytes: said.bytes };
  }

  begin() {
    this.list.setAttribute("role", "listbox");
    this.list.setAttribute("aria-label", "Tokens of the answer");
    this.list.setAttribute("aria-orientation", "horizontal");
    this.legend.hidden = this.panel.hidden = false;
    this.activate(this.tokens[0].element);
  }

  // Gives a token its text, which goes on to the next one's.
  label({ element, start, bytes }, end) {
    const text = this.text.slice(start, end);
    element.textContent = text;
    // What has no shape is named, for the eye beside the text and not in it.
    const name = text.trim() ? "" : text ? spaceName(text) : bytesName(bytes);
    const mark = text.includes("\n") ? "↵".repeat(text.split("\n").length - 1) : text ? "" : name;
    if (name) element.setAttribute("aria-label", name);
    else element.removeAttribute("aria-label");
    if (mark) element.dataset.mark = mark;
    else delete element.dataset.mark;
  }

  // One token is a stop of the tab key: from it, arrow keys lead to the others.
  activate(element) {
    if (this.active) {
      this.active.tabIndex = -1;
      this.active.setAttribute("aria-selected", "false");
    }
    this.active = element;
    element.tabIndex = 0;
    element.setAttribute("aria-selected", "true");
  }

  walk(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const index = this.tokens.findIndex(({ element }) => element === this.active);
    const last = this.tokens.length - 1;
    const places = {
      ArrowRight: index + 1,
      ArrowDown: index + 1,
      ArrowLeft: index - 1,
      ArrowUp: index - 1,
      Home: 0,
      End: last,
    };
    if (!(event.key in places)) return;
    event.preventDefault();
    this.tokens[Math.min(Math.max(places[event.key], 0), last)].element.focus();
  }

  showTarget(target) {
    if (!this.said.has(target)) return;
    if (target === document.activeElement) this.activate(target);
    const { token, text, bytes, probability, top } = this.said.get(target);
    this.summary.replaceChildren(shape(text, bytes), ` is token ${token}: ${words(probability)}.`);
    this.rows.replaceChildren(...top.map((other) => row(other, other.token === token)));
    this.alternatives.hidden = top.length === 0;
  }
}

function row({ text, bytes, logprob }, isPicked) {
  const probability = logprob === null ? 0 : Math.exp(logprob);
  const name = make("th", "", "");
  name.scope = "row";
  name.append(shape(text, bytes));
  if (isPicked) name.append(make("span", "picked", " picked"));
  const figure = make("td", "", percent.format(probability));
  figure.style.setProperty("--share", `${100 * probability}%`);
  const line = document.createElement("tr");
  line.append(name, figure);
  return line;
}

// A token outside of the text, with what cannot be seen made visible.
function shape(text, bytes) {
  const isPart = text.includes("\ufffd");
  const visible = text.replaceAll("\n", "↵").replaceAll("\t", "⇥").replaceAll(" ", "␣");
  return make("code", "", isPart ? bytesName(bytes) : visible);
}

function words(probability) {
  return probability === null ? "no probability" : `probability ${percent.format(probability)}`;
}

function spaceName(text) {
  const names = { "\n": "line break", " ": "space", "\t": "tab" };
  return [...text].map((character) => names[character] ?? "white space").join(", ");
}

function bytesName(bytes) {
  return `bytes ${bytes.map((byte) => byte.toString(16).padStart(2, "0")).join(" ")}`;
}

function make(name, className, text) {
  const made = document.createElement(name);
  made.className = className;
  made.textContent = text;
  return made;
}
