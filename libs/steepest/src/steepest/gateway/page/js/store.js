// What is known of the pool: a picture, and the changes since. It knows neither the network nor the screen.
const DECISIONS_KEPT = 1000;

export function empty() {
  return {
    pool: "", offset: 0, at_ms: 0, up: false,
    jobs: new Map(), nodes: new Map(), decisions: [], queue: [], totals: null,
  };
}

/** The state after a batch; rows that have not changed are the same objects as before. */
export function merged(before, changes) {
  const whole = changes.whole === true;
  const jobs = whole ? new Map() : before.jobs;
  for (const job of changes.jobs ?? []) jobs.set(job.job, job);
  const nodes = whole ? new Map() : before.nodes;
  for (const node of changes.nodes ?? []) nodes.set(node.node, node);
  let decisions = whole ? [] : before.decisions;
  if (changes.decisions?.length) decisions = [...decisions, ...changes.decisions].slice(-DECISIONS_KEPT);
  return {
    pool: changes.pool,
    offset: changes.offset,
    at_ms: changes.at_ms,
    up: changes.up === true,
    jobs,
    nodes,
    decisions,
    queue: changes.queue ?? (whole ? [] : before.queue),
    totals: changes.totals ?? before.totals,
  };
}
