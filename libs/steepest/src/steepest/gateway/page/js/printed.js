// What a job prints, as it prints it: the newest lines, and before them the traceback of its failure.
import { html, useEffect, useRef, useState } from "./html.js";
import { TokenNeeded } from "./acts.js";
import { follow } from "./stream.js";
import { text } from "./words.js";

const KEPT = 500, DRAW_MS = 100, LETTERS = 2_000;

/** The last traceback of Python's, with the error that ends it; null where there is none. */
export function traceback(lines) {
  const from = lines.findLastIndex((line) => line.includes("Traceback (most recent call last)"));
  if (from < 0) return null;
  const until = lines.findIndex((line, at) => at > from && /^\S/.test(line));
  return lines.slice(from, until < 0 ? lines.length : until + 1);
}

/** @param replica whose output is shown first; @param failed whether the traceback comes first */
export function Printed({ name, pool, token, setToken, replica, failed, command }) {
  const [shown, setShown] = useState({ lines: [], link: "connecting" });
  const [whose, setWhose] = useState(null);
  const pane = useRef(null), which = whose ?? replica;
  useEffect(() => {
    if (!token) { // no gateway gives it without one
      setShown({ lines: [], link: "token" });
      return undefined;
    }
    let lines = [], link = "connecting", timer = null;
    const draw = () => { timer = null; setShown({ lines, link }); };
    const due = () => { timer ??= setTimeout(draw, DRAW_MS); };
    const url = `api/v1/jobs/${encodeURIComponent(name)}/log?pool=${encodeURIComponent(pool)}&replica=${which}&lines=${KEPT}`;
    const stop = follow(url, () => token, ({ line }, id) => {
      lines = [...(id === 1 ? [] : lines), text(line, LETTERS)].slice(-KEPT);
      due();
    }, (state) => { link = state; due(); });
    return () => { clearTimeout(timer); stop(); };
  }, [name, pool, token, which]);
  useEffect(() => { // the newest line stays in view, unless the reader has scrolled up
    const el = pane.current;
    if (el && el.scrollHeight - el.scrollTop - el.clientHeight < 200) el.scrollTop = el.scrollHeight;
  }, [shown]);
  const { lines, link } = shown, error = failed ? traceback(lines) : null;
  return html`<section aria-labelledby="printed"><header class="bar"><h3 id="printed">Output</h3>
      <label><small>replica</small> <input type="number" min="0" max="999999" value=${which} onChange=${(event) => setWhose(Math.max(0, Math.floor(Number(event.target.value)) || 0))} /></label>
      <small>${link === "live" ? "live" : link === "ended" ? "all of it was printed" : link === "token" ? "" : link === "refused" ? "there is none" : "connecting …"}</small><code>${text(command, 160)}</code></header>
    ${link === "token" ? html`<${TokenNeeded} why="What a job prints may hold secrets" role="submit" use=${setToken} />` : ""}
    ${error ? html`<h4>What it failed with</h4><pre class="error" tabindex="0" role="region" aria-label="Traceback">${error.join("\n")}</pre>` : ""}
    ${lines.length ? html`<pre class="printed" ref=${pane} tabindex="0" role="log" aria-label="The last ${KEPT} lines">${lines.join("\n")}</pre>` : link === "live" || link === "ended" ? html`<p class="empty">It has printed nothing yet.</p>` : ""}</section>`;
}
