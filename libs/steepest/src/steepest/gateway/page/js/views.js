// Lists of the whole pool: decisions and dead letters.
import { html, useEffect, useState } from "./html.js";
import { Decisions, Table } from "./parts.js";
import { ask } from "./stream.js";
import { text } from "./words.js";

export function AllDecisions({ state }) {
  const [word, setWord] = useState("");
  const [all, setAll] = useState(false);
  const wanted = word.trim().toLowerCase();
  const found = state.decisions.filter((one) => !wanted || `${one.sentence} ${one.type} ${one.void ?? ""}`.toLowerCase().includes(wanted));
  const entries = all ? found : found.filter((one) => one.important);
  return html`<section aria-labelledby="decisions"><h2 id="decisions">Decisions</h2>
    <label class="filter">Filter <input type="search" id="filter" value=${word} placeholder="job, node, kind" onInput=${(event) => setWord(event.target.value)} /></label>
    <label class="filter"><input type="checkbox" checked=${all} onChange=${(event) => setAll(event.target.checked)} /> with plans, limits and categories (${found.length - found.filter((one) => one.important).length})</label>
    <${Decisions} entries=${entries.slice(-300).reverse()} empty=${found.length ? "No job was placed, moved or suspended, and none has ended." : "Nothing was decided yet."} /></section>`;
}

export function Letters({ state, pool, token }) {
  const [letters, setLetters] = useState(null);
  const [wrong, setWrong] = useState("");
  const count = state.totals?.dead_letters ?? 0;
  useEffect(() => {
    ask(`api/v1/dead-letters?pool=${encodeURIComponent(pool)}`, token).then((found) => setLetters(found.letters), (error) => setWrong(error.message));
  }, [pool, token, count]);
  const columns = [
    { name: "record", value: (row) => text(row.record, 120) },
    { name: "key", value: (row) => text(row.key, 63) },
    { name: "bytes", numeric: true, value: (row) => row.bytes },
    { name: "why it could not be read", value: (row) => text(row.reason, 300) },
  ];
  return html`<section aria-labelledby="letters"><h2 id="letters">Dead letters</h2>
    ${wrong ? html`<p role="alert">${text(wrong)}</p>` : ""}
    ${letters?.length
      ? html`<${Table} label="Dead letters" columns=${columns} rows=${letters} keyOf=${(row) => row.record} />`
      : html`<p class="empty">${letters ? "Every record could be read." : "Loading …"}</p>`}</section>`;
}
