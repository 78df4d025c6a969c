// The fields of a request, made from the schema that the server checks them by: names, limits and defaults
// stand there and nowhere in this page.

// Those that are seen at once. The schema's others follow under "More settings".
const MAIN = ["max_tokens", "temperature", "top_k", "top_p", "seed", "stop", "logprobs"];

// What the page itself sets.
const OWN = ["prompt", "stream", "details"];

// Where the page starts with another value than the server's default: it shows probabilities.
const STARTS = { logprobs: 5 };

export class Settings {
  // Fields go into two elements. They belong to the form of that id, which may stand elsewhere.
  constructor(main, more, form) {
    this.main = main;
    this.more = more;
    this.form = form;
    this.fields = new Map();
  }

  // Once: fields that are there stay, with what was typed into them.
  build(properties) {
    if (this.fields.size) return;
    const others = Object.keys(properties).filter((name) => !MAIN.includes(name) && !OWN.includes(name));
    for (const name of [...MAIN, ...others]) {
      if (name in properties) this.add(name, properties[name], MAIN.includes(name) ? this.main : this.more);
    }
  }

  add(name, rules, parent) {
    const field = fieldOf(rules);
    const input = field.make(rules, STARTS[name] ?? rules.default);
    input.id = idOf(name);
    input.setAttribute("form", this.form);
    input.setAttribute("aria-describedby", `${input.id}-hint ${input.id}-error`);
    const label = element("label", "", name);
    label.htmlFor = input.id;
    const hint = element("p", "hint", [rules.description, field.hint(rules)].filter(Boolean).join(" – "));
    hint.id = `${input.id}-hint`;
    const error = element("p", "error", "");
    error.id = `${input.id}-error`;
    const box = element("div", `field ${input.type}`, "");
    box.append(label, input, hint, error);
    parent.append(box);
    this.fields.set(name, { input, rules, read: field.read });
  }

  // Name and JSON text of every field that is not at its default. Raises a Problem.
  read() {
    const texts = new Map();
    for (const [name, { input, rules, read }] of this.fields) {
      const text = read(input, rules, name);
      if (text !== undefined) texts.set(name, text);
    }
    return texts;
  }

  // The input of a field, undefined where there is none.
  input(name) {
    return this.fields.get(name)?.input;
  }
}

// A field that cannot be sent as it is.
export class Problem extends Error {
  constructor(name, message) {
    super(`${name} ${message}`);
    this.details = [{ field: `/${name}`, message }]; // as the server says it
  }
}

// Of the input of a field, where the page has one. The page's other parts have ids without this beginning.
function idOf(name) {
  return `field-${name}`;
}

// Marks the input of a field as wrong, in words that stand beside it, and returns it, or null.
export function showError(name, message) {
  const input = document.getElementById(idOf(name));
  if (!input) return null;
  const error = document.getElementById(`${input.id}-error`);
  error.textContent = message;
  input.setAttribute("aria-invalid", "true");
  const folded = input.closest("details");
  if (folded) folded.open = true;
  return input;
}

export function clearErrors() {
  for (const input of document.querySelectorAll("[aria-invalid]")) {
    input.removeAttribute("aria-invalid");
    document.getElementById(`${input.id}-error`).textContent = "";
  }
}

function fieldOf(rules) {
  const kinds = [rules.type].flat();
  if (kinds.includes("boolean")) return BOOLEAN;
  if (kinds.includes("array")) return STRINGS;
  return kinds.includes("object") ? OBJECT : NUMBER;
}

const BOOLEAN = {
  make(rules, start) {
    const input = inputOf("checkbox");
    input.defaultChecked = start;
    return input;
  },
  hint: () => "",
  read: (input, rules) => (input.checked === rules.default ? undefined : String(input.checked)),
};

const NUMBER = {
  make(rules, start) {
    const input = inputOf("number");
    const low = rules.minimum ?? rules.exclusiveMinimum;
    input.min = low;
    if (rules.maximum <= Number.MAX_SAFE_INTEGER) input.max = rules.maximum;
    input.step = [rules.type].flat().includes("integer") ? 1 : rules.maximum - low > 1 ? 0.1 : 0.05;
    input.defaultValue = start ?? "";
    input.placeholder = rules.default ?? ""; // which an empty field stands for
    return input;
  },
  hint(rules) {
    const { minimum, exclusiveMinimum, maximum } = rules;
    return minimum === undefined
      ? `above ${exclusiveMinimum}, to ${limit(maximum)}`
      : `${minimum} to ${limit(maximum)}`;
  },
  read(input, rules, name) {
    if (input.validity.badInput) throw new Problem(name, "must be a number");
    const text = input.value;
    if (text === "" || Number(text) === rules.default) return undefined;
    // A seed has more digits than a number of JavaScript.
    return /^-?\d+$/.test(text) ? String(BigInt(text)) : String(Number(text));
  },
};

const STRINGS = {
  make() {
    const input = document.createElement("textarea");
    input.rows = 2;
    return input;
  },
  hint: () => "one a line; \\n is a line break in it",
  read(input) {
    const lines = input.value.split("\n").filter((line) => line !== "");
    return lines.length ? JSON.stringify(lines.map(unescaped)) : undefined;
  },
};

const OBJECT = {
  make: () => inputOf("text"),
  hint: () => 'JSON, such as {"11": -5}',
  read(input, rules, name) {
    const text = input.value.trim();
    try {
      if (text !== "") JSON.parse(text);
    } catch {
      throw new Problem(name, "must be JSON");
    }
    return text || undefined;
  },
};

function limit(number) {
  return number <= Number.MAX_SAFE_INTEGER ? number.toLocaleString("en") : `2^${Math.log2(number)} - 1`;
}

function unescaped(line) {
  const meanings = { n: "\n", t: "\t", r: "\r", "\\": "\\" };
  return line.replace(/\\([ntr\\])/g, (_, letter) => meanings[letter]);
}

function inputOf(type) {
  const input = document.createElement("input");
  input.type = type;
  input.autocomplete = "off";
  return input;
}

function element(name, className, text) {
  const made = document.createElement(name);
  made.className = className;
  made.textContent = text;
  return made;
}
