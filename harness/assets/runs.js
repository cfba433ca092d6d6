// Runs on real processes: starting one, following it while it goes on, cancelling it, and the list of those that are stored.

import { ask, byId, h, sentence, setText } from './dom.js';
import { inAddress, turnTo } from './address.js';
import { latenessTable } from './evidence.js';

/** How often a run that goes on is drawn anew at most, in milliseconds; the second where motion is to be reduced. */
const REDRAW_EVERY_MS = [120, 1000];
const stillness = matchMedia('(prefers-reduced-motion: reduce)');

/** The speeds that are offered, in model seconds per real second, as far as the server allows them. */
const SPEEDS = [1, 2, 5, 10, 20, 30, 60];

/** The section "Run for real" and the list of past runs. */
export class Runs {
  constructor(page) {
    this.page = page;
    this.current = null;
    this.startButton = byId('run-start');
    this.cancelButton = byId('run-cancel');
    this.speed = byId('run-speed');
    this.clock = byId('run-clock');
    this.status = byId('run-status');
    this.progress = byId('run-progress');
    this.result = byId('run-result');
    this.startButton.addEventListener('click', () => this.start());
    this.cancelButton.addEventListener('click', () => this.cancel());
    this.clock.addEventListener('change', () => {
      this.speed.disabled = this.clock.value === 'stepped';
    });
    byId('runs-refresh').addEventListener('click', () => this.refresh());
  }

  /** Offers the clocks and the speeds that the server knows. */
  build({ clocks, speed }) {
    const words = { scaled: 'real time', stepped: 'stepped' };
    this.clock.replaceChildren(...clocks.map((clock) => h('option', { value: clock }, words[clock] ?? clock)));
    const speeds = [...new Set([...SPEEDS.filter((one) => one >= speed.min && one <= speed.max), speed.default])].sort((a, b) => a - b);
    this.speed.replaceChildren(...speeds.map((one) => h('option', { value: one, selected: one === speed.default }, `${one}×`)));
  }

  /** What is shown does not belong to the experiment any more; a run that goes on goes on, unseen, and another may wait for it. */
  forget() {
    if (this.current) this.current.seen = false;
    this.startButton.disabled = false;
    this.result.replaceChildren();
    this.badge('');
    this.problem('');
    if (this.current) {
      this.tell('The run of the experiment before goes on.');
    } else {
      this.tell('Starts worker processes, sends them the requests and the signals of this experiment, and compares what happens with what is expected.');
    }
  }

  async start() {
    if (this.startButton.disabled) return;
    const scenario = this.page.scenario();
    this.problem(scenario ? '' : 'The experiment holds what is not allowed: correct it first.');
    if (!scenario) return;
    this.result.replaceChildren();
    this.badge('');
    this.startButton.disabled = true;
    const clock = this.clock.value;
    try {
      const run = await ask('/api/runs', { scenario, clock, ...(clock === 'stepped' ? {} : { speed: Number(this.speed.value) }) });
      this.page.started();
      this.follow(run.id);
      this.refresh();
    } catch (error) {
      this.startButton.disabled = false;
      this.problem(error.message);
    }
  }

  follow(id) {
    this.current?.stream.close();
    this.startButton.disabled = true;
    const stream = new EventSource(`/api/runs/${encodeURIComponent(id)}/events`);
    this.current = { id, stream, seen: true, dirty: false };
    const mine = this.current;
    this.cancelButton.hidden = false;
    this.cancelButton.disabled = false;
    this.progress.hidden = false;
    this.progress.value = 0;
    this.badge('', 'queued');
    this.tell('Queued.');
    const on = (name, act) => stream.addEventListener(name, (message) => {
      if (this.current === mine) act(JSON.parse(message.data));
    });
    on('state', (data) => this.state(data));
    on('attempt', (data) => this.attempt(data));
    on('observed', (data) => this.observed(data));
    on('done', () => this.done());
    stream.addEventListener('error', () => {
      if (this.current !== mine) return;
      if (stream.readyState === EventSource.CLOSED) this.done();
      else this.lost();
    });
    stream.addEventListener('open', () => {
      if (this.current === mine) this.found();
    });
  }

  /** The server does not answer: nothing more is known of the run until it does. The browser asks again and again. */
  lost() {
    const mine = this.current;
    if (mine.before) return;
    mine.before = { status: this.status.textContent, badge: byId('verdict').textContent };
    if (mine.seen) {
      this.badge('', 'no answer');
      this.page.lost();
    }
    this.tell('The server does not answer, so what becomes of the run is not known. If it was stopped, the run ended with it. Asking again.');
  }

  /** The server answers again, and the run is known. */
  found() {
    const mine = this.current;
    if (!mine.before) return;
    const { status, badge } = mine.before;
    mine.before = null;
    if (mine.seen) this.badge('', badge);
    this.problem('');
    this.tell(status);
    this.redraw();
  }

  state({ state, ahead }) {
    if (state === 'queued') this.tell(ahead > 0 ? `Queued behind ${ahead}.` : 'Queued.');
    if (state === 'running') this.tell('Starting worker processes.');
    if (this.current.seen) this.badge('', state);
  }

  attempt({ attempt, speed, why }) {
    this.progress.value = 0;
    const pace = speed ? `at ${speed}×` : 'on the stepped clock';
    this.tell(attempt > 1 ? `${sentence(why ?? 'What was seen proves nothing yet')} Attempt ${attempt} runs ${pace}.` : `Running ${pace}.`);
  }

  observed({ t }) {
    this.progress.value = Math.max(this.progress.value, Math.round(t * 10));
    this.redraw();
  }

  /** Asks for what is known so far and has it drawn, not more often than is of use. */
  redraw() {
    const mine = this.current;
    if (!mine || !mine.seen) return;
    if (mine.asking) {
      mine.dirty = true;
      return;
    }
    mine.asking = true;
    mine.dirty = false;
    const began = performance.now();
    ask(`/api/runs/${encodeURIComponent(mine.id)}`).then((run) => {
      mine.run = run.run;
      if (this.current === mine && mine.seen && !mine.before && run.observed) this.page.live(run);
    }).catch(() => {}).finally(() => {
      setTimeout(() => {
        mine.asking = false;
        if (mine.dirty && this.current === mine) this.redraw();
      }, Math.max(REDRAW_EVERY_MS[Number(stillness.matches)] - (performance.now() - began), 0));
    });
  }

  async done() {
    const mine = this.current;
    mine.stream.close();
    this.current = null;
    this.startButton.disabled = false;
    this.cancelButton.hidden = true;
    this.progress.hidden = true;
    this.refresh();
    try {
      const run = await this.ended(mine);
      this.problem('');
      if (!mine.seen) {
        this.tell(`The run of ${run.scenario.name} that went on is over: ${run.verdict ?? run.state}. It is in the list of past runs.`);
        return;
      }
      this.show(run);
      this.page.finished(run);
    } catch (error) {
      if (mine.seen) this.badge('', 'not known');
      this.tell('What became of the run is not known.');
      this.problem(error.message);
    }
  }

  /** What is known of a run that is over. A server that was started anew knows it by the name that it is stored under. */
  async ended({ id, run }) {
    try {
      return await ask(`/api/runs/${encodeURIComponent(id)}`);
    } catch (error) {
      if (error.status !== 404 || !run) throw error;
      return ask(`/api/runs/${encodeURIComponent(run)}`);
    }
  }

  async cancel() {
    this.cancelButton.disabled = true;
    try {
      await ask(`/api/runs/${encodeURIComponent(this.current.id)}/cancel`, {});
      this.tell('Cancelling.');
    } catch (error) {
      this.cancelButton.disabled = false;
      this.problem(error.message);
    }
  }

  /** Shows the run of this id or name, and follows it where it is not over. Gives null, or why it can't be shown. */
  async open(id) {
    this.problem('');
    try {
      const run = await ask(`/api/runs/${encodeURIComponent(id)}`);
      await this.page.replay(run);
      if (run.state === 'queued' || (run.state === 'running' && run.id)) {
        this.follow(run.id);
        return null;
      }
      this.show(run);
      if (inAddress().get('run') !== id) turnTo(new URLSearchParams({ run: run.run ?? id }));
      return null;
    } catch (error) {
      this.problem(error.message);
      return error.message;
    }
  }

  /** The verdict on a run, with its reasons and the way of the signal. */
  show(run) {
    if (run.state === 'cancelled') this.badge('', run.state);
    else this.badge(run.verdict ?? '', run.state);
    this.tell(verdictText(run));
    const parts = [];
    if (run.explanation) {
      const { text, change } = run.explanation;
      parts.push(h('div', { class: 'explanation', id: 'explanation' }, h('h3', {}, 'Where the signal went'), h('p', {}, text), change ? h('p', {}, h('strong', {}, 'What to change: '), change) : null));
    }
    const { difference, error } = run;
    const said = [difference?.what, difference?.why, error?.error, error?.hint, ...run.reasons, ...run.remarks].filter(Boolean).map(sentence);
    if (said.length > 0) parts.push(h('ul', { id: 'run-reasons' }, said.map((line) => h('li', {}, line))));
    const lateness = latenessTable(run.timing?.lateness);
    if (lateness) parts.push(lateness);
    this.result.replaceChildren(...parts);
  }

  /** Lists the stored runs. */
  async refresh() {
    let list;
    try {
      list = await ask('/api/runs');
    } catch (error) {
      this.problem(error.message);
      return;
    }
    const going = [list.current, ...list.queue].filter(Boolean);
    byId('runs-none').hidden = going.length + list.runs.length > 0;
    byId('runs').hidden = !byId('runs-none').hidden;
    const known = new Set(going.map((run) => run.run));
    byId('runs').tBodies[0].replaceChildren(
      ...going.map((run) => row(run.id, run.scenario, null, run.state, [
        h('button', { type: 'button', 'aria-label': `Follow ${run.scenario}`, onclick: () => this.open(run.id) }, 'Follow'),
        h('button', { type: 'button', 'aria-label': `Cancel ${run.scenario}`, onclick: () => this.cancelOne(run.id) }, 'Cancel'),
      ])),
      ...list.runs.filter((run) => !known.has(run.run)).map((run) => {
        const [, time, name] = STORED_NAME.exec(run.run) ?? [null, '', run.run];
        return row(run.run, name, stamp(time), run.state, [
          h('button', { type: 'button', 'aria-label': `Replay ${run.run}`, onclick: () => this.open(run.run) }, 'Replay'),
        ]);
      }));
  }

  async cancelOne(id) {
    try {
      await ask(`/api/runs/${encodeURIComponent(id)}/cancel`, {});
    } catch (error) {
      this.problem(error.message);
    }
    this.refresh();
  }

  badge(verdict, state) {
    const badge = byId('verdict');
    badge.dataset.verdict = verdict;
    setText(badge, verdict ? `verdict: ${verdict.toUpperCase()}` : (state ?? 'not run'));
  }

  tell(text) {
    setText(this.status, text);
  }

  problem(text) {
    const problem = byId('run-problem');
    problem.hidden = text === '';
    setText(problem, text);
  }
}

/** A stored run is named after its time and its scenario. */
const STORED_NAME = /^(\d{8}-\d{6})-(.+)$/;

/** `20261130-041614` as `2026-11-30 04:16:14`, in the time of the server's machine. */
function stamp(time) {
  const parts = /^(....)(..)(..)-(..)(..)(..)$/.exec(time);
  return parts ? `${parts[1]}-${parts[2]}-${parts[3]} ${parts[4]}:${parts[5]}:${parts[6]}` : time;
}

function row(id, name, when, state, buttons) {
  return h('tr', { 'data-run': id },
    h('td', {}, name, when ? h('small', {}, when) : null),
    h('td', {}, h('span', { class: 'badge small', 'data-verdict': state }, state)),
    h('td', {}, buttons));
}

const duration = (ms) => (ms < 1000 ? `${ms} ms` : `${(ms / 1000).toFixed(1)} s`);

function verdictText(run) {
  if (run.state === 'cancelled') return 'The run was cancelled.';
  const events = run.expected?.events.length ?? 0;
  const timing = run.timing ?? {};
  const pace = timing.speed_used ? `at ${timing.speed_used}×` : 'on the stepped clock';
  const took = timing.wall_ms === undefined ? '' : `, ${duration(timing.wall_ms)} in all`;
  switch (run.verdict) {
    case 'matched':
      return `All ${events} events are what the model expected (${pace}${took}).`;
    case 'diverged':
      return `Something else happened than the model expected (${pace}${took}).`;
    case 'inconclusive':
      return `This run proves nothing either way (${pace}${took}).`;
    default:
      return `The run did not come to a verdict: ${run.state}.`;
  }
}
