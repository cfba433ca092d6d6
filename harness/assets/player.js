// Model time on the page: a playhead between 0 and 60 s that can be played, stepped and dragged.

import { END, byId, seconds, setText } from './dom.js';

/** How far a player moves at once where motion is to be reduced. */
const QUIET_STEP_TICKS = 10;

/**
 * An attempt of a run that goes on. `origin` is when its clock began, in milliseconds of `performance.now()`, or Infinity;
 * `stays` is whether time stays with it, as it does until somebody looks elsewhere.
 */
class Live {
  constructor(attempt, speed, stays) {
    this.attempt = attempt;
    this.speed = speed;
    this.stays = stays;
    this.origin = Infinity;
    this.known = 0;
  }

  /** How far it is, in ticks. */
  place(now) {
    return Math.min(Math.max((now - this.origin) * (this.speed / 100), this.known), END);
  }
}

/** Time and its controls. `moved(tick, why)` is called for every new tick, `drawn(place)` for every frame. */
export class Player {
  constructor({ moved, drawn }) {
    this.moved = moved;
    this.drawn = drawn;
    this.tick = 0;
    this.place = 0;
    this.playing = false;
    this.live = null;
    this.stillness = matchMedia('(prefers-reduced-motion: reduce)');
    this.slider = byId('time-slider');
    this.output = byId('time-output');
    this.behind = byId('time-behind');
    this.playButton = byId('play');
    this.speedSelect = byId('play-speed');

    this.playButton.addEventListener('click', () => this.toggle());
    byId('restart').addEventListener('click', () => this.restart());
    byId('step-back').addEventListener('click', () => this.step(-10));
    byId('step-second').addEventListener('click', () => this.step(10));
    byId('step-tick').addEventListener('click', () => this.step(1));
    // To pause shows the time as it was, in the slider too.
    this.slider.addEventListener('input', () => this.go(Number(this.slider.value)));
    this.speedSelect.addEventListener('change', () => this.rebase());
    this.show();
  }

  /** Model seconds in a real one. */
  get speed() {
    return Number(this.speedSelect.value);
  }

  /** Plays or pauses. A run that goes on is left where it is, or caught up with. */
  toggle() {
    if (this.live && !this.live.stays) this.catchUp();
    else if (this.live || this.playing) this.pause();
    else this.play();
  }

  play() {
    if (this.tick >= END) this.seek(0, 'restart');
    this.playing = true;
    this.rebase();
    this.show();
    requestAnimationFrame((now) => this.frame(now));
  }

  /** Time stands still, and a run that goes on goes on without it. */
  pause() {
    if (this.live) this.live.stays = false;
    else if (!this.playing) return;
    this.playing = false;
    this.seek(this.tick, 'pause');
    this.show();
  }

  restart() {
    this.pause();
    this.seek(0, 'restart');
  }

  /** Goes to a tick, and stops playing. */
  go(tick) {
    this.pause();
    this.seek(tick, 'drag');
  }

  /** Goes to the end, or to where a run that goes on is. */
  toEnd() {
    if (this.live) this.catchUp();
    else this.go(END);
  }

  /**
   * A run goes on and is known until the tick `known`: time stays with it, if nobody has looked elsewhere. Its attempt began
   * `elapsed_us` ago; between one thing that is known and the next, time passes here as it does there. Where that is not
   * told, or motion is to be reduced, it only moves when more is known.
   */
  follow(known, { attempt, speed, elapsed_us: elapsed }) {
    const before = this.live;
    const now = performance.now();
    if (before?.attempt !== attempt) this.live = new Live(attempt, speed, before?.stays ?? true);
    const { live } = this;
    live.known = known;
    // What arrived soonest tells best.
    live.origin = elapsed === null || this.stillness.matches ? Infinity : Math.min(live.origin, now - elapsed / 1000);
    this.playing = false;
    this.show();
    if (live.stays) this.stay(live, now);
    // Another attempt begins anew.
    else if (this.place > live.place(now)) this.seek(this.place, 'drag');
  }

  catchUp() {
    this.live.stays = true;
    this.show();
    this.stay(this.live, performance.now());
  }

  stay(live, now) {
    this.goTo(live.place(now));
    if (live.framed) return;
    live.framed = true;
    requestAnimationFrame((later) => this.followFrame(later, live));
  }

  /** Nothing more is heard of the run that goes on: time stays where something is known. */
  lose() {
    if (!this.live) return;
    this.live.origin = Infinity;
    if (this.live.stays) this.seek(this.live.known, 'drag');
  }

  /** No run goes on any more. Tells whether time stayed with it. */
  leave() {
    const stayed = this.live?.stays ?? true;
    this.live = null;
    this.show();
    return stayed;
  }

  followFrame(now, live) {
    live.framed = this.live === live && live.stays;
    if (!live.framed) return;
    this.goTo(live.place(now));
    requestAnimationFrame((later) => this.followFrame(later, live));
  }

  goTo(place) {
    if (place === this.place) return;
    this.place = place;
    const tick = Math.floor(place);
    if (tick !== this.tick) this.settle(tick, 'live');
    this.drawn(place);
  }

  /** Moves by some ticks, and stops playing. */
  step(ticks) {
    this.pause();
    this.seek(this.tick + ticks, 'step');
  }

  /** Chooses the next higher or lower speed. */
  changeSpeed(by) {
    const last = this.speedSelect.options.length - 1;
    this.speedSelect.selectedIndex = Math.min(Math.max(this.speedSelect.selectedIndex + by, 0), last);
    this.rebase();
  }

  seek(tick, why) {
    const last = this.live ? Math.floor(this.live.place(performance.now())) : END;
    const next = Math.min(Math.max(Math.round(tick), 0), last);
    this.place = next;
    this.settle(next, why);
    this.rebase();
    this.drawn(this.place);
  }

  settle(tick, why) {
    const changed = tick !== this.tick;
    this.tick = tick;
    if (changed || why !== 'play') {
      this.show();
      this.moved(tick, why);
    }
  }

  /** From here on time is counted anew. */
  rebase() {
    this.base = { place: this.place, now: performance.now() };
  }

  frame(now) {
    if (!this.playing) return;
    const passed = Math.max(now - this.base.now, 0) * (this.speed / 100);
    let place = Math.min(this.base.place + passed, END);
    if (this.stillness.matches && place < END) {
      place = Math.floor(place / QUIET_STEP_TICKS) * QUIET_STEP_TICKS;
      place = Math.max(place, this.tick);
    }
    if (place !== this.place) {
      this.place = place;
      this.settle(Math.floor(place), 'play');
      this.drawn(place);
    }
    if (place >= END) {
      this.playing = false;
      this.show();
    } else {
      requestAnimationFrame((later) => this.frame(later));
    }
  }

  show() {
    const moves = this.playing || (this.live?.stays ?? false);
    setText(this.playButton, moves ? 'Pause' : this.live ? 'Back to now' : 'Play');
    setText(this.behind, this.live && !moves ? 'behind the run' : '');
    if (Number(this.slider.value) !== this.tick) this.slider.value = String(this.tick);
    this.slider.setAttribute('aria-valuetext', seconds(this.tick));
    setText(this.output, seconds(this.tick));
  }
}
