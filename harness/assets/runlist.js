// The list of runs: those that wait and go on, and those that are stored.

import { ask, byId, h } from './dom.js';

/** The section "Past runs". `open(id)` is called to show one of them, `problem(text)` where the server says no. */
export class RunList {
  constructor({ open, problem }) {
    this.open = open;
    this.problem = problem;
    byId('runs-refresh').addEventListener('click', () => this.refresh());
  }

  /** Lists them as the server knows them now. */
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
    this.fill([
      ...going.map((run) => row(run.id, run.scenario, null, run.state, [
        h('button', { type: 'button', 'aria-label': `Follow ${run.scenario}`, onclick: () => this.open(run.id) }, 'Follow'),
        h('button', { type: 'button', 'aria-label': `Cancel ${run.scenario}`, onclick: () => this.cancel(run.id) }, 'Cancel'),
      ])),
      ...list.runs.filter((run) => !known.has(run.run)).map((run) => {
        const [, time, name] = STORED_NAME.exec(run.run) ?? [null, '', run.run];
        return row(run.run, name, stamp(time), run.state, [
          h('button', { type: 'button', 'aria-label': `Replay ${run.run}`, onclick: () => this.open(run.run) }, 'Replay'),
        ]);
      }),
    ]);
  }

  /** Shows other rows. Whoever is there with the keyboard stays there, or is led to where the list begins. */
  fill(rows) {
    const body = byId('runs').tBodies[0];
    const held = body.contains(document.activeElement) ? document.activeElement : null;
    const run = held?.closest('tr').dataset.run;
    const place = held ? [...held.parentNode.children].indexOf(held) : 0;
    body.replaceChildren(...rows);
    if (!held) return;
    const same = rows.find((one) => one.dataset.run === run)?.querySelectorAll('button')[place];
    (same ?? byId('runs-refresh')).focus({ preventScroll: true });
  }

  async cancel(id) {
    try {
      await ask(`/api/runs/${encodeURIComponent(id)}/cancel`, {});
    } catch (error) {
      this.problem(error.message);
    }
    this.refresh();
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
