// Answers the page's question for the timeline: 10,000 runs of 1,000 jobs on 64 nodes.
const real = window.fetch;
window.fetch = async (url, options) => {
  if (!String(url).includes('/timeline?')) return real(url, options);
  let seed = 1;
  const random = () => (seed = (seed * 16807) % 2147483647) / 2147483647, runs = 10000, jobs = 1000, nodes = 64, until = 33e6;
  const every = (many, of) => Array.from({ length: many }, (_, k) => of(k)), begun = every(runs, (r) => Math.floor(until * 0.96 * r / runs));
  const ended = begun.map((at, r) => (r > runs - 200 ? null : at + Math.floor(4e5 + 2e6 * random())));
  const steps = (r, of) => every(3, (k) => [begun[r] + k * 120000, of(k)]).flat();
  const view = {
    offset: 1, begin_ms: 1.7e12, start: 0, until, now: until, unit_ms: 1, more_runs: 0, reasons: [''], moves: [], marks: [],
    nodes: every(nodes, (n) => ({ node: `node-${n}`, cpu_m: 64000, gone: false, gpus: 0 })),
    jobs: every(jobs, (j) => ({ job: `job-${j}`, what: `model-${j % 9}`, queue: `q${j % 5}`, phase: j > jobs - 200 ? 'running' : 'finished', category: j % 4 })),
    runs: { job: every(runs, (r) => r % jobs), node: every(runs, () => Math.floor(random() * nodes)), t0: begun, t1: ended, end: ended.map((at) => (at === null ? 0 : 1)),
      share: every(runs, (r) => steps(r, () => Math.floor(40 + 200 * random()))), gpus: every(runs, () => 0), gpu_ids: every(runs, () => []), category: every(runs, (r) => steps(r, (k) => 1 + ((k + r) % 3))) },
    waits: { job: [], t0: [], t1: [], suspended: [], why: [] },
  };
  return new Response(JSON.stringify(view));
};
