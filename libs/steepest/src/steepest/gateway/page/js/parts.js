// Small parts that several views share.
import { html, useState } from "./html.js";
import { CATEGORIES, CODES, LETTERS, category, clock, jobLink, text } from "./words.js";

export function Category({ job }) {
  const of = category(job);
  const words = CATEGORIES[of] ?? (of === "new" ? "not measured yet" : "growth unknown");
  return html`<span class="badge ${of}" title=${words}>${LETTERS[of]}<span class="hidden"> ${words}</span></span>`;
}

/** A category as the timeline counts it. */
export function Badge({ code }) {
  const [of, words] = CODES[code];
  return html`<span class="badge ${of}" title=${words}>${LETTERS[of]}<span class="hidden"> ${words}</span></span>`;
}

export function Legend() {
  return html`<ul class="legend" aria-label="Legend">
    <li><span class="badge PC" aria-hidden="true">P</span> progressing</li>
    <li><span class="badge WC" aria-hidden="true">W</span> watched</li>
    <li><span class="badge CC" aria-hidden="true">C</span> converged</li>
    <li><span class="badge unknown" aria-hidden="true">?</span> growth unknown</li>
    <li><span class="badge new" aria-hidden="true">·</span> not measured yet</li>
  </ul>`;
}

export function Decisions({ entries, empty = "Nothing was decided yet." }) {
  if (!entries.length) return html`<p class="empty">${empty}</p>`;
  return html`<ol class="decisions">
    ${entries.map((one) => html`<li key=${one.offset} class=${kind(one)}>
      <time title="offset ${one.offset}">${clock(one.at_ms)}</time>
      <span>${one.job ? html`<a href=${jobLink(one.job)}>${text(one.job, 63)}</a> ` : ""}${text(rest(one))}
      ${one.void ? html` <em>void: ${text(one.void)}</em>` : ""}</span></li>`)}
  </ol>`;
}

/** The sentence without the name that it begins with, which is a link already. */
function rest(one) {
  const sentence = one.sentence ?? "";
  return one.job && sentence.startsWith(one.job) ? sentence.slice(one.job.length).replace(/^[:\s]+/, "") : sentence;
}

function kind(one) {
  if (one.void) return "void";
  if (/Failed|Rejected|Refused|Abandoned|Lost/.test(one.type)) return "bad";
  if (/Planned/.test(one.type)) return "planned";
  if (/Finished|Placed|Suspended/.test(one.type)) return "done";
  return "";
}

const PAGE = 100;

/** A table that shows a page of its rows, sorted by the column that was chosen. `columns`: [{name, value, cell, numeric}]. */
export function Table({ label, columns, rows, keyOf, start }) {
  const [sorted, setSorted] = useState(start ?? null);
  const [page, setPage] = useState(0);
  const column = sorted === null ? null : columns[Math.abs(sorted) - 1];
  const shown = column ? [...rows].sort((a, b) => order(column.value(a), column.value(b), sorted < 0)) : rows;
  const pages = Math.max(1, Math.ceil(shown.length / PAGE));
  const at = Math.min(page, pages - 1);
  const turn = (place) => setSorted(sorted === place ? -place : sorted === -place ? null : place);
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Table: ${label}">
      <table>
        <thead><tr>${columns.map((one, place) => html`<th scope="col" class=${one.numeric ? "number" : ""}
            aria-sort=${Math.abs(sorted ?? 0) === place + 1 ? (sorted > 0 ? "ascending" : "descending") : "none"}>
            <button type="button" onClick=${() => turn(place + 1)}>${one.name}</button></th>`)}</tr></thead>
        <tbody>${shown.slice(at * PAGE, (at + 1) * PAGE).map((row) => html`<tr key=${keyOf(row)}>
            ${columns.map((one, place) => html`<${place ? "td" : "th"} ...${place ? {} : { scope: "row" }}
              class=${one.numeric ? "number" : ""}>${(one.cell ?? one.value)(row)}</>`)}</tr>`)}</tbody>
      </table>
    </div>
    ${pages > 1 ? html`<nav class="pages" aria-label="Pages of ${label}">
      <button type="button" disabled=${at === 0} onClick=${() => setPage(at - 1)}>Previous</button>
      <span>${at + 1} of ${pages} (${rows.length} rows)</span>
      <button type="button" disabled=${at >= pages - 1} onClick=${() => setPage(at + 1)}>Next</button></nav>` : ""}`;
}

const collator = new Intl.Collator("en", { numeric: true });

/** The order of two values of a column; what is unknown comes last, either way. */
export function order(a, b, down = false) {
  const none = (value) => value === null || value === undefined || value === "";
  if (none(a) || none(b)) return none(a) - none(b);
  return (down ? -1 : 1) * (typeof a === "number" && typeof b === "number" ? a - b : collator.compare(String(a), String(b)));
}
