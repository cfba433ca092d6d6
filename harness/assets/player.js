// Model time on the page: a playhead between 0 and 60 s that can be played, stepped and dragged.

import { END, byId, seconds, setText } from './dom.js';

/** How far a player moves at once where motion is to be reduced. */
const QUIET_STEP_TICKS = 10;

/** The clock of a run that goes on: `origin` is when it began, in milliseconds of `performance.now()`. */
class Followed {
  constructor(attempt, speed) {
    this.attempt = attempt;
    this.speed = speed;
    this.origin = Infinity;
    this.known = 0;
  }

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
    this.followed = null;
    this.stillness = matchMedia('(prefers-reduced-motion: reduce)');
    this.slider = byId('time-slider');
    this.output = byId('time-output');
    this.playButton = byId('play');
    this.speedSelect = byId('play-speed');

    this.playButton.addEventListener('click', () => this.toggle());
    byId('restart').addEventListener('click', () => this.restart());
    byId('step-back').addEventListener('click', () => this.step(-10));
    byId('step-second').addEventListener('click', () => this.step(10));
    byId('step-tick').addEventListener('click', () => this.step(1));
    this.slider.addEventListener('input', () => {
      this.pause();
      this.seek(Number(this.slider.value), 'drag');
    });
    this.speedSelect.addEventListener('change', () => this.rebase());
    this.show();
  }

  /** Model seconds in a real one. */
  get speed() {
    return Number(this.speedSelect.value);
  }

  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }

  play() {
    this.followed = null;
    if (this.tick >= END) this.seek(0, 'restart');
    this.playing = true;
    this.rebase();
    this.show();
    requestAnimationFrame((now) => this.frame(now));
  }

  pause() {
    this.followed = null;
    if (!this.playing) return;
    this.playing = false;
    this.seek(this.tick, 'pause');
    this.show();
  }

  restart() {
    this.pause();
    this.seek(0, 'restart');
  }

  /**
   * Stays with a run that goes on and is known until the tick `known`. Its attempt began `elapsed_us` ago; between one thing
   * that is known and the next, time passes here as it does there. Where that is not told, or motion is to be reduced, it
   * only moves when more is known.
   */
  follow(known, { attempt, speed, elapsed_us: elapsed }) {
    const now = performance.now();
    const before = this.followed?.attempt === attempt ? this.followed : null;
    if (!before) this.pause();
    if (elapsed === null || this.stillness.matches) {
      this.pause();
      this.seek(known, 'live');
      return;
    }
    const followed = before ?? new Followed(attempt, speed);
    followed.known = known;
    // What arrived soonest tells best.
    followed.origin = Math.min(followed.origin, now - elapsed / 1000);
    this.followed = followed;
    this.goTo(followed.place(now));
    if (!before) requestAnimationFrame((later) => this.followFrame(later, followed));
  }

  followFrame(now, followed) {
    if (this.followed !== followed) return;
    this.goTo(followed.place(now));
    requestAnimationFrame((later) => this.followFrame(later, followed));
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
    this.followed = null;
    const next = Math.min(Math.max(Math.round(tick), 0), END);
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
    setText(this.playButton, this.playing ? 'Pause' : 'Play');
    this.playButton.dataset.playing = String(this.playing);
    if (Number(this.slider.value) !== this.tick) this.slider.value = String(this.tick);
    this.slider.setAttribute('aria-valuetext', seconds(this.tick));
    setText(this.output, seconds(this.tick));
  }
}
