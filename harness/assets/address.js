// What stands in the browser's address after `#`: the experiment, or the run that is shown.

/** How long edits pause before the address is written, in milliseconds. */
const KEEP_AFTER_MS = 100;

let timer;
let unwritten = null;

/** The address as it stands. */
export const inAddress = () => new URLSearchParams(location.hash.slice(1));

/** Writes the address, once edits pause: browsers throttle pages that do so all the time. */
export function keep(address) {
  clearTimeout(timer);
  unwritten = address;
  timer = setTimeout(writeNow, KEEP_AFTER_MS);
}

/** Writes what waits to be written. */
export function writeNow() {
  if (unwritten !== null) history.replaceState(null, '', `#${unwritten}`);
  leave();
}

/** Forgets what waits to be written. */
export function leave() {
  clearTimeout(timer);
  unwritten = null;
}

/** Writes the address of something else, from which the browser's back button leads to what was there before. */
export function turnTo(address) {
  writeNow();
  if (`#${address}` !== location.hash) history.pushState(null, '', `#${address}`);
}
