// The page: which view is shown, the live stream, the keyboard, and the token where the gateway asks for one.
import { html, render, useEffect, useRef, useState } from "./html.js";
import { Compare } from "./compare.js";
import { JobView } from "./job.js";
import { Jobs } from "./jobs.js";
import { Nodes } from "./nodes.js";
import { Pool } from "./pool.js";
import { empty, merged } from "./store.js";
import { ask, follow } from "./stream.js";
import { Strip, useStrip } from "./strip.js";
import { AllDecisions, Letters } from "./views.js";
import { clock, span, text } from "./words.js";

const VIEWS = [["cluster", "Pool"], ["jobs", "Jobs"], ["nodes", "Nodes"], ["decisions", "Decisions"], ["compare", "Compare"], ["letters", "Dead letters"]];
const DRAW_MS = 60, LOOK_MS = 10_000;
const KEYS = [["1 – 6", "the views, from left to right"], ["/", "the filter"], ["← →", "on the strip: back and forth in the log"], ["← → + − 0 n", "on the timeline: pan, zoom, all of it, now"], ["↑ ↓ Enter", "on the timeline: from job to job, and open it"], ["Esc", "to the end of the log"], ["?", "these keys"]];
const TOKEN = "steepest-token";

function route() {
  const [view, name] = location.hash.split("?")[0].replace(/^#\/?/, "").split("/");
  return { view: view || "cluster", name: name ? decoded(name) : "" };
}

function decoded(name) {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

function useRoute() {
  const [at, setAt] = useState(route());
  useEffect(() => {
    const changed = () => setAt(route());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return at;
}

function useMedia(words) {
  const query = matchMedia(words);
  const [is, set] = useState(query.matches);
  useEffect(() => {
    const changed = (event) => set(event.matches);
    query.addEventListener("change", changed);
    return () => query.removeEventListener("change", changed);
  }, []);
  return is;
}

/** The live state; many batches that come at once are drawn once. */
function useLive(pool, token) {
  const state = useRef(empty());
  const [drawnState, setDrawn] = useState(state.current);
  const [link, setLink] = useState("connecting");
  useEffect(() => {
    if (pool === null) return undefined;
    let timer = null;
    const draw = () => {
      timer = null;
      setDrawn(state.current);
    };
    const stop = follow(`api/v1/live?pool=${encodeURIComponent(pool)}`, () => token, (changes) => {
      state.current = merged(state.current, changes);
      if (timer === null) timer = setTimeout(draw, changes.whole ? 0 : DRAW_MS);
    }, setLink);
    return () => {
      clearTimeout(timer);
      stop();
    };
  }, [pool, token]);
  return [drawnState, link];
}

function usePast(pool, at, token) {
  const [past, setPast] = useState(null);
  useEffect(() => {
    if (at === null) {
      setPast(null);
      return undefined;
    }
    let left = false;
    const timer = setTimeout(() => {
      ask(`api/v1/picture?pool=${encodeURIComponent(pool)}&at=${at}`, token).then((found) => !left && setPast(merged(empty(), found)), () => {});
    }, 60);
    return () => {
      left = true;
      clearTimeout(timer);
    };
  }, [pool, at, token]);
  return past;
}

function App() {
  const { view, name } = useRoute();
  const dark = useMedia("(prefers-color-scheme: dark)"), narrow = useMedia("(max-width: 46rem)");
  const [token, setToken] = useState(sessionStorage.getItem(TOKEN) ?? "");
  const [pools, setPools] = useState(null);
  const [locked, setLocked] = useState(false);
  const [chosen, setChosen] = useState(null);
  const [at, setAt] = useState(null);
  const [help, setHelp] = useState(false);
  const [range, setRange] = useState(null);
  const pool = chosen ?? pools?.pools[0]?.pool ?? null;
  const [live, link] = useLive(pool, token);
  const past = usePast(pool, at, token);
  const strip = useStrip(pool, token, live.offset);
  const state = past ?? live;

  useEffect(() => {
    let timer = null;
    const again = (ms) => { timer = setTimeout(load, ms); };
    const load = () => ask("api/v1/pools", token).then((found) => { setPools({ ...found, heard: performance.now() }); setLocked(false); if (!found.recording) again(LOOK_MS); }, (error) => {
      if (error.status === 401 || error.status === 403) setLocked(true);
      else again(1000);
    });
    load();
    return () => clearTimeout(timer);
  }, [token]);

  useEffect(() => {
    const pressed = (event) => {
      const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) && event.target.type !== "range";
      if (event.key === "Escape") { setAt(null); setHelp(false); event.target.blur?.(); }
      if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
      const shown = document.querySelectorAll("header nav a")[event.key - 1];
      if (shown) location.hash = shown.hash;
      else if (event.key === "?") setHelp((shown) => !shown);
      else if (event.key === "/") {
        const input = document.getElementById("filter");
        if (input) { event.preventDefault(); input.focus(); } else location.hash = "#/jobs";
      }
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);

  useEffect(() => {
    // The newest position that is on the screen, for those who watch the page from outside.
    document.documentElement.dataset.offset = String(state.offset);
    document.documentElement.dataset.link = link;
    document.title = `${name || (VIEWS.find(([id]) => id === view)?.[1] ?? "Cluster")} – Steepest`;
  });

  const keep = (given) => { sessionStorage.setItem(TOKEN, given); setToken(given); setLocked(false); };
  const acting = at === null && pools && !pools.recording ? { pool, token, setToken: keep } : null;
  const info = pools?.pools.find((one) => one.pool === pool);
  const shared = { state, pool, token, at, scheme: dark, narrow, acting, setToken: keep, recording: pools?.recording, link, strip, info, onRange: setRange };
  if (locked || link === "token") return html`<${TokenForm} use=${keep} />`;
  return html`
    <a class="skip" href="#content" onClick=${(event) => { event.preventDefault(); document.getElementById("content").focus(); }}>To the content</a>
    <header class="top">
      <h1>Steepest</h1>
      <nav aria-label="Views"><ul>${VIEWS.filter(([id]) => (id === "compare" ? pools?.pools.length > 1 : id !== "letters" || state.totals?.dead_letters) || id === view).map(([id, label], place) => html`<li><a href="#/${id}" title="key ${place + 1}"
        aria-current=${view === id ? "page" : null}>${label}${badge(id, state)}</a></li>`)}</ul></nav>
      <${Status} link=${link} state=${state} recording=${pools?.recording} past=${at !== null} />
    </header>
    <main id="content" tabindex="-1">
    ${pools && pools.pools.length > 1 && view !== "compare" ? html`<label class="filter pool">Pool <select value=${pool} onChange=${(event) => { setAt(null); setChosen(event.target.value); }}>
      ${pools.pools.map((one) => html`<option value=${one.pool}>${text(one.title, 80)}</option>`)}</select></label>` : ""}
      ${told(link, pools?.recording, strip, live) ? html`<p class="banner" role="status">${told(link, pools?.recording, strip, live)}</p>` : ""}
      ${strip ? html`<${Strip} strip=${strip} at=${at} at_ms=${state.at_ms} setAt=${setAt} recording=${pools?.recording} range=${view === "cluster" ? range : null} />` : ""}
      ${!pools || pool === null ? html`<p role="status">Loading the pool …</p>` : shown(view, name, shared, { pools: pools.pools, offset: live.offset })}
    </main>
    ${help ? html`<${Help} close=${() => setHelp(false)} />` : ""}
    <footer><button type="button" class="plain" onClick=${() => setHelp(true)}>Keys: ?</button>
      <span>${info ? text(`${info.title}: ${info.rules}`, 300) : ""}</span> <span>Steepest ${pools?.version ?? ""}</span></footer>`;
}

function shown(view, name, shared, more) {
  switch (view) {
    case "job": return html`<${JobView} key=${name} name=${name} ...${shared} />`;
    case "jobs": return html`<${Jobs} ...${shared} />`;
    case "nodes": return html`<${Nodes} ...${shared} />`;
    case "decisions": return html`<${AllDecisions} ...${shared} />`;
    case "compare": return html`<${Compare} pools=${more.pools} offset=${more.offset} token=${shared.token} scheme=${shared.scheme} narrow=${shared.narrow} />`;
    case "letters": return html`<${Letters} ...${shared} />`;
    default: return html`<${Pool} key=${shared.pool} ...${shared} live=${more.offset} />`;
  }
}

/** What is special about what is shown, in a sentence; empty where nothing is. */
function told(link, recording, strip, live) {
  if (link === "away" && live.offset) return `The gateway does not answer. This is the pool as it was at ${clock(live.at_ms)}; the page goes on by itself once it is back.`;
  if (!recording || !strip) return "";
  const [begin, end] = [strip.points[0][1], strip.points.at(-1)[1]];
  return `A recording of ${new Date(begin).toLocaleDateString([], { dateStyle: "long" })}, ${clock(begin)} to ${clock(end)} (${span(end - begin)}). Nothing in it changes any more.`;
}

function badge(id, state) {
  const counts = { jobs: state.totals?.jobs, letters: state.totals?.dead_letters };
  return counts[id] ? html` <small class="count">${counts[id]}</small>` : "";
}

function Status({ link, state, recording, past }) {
  const words = past ? "the past" : recording ? "a recording" : link === "connecting" || (link === "live" && !state.totals) ? "connecting …" : link !== "live" ? "no connection" : state.up ? "live" : "no system runs";
  const kind = words === "live" ? "PC" : words === "no connection" ? "bad" : "WC";
  const totals = state.totals;
  return html`<p class="link" role="status"><span class="dot ${kind}" aria-hidden="true"></span>${words}
    ${totals ? html`<span class="small"> ${totals.running} running, ${totals.waiting} waiting, ${totals.ended} over, ${totals.moves} move${totals.moves === 1 ? "" : "s"}</span>` : ""}</p>`;
}

function Help({ close }) {
  const dialog = useRef(null);
  useEffect(() => dialog.current?.showModal?.(), []);
  return html`<dialog ref=${dialog} aria-labelledby="keys" onClose=${close}><h2 id="keys">Keys</h2>
    <dl>${KEYS.map(([key, what]) => html`<div><dt><kbd>${key}</kbd></dt><dd>${what}</dd></div>`)}</dl>
    <form method="dialog"><button>Close</button></form></dialog>`;
}

function TokenForm({ use }) {
  return html`<main class="token"><h1>Steepest</h1><form onSubmit=${(event) => { event.preventDefault(); use(new FormData(event.target).get("token").trim()); }}>
    <label>This gateway asks for a token <input name="token" type="password" autocomplete="off" required /></label>
    <button>Go on</button></form></main>`;
}

render(html`<${App} />`, document.getElementById("app"));
