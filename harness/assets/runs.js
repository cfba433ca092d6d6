// Runs on real processes: starting one, following it while it goes on, cancelling it, and what it came to.

import { ask, byId, h, sentence, setText } from './dom.js';
import { inAddress, turnTo } from './address.js';
import { latenessTable } from './evidence.js';
import { RunList } from './runlist.js';

/** How often a run that goes on is drawn anew at most, in milliseconds; the second where motion is to be reduced. */
const REDRAW_EVERY_MS = [120, 1000];
/** How long until a run is asked after again that still goes on although nobody tells of it, in milliseconds. */
const ASK_AGAIN_MS = 1000;
const stillness = matchMedia('(prefers-reduced-motion: reduce)');

/** How often a run is asked after that nobody sees, in milliseconds. */
const ASK_EVERY_MS = 1500;

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
    this.list = new RunList({ open: (id) => this.open(id), problem: (text) => this.problem(text) });
    document.addEventListener('visibilitychange', () => this.tune());
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
      this.tell(GOES_ON);
      this.tune();
    } else {
      this.tell('Starts worker processes, sends them the requests and the signals of this experiment, and compares what happens with what is expected.');
    }
  }

  async start() {
    if (this.startButton.disabled) return;
    this.startButton.disabled = true;
    const before = this.current;
    try {
      const model = await this.page.experiment();
      this.problem(model ? '' : 'The experiment holds what is not allowed: correct it first.');
      if (!model) {
        this.startButton.disabled = false;
        return;
      }
      this.result.replaceChildren();
      this.badge('');
      this.startButton.disabled = true;
      const clock = this.clock.value;
      const run = await ask('/api/runs', { scenario: model.scenario, clock, ...(clock === 'stepped' ? {} : { speed: Number(this.speed.value) }) });
      // Another experiment, or another run, may have come to be shown before the answer did.
      if (this.page.shows(model)) {
        this.page.started();
        this.follow(run.id);
      } else if (this.current === before) {
        this.follow(run.id, false);
      }
      this.list.refresh();
    } catch (error) {
      this.startButton.disabled = false;
      this.problem(error.message);
    }
  }

  /** Stays with a run until it is over; `seen` is whether it is what is shown. */
  follow(id, seen = true) {
    if (this.current) unhear(this.current);
    this.current = { id, seen, stream: null, timer: null, over: false, dirty: false };
    this.startButton.disabled = seen;
    this.cancelButton.hidden = false;
    this.cancelButton.disabled = false;
    this.progress.hidden = false;
    this.progress.value = 0;
    if (seen) this.badge('', 'queued');
    this.tell(seen ? 'Queued.' : GOES_ON);
    this.tune();
  }

  /**
   * Hears of the run that goes on event by event where somebody sees it, and else asks after it now and then: a stream keeps
   * a connection, and a browser has six of them for all its tabs.
   */
  tune() {
    const mine = this.current;
    if (!mine || mine.over) return;
    if (mine.seen && !document.hidden) {
      clearTimeout(mine.timer);
      mine.timer = null;
      if (!mine.stream) this.listen(mine);
    } else {
      mine.stream?.close();
      mine.stream = null;
      mine.timer ??= setTimeout(() => this.look(mine), ASK_EVERY_MS);
    }
  }

  listen(mine) {
    const stream = new EventSource(`/api/runs/${encodeURIComponent(mine.id)}/events`);
    mine.stream = stream;
    const on = (name, act) => stream.addEventListener(name, (message) => {
      if (this.current === mine && mine.stream === stream) act(message);
    });
    on('state', ({ data }) => this.state(JSON.parse(data)));
    on('attempt', ({ data }) => this.attempt(JSON.parse(data)));
    on('observed', ({ data }) => this.observed(JSON.parse(data)));
    on('done', () => this.done());
    on('error', () => {
      if (stream.readyState === EventSource.CLOSED) this.done();
      else this.lost();
    });
    on('open', () => this.found());
  }

  /** Asks after a run that is not listened to. */
  async look(mine) {
    let over = false;
    let answered = true;
    try {
      const run = await ask(`/api/runs/${encodeURIComponent(mine.id)}`);
      mine.run = run.run;
      over = !goesOn(run);
    } catch (error) {
      answered = error.status !== 0;
      over = answered;
    }
    if (this.current !== mine || mine.over) return;
    mine.timer = null;
    if (over) {
      this.done();
      return;
    }
    if (answered) this.found();
    else this.lost();
    this.tune();
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
    this.badge('', state);
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
      if (this.current === mine && !mine.over && mine.seen && !mine.before && run.observed) this.page.live(run);
    }).catch(() => {}).finally(() => {
      setTimeout(() => {
        mine.asking = false;
        if (mine.dirty && this.current === mine && !mine.over) this.redraw();
      }, Math.max(REDRAW_EVERY_MS[Number(stillness.matches)] - (performance.now() - began), 0));
    });
  }

  async done() {
    const mine = this.current;
    if (mine.over) return;
    mine.over = true;
    unhear(mine);
    this.cancelButton.hidden = true;
    this.progress.hidden = true;
    this.list.refresh();
    let run = null;
    let problem = '';
    try {
      run = await this.ended(mine);
    } catch (error) {
      problem = error.message;
    }
    // By now another one may be followed.
    if (this.current !== mine) return;
    this.current = null;
    this.startButton.disabled = false;
    this.problem(problem);
    if (!run) {
      if (mine.seen) {
        this.badge('', 'not known');
        this.page.unknown();
      }
      this.tell('What became of the run is not known.');
    } else if (mine.seen) {
      this.show(run);
      this.page.finished(run);
    } else {
      this.tell(`The run of ${run.scenario.name} that went on is over: ${run.verdict ?? run.state}. It is in the list of past runs.`);
    }
  }

  /** What is known of a run that is over. A server that was started anew knows it by the name that it is stored under. */
  async ended(mine) {
    const { id, run } = mine;
    const known = await ask(`/api/runs/${encodeURIComponent(id)}`).catch((error) => {
      if (error.status !== 404 || !run) throw error;
      return ask(`/api/runs/${encodeURIComponent(run)}`);
    });
    if (known.state !== 'running') return known;
    // One whose server is gone may still have something to store.
    await new Promise((done) => setTimeout(done, ASK_AGAIN_MS));
    return this.ended(mine);
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

  /**
   * Shows the run of this id or name, and follows it where it is not over. Gives null, or why it can't be shown. What
   * comes when something else was asked for is of no interest: `isLast` tells.
   */
  async open(id, isLast = this.page.turn()) {
    this.problem('');
    try {
      const run = await ask(`/api/runs/${encodeURIComponent(id)}`);
      if (!isLast()) return null;
      await this.page.replay(run, isLast);
      if (!isLast()) return null;
      if (inAddress().get('run') !== id) turnTo(new URLSearchParams({ run: run.run ?? id }));
      if (goesOn(run)) this.follow(run.id);
      else this.show(run);
      return null;
    } catch (error) {
      if (!isLast()) return null;
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

const GOES_ON = 'The run of the experiment before goes on.';

/** Whether a run of this server waits or goes on. One that was only found stored has no id. */
const goesOn = (run) => run.state === 'queued' || (run.state === 'running' && run.id !== null);

/** Nothing more is heard of a run, nor is it asked after. */
function unhear(run) {
  run.stream?.close();
  clearTimeout(run.timer);
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
