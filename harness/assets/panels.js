// What stands beside the lanes: counts and gate, the result store, the decisions, the inspector. Each selects from a
// view by tick, by the rules that the server's view model states, and interprets nothing.

import { DISPOSITIONS } from './evidence.js';
import { Growing, shownUntil } from './growing.js';
import { END, byId, count, h, s, seconds, setText, statusText } from './dom.js';

/** Offers these choices, and leaves a list that offers them already as it is: it may be open. */
function offer(select, choices) {
  const offered = [...select.options].map((option) => option.value);
  if (offered.length === choices.length && choices.every(([value], at) => value === offered[at])) return;
  const chosen = select.value;
  select.replaceChildren(...choices.map(([value, words]) => h('option', { value }, words)));
  select.value = choices.some(([value]) => value === chosen) ? chosen : (choices[0]?.[0] ?? '');
}

/** Whether a phase, an invocation or a stage covers a tick. */
export const covers = (span, tick) => span.from_tick <= tick && tick < span.until_tick;

const COUNTS = [
  ['arrivals', 'arrived'],
  ['admitted', 'admitted'],
  ['rejected', 'rejected'],
  ['completed', 'completed'],
  ['killed', 'killed'],
  ['in_flight', 'in flight'],
];
const NOTHING = { arrivals: 0, admitted: 0, rejected: 0, completed: 0, killed: 0, in_flight: 0, rejected_percent: 0 };

/** The counts that hold at a tick. */
export const countsAt = (view, tick) => view.counts[shownUntil(view.counts, tick) - 1] ?? NOTHING;

/** Counts and gate. */
export class Outcome {
  constructor() {
    this.cells = new Map();
    const body = byId('counts').tBodies[0];
    for (const [field, words] of COUNTS) {
      const now = h('td', { id: `now-${field}` });
      const end = h('td', { id: `end-${field}` });
      body.append(h('tr', {}, h('th', { scope: 'row' }, words), now, end));
      this.cells.set(field, [now, end]);
    }
  }

  draw(view, outcome, scenario) {
    this.view = view;
    const whole = view.gate !== null;
    const last = countsAt(view, END);
    for (const [field, [, end]] of this.cells) setText(end, whole ? this.text(field, last) : '–');
    const badge = byId('gate');
    badge.dataset.gate = whole ? view.gate.gate : '';
    setText(badge, whole ? (view.gate.gate === 'pass' ? 'gate: PASS' : 'gate: FAIL') : 'gate: not judged');
    setText(byId('gate-reason'), whole ? gateReason(outcome, scenario) : 'The gate is judged at the end of a drill.');
  }

  text(field, counts) {
    if (field !== 'rejected') return String(counts[field]);
    return `${counts.rejected} (${counts.rejected_percent.toFixed(1)} %)`;
  }

  seek(tick) {
    const counts = countsAt(this.view, tick);
    for (const [field, [now]] of this.cells) setText(now, this.text(field, counts));
    setText(byId('counts-now'), `by ${seconds(tick)}`);
  }
}

/** Why the gate says what it says, from the figures of the outcome. */
function gateReason(outcome, scenario) {
  const allowed = scenario.rejection_allowance_percent;
  // What exceeds it by less than a tenth is shown as the allowance itself.
  const exceeds = outcome.rejected * 100 > allowed * outcome.arrivals;
  const hardly = exceeds && outcome.rejected_percent <= allowed ? 'just over ' : '';
  const said = [
    `${outcome.killed.length} killed`,
    `${outcome.running.length} still running at the end`,
    `${hardly}${outcome.rejected_percent.toFixed(1)} % rejected where ${allowed} % are allowed`,
  ];
  return `${said.join(', ')}.`;
}

/** Committed results. */
export class Store {
  constructor() {
    this.rows = new Growing(byId('store').tBodies[0]);
  }

  draw(view) {
    this.rows.fill(view.store, (row) => h('tr', { 'data-request': row.request },
      h('th', { scope: 'row' }, row.request), h('td', {}, row.sum), h('td', {}, seconds(row.tick)), h('td', {}, row.worker)), (row) => JSON.stringify(row));
  }

  seek(tick) {
    this.rows.seek(tick);
    setText(byId('store-count'), count(this.rows.shown, 'result'));
  }
}

const DECISION_MARKS = {
  worker_ready: 'ready',
  worker_failed: 'failed',
  sigterm_sent: 'sigterm',
  sigterm_skipped: 'sigterm-skipped',
  readiness_withdrawn: 'withdrawn',
  sigterm_ignored: 'ignored',
  sigkill_sent: 'sigkill',
  worker_exited: 'exited',
  orphan_exited: 'exited',
  worker_orphaned: 'orphaned',
  result_committed: 'committed',
  invocation_killed: 'killed',
  request_admitted: 'admitted',
  request_rejected: 'rejected',
};

function markOf(event) {
  const mark = DECISION_MARKS[event];
  const shape = mark ? s('use', { href: `#mark-${mark}` }) : null;
  return s('svg', { class: 'decision-mark', viewBox: '-8 -8 16 16', 'aria-hidden': 'true' }, shape);
}

/** How often the live region speaks at most, in milliseconds. */
const SPEAK_EVERY_MS = 1500;
/** How many decisions it reads out at once before it only counts them. */
const SPOKEN_AT_ONCE = 4;

/** The list of decisions. It follows the time, can be filtered, and tells new ones to screen readers. */
export class Decisions {
  constructor() {
    this.list = byId('decisions');
    this.items = new Growing(this.list);
    this.box = byId('decisions-box');
    this.kind = byId('decision-kind');
    this.search = byId('decision-search');
    this.announcer = byId('announcer');
    const choose = () => {
      this.toLatest();
      this.fill();
    };
    this.kind.addEventListener('change', choose);
    this.search.addEventListener('input', choose);
    this.waiting = [];
    this.tick = 0;
    this.told = 0;
    /** Whether the end of the list is in sight: who has scrolled away from it reads something else. */
    this.atEnd = true;
    this.box.addEventListener('scroll', () => {
      this.atEnd = this.box.scrollTop + this.box.clientHeight > this.box.scrollHeight - 24;
    }, { passive: true });
  }

  /** `notes` has a line for each decision that is not as expected, by its place in the list. */
  draw(view, notes = new Map()) {
    this.view = view;
    this.notes = notes;
    const kinds = [...new Set(view.decisions.map((decision) => decision.event))];
    offer(this.kind, [['', 'all but stages'], ['*', 'all'], ...kinds.map((kind) => [kind, kind.replaceAll('_', ' ')])]);
    this.fill();
  }

  passes(decision) {
    const kind = this.kind.value;
    const wanted = kind === '' ? decision.event !== 'stage_entered' : kind === '*' || decision.event === kind;
    if (!wanted) return false;
    const sought = this.search.value.trim().toLowerCase();
    return sought === '' || `${seconds(decision.tick)} ${decision.text}`.toLowerCase().includes(sought);
  }

  fill() {
    const places = this.notes.size > 0 ? new Map(this.view.decisions.map((decision, index) => [decision, index])) : null;
    this.entries = this.view.decisions.filter((decision) => this.passes(decision));
    this.latest?.classList.remove('latest');
    this.latest = null;
    const noteOf = (decision) => this.notes.get(places?.get(decision));
    this.items.fill(this.entries, (decision) => {
      const note = noteOf(decision);
      return h('li', { 'data-tick': decision.tick, 'data-event': decision.event, class: note ? 'differs' : null },
        h('span', { class: 'decision-time' }, seconds(decision.tick)), markOf(decision.event),
        h('span', { class: 'decision-text' }, decision.text, note ? h('em', {}, ` ≠ ${note}`) : null));
    }, (decision) => JSON.stringify([decision, noteOf(decision)]));
    this.seek(this.tick);
  }

  seek(tick) {
    this.tick = tick;
    const changed = this.items.seek(tick);
    const { shown } = this.items;
    const latest = this.items.nodes[shown - 1] ?? null;
    if (changed || latest !== this.latest) {
      this.latest?.classList.remove('latest');
      this.latest = latest;
      this.latest?.classList.add('latest');
      this.follow();
    }
    byId('decisions-none').hidden = shown > 0;
    setText(byId('decision-count'), `${shown} of ${this.entries.length}`);
  }

  /** The latest decision is what is looked for from now on. */
  toLatest() {
    this.atEnd = true;
  }

  /** Scrolls to the latest decision, once a frame at most, where the end of the list was in sight. */
  follow() {
    if (this.following || !this.atEnd) return;
    this.following = true;
    requestAnimationFrame(() => {
      this.following = false;
      this.box.scrollTop = this.box.scrollHeight;
    });
  }

  /** Tells what happened between two ticks, later and in few words where much happens at once. */
  announce(from, until) {
    const news = this.entries.slice(shownUntil(this.entries, from), shownUntil(this.entries, until));
    this.waiting.push(...news);
    if (this.timer || this.waiting.length === 0) return;
    const pause = Math.max(SPEAK_EVERY_MS - (performance.now() - this.told), 0);
    this.timer = setTimeout(() => this.speak(), pause);
  }

  /** Forgets what was not told yet. */
  hush() {
    this.waiting = [];
  }

  speak() {
    this.timer = null;
    const news = this.waiting.splice(0);
    if (news.length === 0) return;
    this.told = performance.now();
    const lines = news.slice(-SPOKEN_AT_ONCE).map((decision) => h('p', {}, `${seconds(decision.tick)}: ${decision.text}`));
    if (news.length > SPOKEN_AT_ONCE) lines.unshift(h('p', {}, `${news.length} decisions, the last of them:`));
    this.announcer.replaceChildren(...lines);
  }
}

/** The worker, and the invocation, that are looked at. */
export class Inspector {
  constructor(choose) {
    this.workers = byId('worker-select');
    this.invocations = byId('invocation-select');
    this.card = byId('inspector-card');
    this.json = byId('inspector-json');
    this.workers.addEventListener('change', () => choose(this.workers.value, null));
    this.invocations.addEventListener('change', () => choose(this.workers.value, this.invocations.value || null));
    byId('inspector-json-details').addEventListener('toggle', () => this.seek(this.tick ?? 0));
  }

  /**
   * `processes` tells what is known of each worker's process, where a run is shown, and `end` where the trace ends of one that
   * broke off: what was the case there is all that is known of later.
   */
  draw(view, processes, end) {
    this.view = view;
    this.end = end;
    this.processes = processes;
    const names = view.lanes.map((lane) => lane.worker);
    offer(this.workers, names.map((name) => [name, name]));
    return names;
  }

  choose(worker, request) {
    this.lane = this.view.lanes.find((lane) => lane.worker === worker) ?? null;
    this.workers.value = worker ?? '';
    const held = (this.lane?.slots ?? []).flatMap((slot) => slot.invocations.map((invocation) => ({ ...invocation, slot: slot.slot })));
    held.sort((a, b) => a.from_tick - b.from_tick);
    offer(this.invocations, [['', 'none'], ...held.map((one) => [one.request, one.request])]);
    this.invocation = held.find((one) => one.request === request) ?? null;
    this.invocations.value = this.invocation?.request ?? '';
  }

  /** The chosen worker at a tick: what is selected, with nothing added. */
  worker(tick) {
    const phase = this.lane.phases.find((one) => covers(one, tick));
    if (!phase) return null;
    const inFlight = this.lane.slots.flatMap((slot) => slot.invocations.filter((one) => covers(one, tick)).map((one) => ({
      request: one.request,
      slot: slot.slot,
      stage: one.stages.find((stage) => covers(stage, tick))?.stage ?? null,
      from_tick: one.from_tick,
    })));
    return {
      worker: this.lane.worker,
      state: phase.state,
      alive: phase.alive,
      ready: phase.ready,
      status: phase.status,
      in_flight: inFlight,
      ...this.processes.get(this.lane.worker),
      since_tick: phase.from_tick,
    };
  }

  request(tick) {
    const one = this.invocation;
    const stage = one.stages.find((entered) => covers(entered, tick))?.stage ?? null;
    const state = tick < one.from_tick ? 'not admitted yet' : covers(one, tick) ? 'in flight' : one.end;
    const over = tick >= one.until_tick;
    return { request: one.request, worker: this.lane.worker, slot: one.slot, state, stage, from_tick: one.from_tick, sum: over ? one.sum : null };
  }

  seek(tick) {
    this.tick = tick;
    if (!this.view) return;
    const worker = this.lane ? this.worker(tick) : null;
    const request = this.invocation ? this.request(tick) : null;
    const text = JSON.stringify([worker, request, tick]);
    const late = tick > this.end;
    // Most ticks change nothing here but the time.
    const same = JSON.stringify([worker, request, late]);
    if (same !== this.drawn) {
      this.drawn = same;
      const known = late ? [h('p', { class: 'muted' }, `Known until ${seconds(this.end)}, where the run broke off.`)] : [];
      this.card.replaceChildren(...known, ...this.cards(worker, request));
    }
    if (text !== this.written && byId('inspector-json-details').open) {
      this.written = text;
      setText(this.json, JSON.stringify({ tick, ...(request ? { invocation: request } : {}), worker }, null, 2));
    }
  }

  cards(worker, request) {
    const cards = [];
    if (request) {
      cards.push(facts([
        ['Invocation', request.request],
        ['State', request.stage ? `${request.state}, ${request.stage}` : request.state],
        ['Worker', `${request.worker}, slot ${request.slot}`],
        ['Admitted', seconds(request.from_tick)],
        ['Sum', request.sum === null ? 'none committed' : String(request.sum)],
      ]));
    }
    if (!worker) {
      cards.push(h('p', { class: 'muted' }, this.lane ? `${this.lane.worker} has not been started yet.` : 'No worker is chosen.'));
      return cards;
    }
    cards.push(facts([
      ['Worker', worker.worker],
      ['State', `${worker.state} since ${seconds(worker.since_tick)}`],
      ['Process', processText(worker)],
      ...(worker.sigterm ? [['SIGTERM', DISPOSITIONS[worker.sigterm] ?? worker.sigterm]] : []),
      ['Readiness', worker.ready ? 'ready: the router may choose it' : 'not ready'],
      ['Status', worker.status ? statusText(worker.status) : 'none yet'],
    ]));
    const held = worker.in_flight.map((one) => h('li', {}, `slot ${one.slot}: ${one.request}, ${one.stage ?? 'no stage seen'} (since ${seconds(one.from_tick)})`));
    cards.push(h('h3', {}, `In flight: ${held.length}`));
    if (held.length > 0) cards.push(h('ul', { class: 'plain' }, held));
    return cards;
  }
}

function processText({ alive, pid, namespace_pid: inNamespace }) {
  const parts = [alive ? 'alive' : 'ended'];
  if (pid !== undefined) parts.push(`pid ${pid}`);
  if (inNamespace !== undefined && inNamespace !== pid) parts.push(`${inNamespace} in its PID namespace`);
  return parts.join(', ');
}

/** Names and what they are, as a description list. */
export function facts(pairs) {
  return h('dl', { class: 'facts' }, pairs.map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value))));
}
