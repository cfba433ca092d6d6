#!/usr/bin/env node
// A worker for termdrill in Node.js, 18 or newer, without packages: termdrill run NAME --worker 'node worker.mjs'
//
// It keeps to docs/worker-contract.md. Node.js has no datagram sockets for NOTIFY_SOCKET and no SQLite in 18: it tells its
// readiness by TERMDRILL_NOTIFY_PIPE and commits to TERMDRILL_STORE_LINES. Nor can it set SIG_IGN: a handler that
// does nothing comes to the same.

import process from 'node:process';

const fail = (problem) => {
  process.stderr.write(`${problem}\n`);
  process.exit(2);
};
const setting = (name, fallback, allowed) => {
  const value = process.env[name] ?? fallback;
  return allowed.includes(value) ? value : fail(`${name}=${value} is not allowed: it must be one of ${allowed.join(', ')}`);
};
const number = (name, fallback) => {
  const value = process.env[name] ?? `${fallback}`;
  return /^\d+$/.test(value) ? BigInt(value) : fail(`${name}=${value} is not allowed: it must be a whole number`);
};

// A handler that is there from the start, whatever it is to do later.
const onSigterm = setting('TERMDRILL_ON_SIGTERM', 'default', ['drain', 'default', 'ignore']);
const afterBoot = setting('TERMDRILL_HANDLER_INSTALLED', 'at_start', ['at_start', 'after_boot']) === 'after_boot';
let told = false;
let drain = () => {};
const installHandler = () =>
  process.on('SIGTERM', () => {
    if (!told) {
      told = true;
      drain();
    }
  });
if (onSigterm === 'ignore') process.on('SIGTERM', () => {});
else if (onSigterm === 'drain' && !afterBoot) installHandler();

const [fs, http] = await Promise.all([import('node:fs'), import('node:http')]);

const NAME = process.env.TERMDRILL_WORKER ?? 'worker-1';
const PORT = Number(number('PORT', 8080));
const SLOTS = Number(number('TERMDRILL_SLOTS', 4));
const ORIGIN_NS = number('TERMDRILL_ORIGIN_NS', process.hrtime.bigint());
const TICK_NS = number('TERMDRILL_TICK_NS', 100_000_000);
const READY_TICK = number('TERMDRILL_READY_TICK', 40);
const INVOCATION_TICKS = number('TERMDRILL_INVOCATION_TICKS', 200);
const FAIL_BOOT = setting('TERMDRILL_FAIL_BOOT', 'false', ['true', 'false']) === 'true';
const MAX_BODY = 64 * 1024;

const now = () => process.hrtime.bigint(); // CLOCK_MONOTONIC, which all processes share
const startOf = (tick) => ORIGIN_NS + tick * TICK_NS;

/** Calls `then` at `atNs`. Timers count in whole milliseconds, so the last two are waited for in the event loop. */
const at = (atNs, then) => {
  const left = atNs - now();
  if (left <= 0n) then();
  else if (left > 2_000_000n) setTimeout(() => at(atNs, then), Number(left / 1_000_000n) - 1);
  else setImmediate(() => at(atNs, then));
};

const notify = (state) => {
  const path = process.env.TERMDRILL_NOTIFY_PIPE;
  // The empty line ends the message. One write of so few bytes is never mixed with another's (pipe(7)).
  if (path) fs.writeFileSync(path, `MAINPID=${process.pid}\n${state}=1\nMONOTONIC_USEC=${now() / 1000n}\n\n`, { flag: 'a' });
};

const store = process.env.TERMDRILL_STORE_LINES && fs.openSync(process.env.TERMDRILL_STORE_LINES, 'a');
const commit = (row) => {
  if (store === undefined) throw new Error(`there is no result store, so the sum ${row.sum} is not stored`);
  const line = Buffer.from(`${JSON.stringify({ ...row, worker: NAME, pid: process.pid })}\n`);
  if (fs.writeSync(store, line) !== line.length) throw new Error('the line was cut short');
};

let phase = 'starting';
let held = 0;
const slots = new Set();
const known = new Set();

const leaveIfDrained = () => {
  if (phase === 'draining' && held === 0) process.exit(0);
};

/** Takes hold of something that a drain waits for, an answer or an invocation; what it gives lets go. */
const hold = () => {
  held += 1;
  return () => {
    held -= 1;
    leaveIfDrained();
  };
};

const answer = (response, status, body) => {
  const headers = { 'Content-Type': 'application/json' };
  if (status === 503) headers['Retry-After'] = '1';
  if (phase === 'draining') headers.Connection = 'close';
  response.writeHead(status, headers).end(`${JSON.stringify(body)}\n`);
};

const asked = (request, body) => {
  const { request: id, addends } = JSON.parse(body);
  const natural = (value) => Number.isInteger(value) && value >= 0;
  if (!natural(id) || id < 1 || !Array.isArray(addends) || !addends.every(natural)) throw new Error('not an invocation');
  const given = request.headers['termdrill-tick'];
  if (given !== undefined && !/^\d+$/.test(given)) throw new Error('termdrill-tick is not a whole number');
  return { id, addends, admitted: given === undefined ? (now() - ORIGIN_NS) / TICK_NS : BigInt(given) };
};

const invoke = (response, { id, addends, admitted }) => {
  if (phase !== 'ready') return answer(response, 503, { reason: `worker_${phase}` });
  if (known.has(id)) return answer(response, 409, { error: `request-${id} runs here or is committed already` });
  let slot = 1;
  while (slots.has(slot)) slot += 1;
  if (slot > SLOTS) return answer(response, 503, { reason: 'no_free_slot' });
  slots.add(slot);
  known.add(id);
  const letGo = hold();
  response.writeHead(200, { 'Content-Type': 'application/x-ndjson' });
  // A client that is gone misses the rest, and the work goes on: the store is the truth.
  const tell = (atNs, plannedNs, step) => {
    const late = atNs > plannedNs ? atNs - plannedNs : 0n;
    return response.write(`${JSON.stringify({ at_us: Number(atNs / 1000n), late_us: Number(late / 1000n), ...step })}\n`);
  };
  const begin = now();
  tell(begin, begin, { event: 'accepted', slot });
  tell(begin, begin, { event: 'stage_entered', stage: 'prepare' });
  // Each at its own moment, the first whole tick that is not before the third, so that lateness never adds up.
  const third = (part) => startOf(admitted + (part * INVOCATION_TICKS + 2n) / 3n);
  const end = () => {
    const planned = startOf(admitted + INVOCATION_TICKS);
    const sum = addends.reduce((one, other) => one + other, 0);
    const atNs = now();
    let step;
    try {
      commit({ request: id, addends, sum, committed_us: Number(atNs / 1000n) });
      step = { event: 'result_committed', sum };
    } catch (error) {
      known.delete(id);
      step = { event: 'commit_failed', error: error.message };
    }
    slots.delete(slot);
    tell(atNs, planned, step);
    response.end();
    letGo();
  };
  at(third(1n), () => {
    tell(now(), third(1n), { event: 'stage_entered', stage: 'model' });
    at(third(2n), () => {
      tell(now(), third(2n), { event: 'stage_entered', stage: 'tool' });
      at(startOf(admitted + INVOCATION_TICKS), end);
    });
  });
};

const server = http.createServer((request, response) => {
  response.on('close', hold());
  if (request.url === '/livez') return answer(response, 200, { phase });
  if (request.url === '/readyz') return answer(response, phase === 'ready' ? 200 : 503, { phase });
  if (request.url !== '/invocations') return answer(response, 404, { error: 'there are /livez, /readyz and /invocations' });
  if (request.method !== 'POST') return answer(response, 405, { error: 'allowed here: POST' });
  let body = '';
  request.setEncoding('utf8');
  request.on('data', (part) => {
    body += part;
    if (body.length > MAX_BODY) request.destroy();
  });
  request.on('end', () => {
    let what;
    try {
      what = asked(request, body);
    } catch (error) {
      return answer(response, 400, { error: `the body is not an invocation: ${error.message}` });
    }
    invoke(response, what);
  });
});
server.on('error', (error) => fail(`can't listen on port ${PORT}: ${error.message}`));
server.on('connection', (socket) => socket.setNoDelay(true));
server.listen(PORT, '0.0.0.0', () => {
  process.stdout.write(`listens on port ${PORT}\n`);
  drain = () => {
    phase = 'draining';
    notify('STOPPING');
    leaveIfDrained();
  };
  // One that came before it listened.
  if (told) return drain();
  at(startOf(READY_TICK), () => {
    if (phase === 'draining') return;
    if (FAIL_BOOT) process.exit(1);
    if (onSigterm === 'drain' && afterBoot) installHandler();
    phase = 'ready';
    notify('READY');
  });
});
