// Server-sent events of an answer to a POST, for which a browser's EventSource does not ask.

// Yields the data of each event of a stream of bytes, up to its end or to where it breaks: the last event tells
// the one from the other. An event that is not complete is dropped.
export async function* readEvents(stream) {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let text = "";
  let data = [];
  try {
    for (;;) {
      const { done, value } = await reader.read().catch(endUnlessAborted);
      text += done ? decoder.decode() : decoder.decode(value, { stream: true });
      const [lines, rest] = splitLines(text, done);
      text = rest;
      for (const line of lines) {
        if (line === "") {
          if (data.length) yield data.join("\n");
          data = [];
        } else if (line === "data" || line.startsWith("data:")) {
          data.push(line.slice("data:".length).replace(/^ /, ""));
        } // what is left are comments, such as ": ping", and fields that this server does not send
      }
      if (done) return;
    }
  } finally {
    reader.cancel().catch(() => {}); // which an aborted stream refuses
  }
}

function endUnlessAborted(error) {
  if (error.name === "AbortError") throw error;
  return { done: true };
}

// The complete lines of a text, and what is behind them. A CR at the end may be one half of a CRLF.
function splitLines(text, isLast) {
  const certain = !isLast && text.endsWith("\r") ? text.length - 1 : text.length;
  const lines = text.slice(0, certain).split(/\r\n|\n|\r/);
  return [lines, lines.pop() + text.slice(certain)];
}
