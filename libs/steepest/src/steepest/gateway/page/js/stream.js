// Server-sent events by fetch, which can send a token: a stream that goes on where it was, however often the gateway dies.
const SILENT_MS = 40_000;
const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 2_000;

/**
 * Follow a stream until `stop` is called.
 * @param {string} url
 * @param {() => string} token
 * @param {(data: object, id: number | null) => void} onData
 * @param {(state: "live" | "away" | "token" | "refused" | "ended") => void} onState
 * @returns {() => void} stop
 */
export function follow(url, token, onData, onState) {
  let stopped = false;
  let last = null;
  let wait = FIRST_WAIT_MS;
  let abort = new AbortController();

  async function once() {
    abort = new AbortController();
    const headers = { accept: "text/event-stream" };
    if (last !== null) headers["last-event-id"] = String(last);
    if (token()) headers.authorization = `Bearer ${token()}`;
    const response = await fetch(url, { headers, signal: abort.signal, cache: "no-store" });
    if (response.status === 401 || response.status === 403) return "token";
    if (response.status < 500 && !response.ok) return "refused";
    if (!response.ok || !response.body) throw new Error(`status ${response.status}`);
    onState("live");
    wait = FIRST_WAIT_MS;
    return (await read(response.body)) ? "ended" : "away";
  }

  async function read(stream) {
    const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
    const current = abort;
    let watchdog = setTimeout(() => current.abort(), SILENT_MS);
    let buffer = "";
    try {
      for (;;) {
        const { value, done } = await reader.read();
        if (done || stopped) return false;
        clearTimeout(watchdog);
        watchdog = setTimeout(() => current.abort(), SILENT_MS);
        buffer += value;
        let end;
        while ((end = buffer.indexOf("\n\n")) >= 0) {
          if (take(buffer.slice(0, end))) return true;
          buffer = buffer.slice(end + 2);
        }
      }
    } finally {
      clearTimeout(watchdog);
    }
  }

  /** Whether there will be no more. */
  function take(block) {
    let data = "";
    let id = null;
    for (const line of block.split("\n")) {
      if (line.startsWith("data: ")) data += line.slice(6);
      else if (line === "event: failure") throw new Error("the gateway can give no more");
      else if (line === "event: end") return true;
      else if (line.startsWith("id: ")) id = Number(line.slice(4));
    }
    if (!data) return false;
    onData(JSON.parse(data), id);
    if (id !== null) last = id;
    return false;
  }

  async function run() {
    while (!stopped) {
      let state = "away";
      try {
        state = await once();
      } catch {
        state = "away";
      }
      if (stopped) return;
      onState(state);
      if (state !== "away") return;
      await new Promise((resolve) => setTimeout(resolve, wait));
      wait = Math.min(2 * wait, LONGEST_WAIT_MS);
    }
  }

  run();
  return () => {
    stopped = true;
    abort.abort();
  };
}

/** A resource of the API, or the answer to a request; an error has the server's own words. */
export async function ask(path, token, request) {
  const headers = token ? { authorization: `Bearer ${token}` } : {};
  if (request) headers["content-type"] = "application/json";
  const response = await fetch(path, { headers, cache: "no-store", ...(request ? { method: "POST", body: JSON.stringify(request) } : {}) });
  const body = await response.json().catch(() => ({}));
  if (!response.ok) {
    const error = new Error(body.message ?? `the gateway answers ${response.status}`);
    error.status = response.status;
    throw error;
  }
  return body;
}
