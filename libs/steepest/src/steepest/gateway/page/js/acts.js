// What a person can do to jobs and nodes: a button each, a question that says the price, and the answer in the same place.
import { html, useEffect, useRef, useState } from "./html.js";
import { ask } from "./stream.js";
import { text } from "./words.js";

const SHOWN = 5, PRIORITIES = ["low", "normal", "high", "urgent"];

/** What suits a job as it is; the gateway has the last word, and says why not. */
export function kindsOf(job) {
  if (job.outcome) return ["retry"];
  if (job.phase === "running" || job.phase === "stopped") return ["suspend", "move", "priority", "cancel"];
  return [job.phase === "suspended" ? "resume" : job.held ? "release" : "hold", "priority", "cancel"];
}

/**
 * @param kinds what is offered
 * @param target {jobs: [names]} or {node: name}
 * @param setToken keeps a token for the page
 */
export function Acts({ kinds, target, pool, token, setToken }) {
  const [state, setState] = useState({});
  const box = useRef(null), opener = useRef(null), names = target.jobs ?? [target.node];
  const subject = names.length === 1 ? text(names[0], 63) : `${names.length} jobs`;
  const send = (kind, to, dry, using = token) => {
    setState({ kind, to, busy: true });
    const request = dry ? undefined : crypto.getRandomValues(new Uint32Array(2)).join("-");
    ask(`api/v1/changes?pool=${encodeURIComponent(pool)}`, using, { change: kind, to, dry, request, ...target }).then(
      (found) => setState(dry ? { kind, to, price: found.answers } : { said: found.answers }),
      (error) => setState(error.status === 401 || error.status === 403 ? { kind, to, locked: error.message } : { kind, wrong: error.message }));
  };
  const close = () => { setState({}); opener.current?.focus(); };
  useEffect(() => { if (state.price || state.locked) box.current?.querySelector("[data-first]")?.focus(); }, [state.price, state.locked]);
  const command = `steepest ${!target.node ? state.kind : state.kind === "move" ? "move --node" : `nodes ${state.kind}`} ${names.slice(0, SHOWN).join(" ")}${names.length > SHOWN ? " …" : ""}${state.to ? ` --to ${state.to}` : ""}`;
  const use = (given) => { setToken(given); send(state.kind, state.to, true, given); };
  return html`<div class="acts" ref=${box} onKeyDown=${(event) => { if (event.key === "Escape" && state.kind) { event.stopPropagation(); close(); } }}>
    ${kinds.map((kind) => html`<button type="button" aria-expanded=${state.kind === kind} onClick=${(event) => { opener.current = event.currentTarget; send(kind, kind === "priority" ? "high" : "", true); }}>${kind}</button> `)}
    ${state.price ? html`<div class="ask" role="group" aria-label="Question">
      <p><b>${state.kind} ${subject}?</b></p>
      ${state.kind === "priority" ? html`<label>to <select value=${state.to} onChange=${(event) => send("priority", event.target.value, true)}>${PRIORITIES.map((one) => html`<option>${one}</option>`)}</select></label>` : ""}
      ${state.kind === "move" ? html`<label>to <input value=${state.to} placeholder="the node with most free CPU" onChange=${(event) => send("move", event.target.value.trim(), true)} /></label>` : ""}
      ${lines(state.price, (one) => (one.done ? one.price : one.said), names.length)}
      <button type="button" onClick=${() => send(state.kind, state.to, false)}>Yes, ${state.kind}</button> <button type="button" data-first="" onClick=${close}>No</button>
      <p class="small">In a terminal: <code>${text(command, 300)}</code></p></div>` : ""}
    ${state.locked ? html`<${TokenNeeded} why=${state.locked} role="operate" use=${use} close=${close} />` : ""}
    <div role="status">${state.busy ? "asking …" : ""}${state.said ? lines(state.said, (one) => one.said, names.length, true) : ""}</div>
    ${state.wrong ? html`<p role="alert">${text(state.wrong)}</p>` : ""}</div>`;
}

/** Asks for a token in the place that needs one. */
export function TokenNeeded({ why, role, use, close }) {
  const given = (event) => { event.preventDefault(); use(new FormData(event.target).get("token").trim()); };
  return html`<form class="ask" onSubmit=${given}><label>${text(why)}. A token with the role <i>${role}</i>: <input name="token" type="password" autocomplete="off" required data-first="" /></label> <button>Go on</button>
    ${close ? html` <button type="button" onClick=${close}>No</button>` : ""}</form>`;
}

function lines(answers, words, many, named = many > 1) {
  return html`${answers.slice(0, SHOWN).map((one) => html`<p>${named ? html`<b>${text(one.name, 63)}</b> ` : ""}${text(words(one))}</p>`)}
    ${answers.length > SHOWN ? html`<p>and ${answers.length - SHOWN} more</p>` : ""}`;
}
