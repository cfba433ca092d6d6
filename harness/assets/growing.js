// Lists that grow while time passes: of each the beginning is shown, up to the tick that is looked at.

/** How many of a list, in the order of the trace, are shown at a tick. */
export function shownUntil(list, tick) {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle].tick <= tick) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * A list of which the beginning is shown. Entries are made when they are first shown, for there can be thousands.
 */
export class Growing {
  constructor(parent) {
    this.parent = parent;
    this.nodes = [];
    this.keys = [];
    this.shown = 0;
  }

  /**
   * Lists other entries. `key` tells all that is shown of one: as far as the lists begin alike, what is shown stays in the
   * document, and whoever reads it there is not disturbed.
   */
  fill(entries, make, key) {
    let same = 0;
    while (same < this.shown && same < entries.length && this.keys[same] === key(entries[same])) same += 1;
    for (const node of this.nodes.slice(same, this.shown)) node.remove();
    this.nodes.length = same;
    [this.entries, this.make, this.key, this.shown] = [entries, make, key, same];
  }

  /** Shows the entries up to a tick, and tells whether that changed anything. */
  seek(tick) {
    const shown = shownUntil(this.entries, tick);
    if (shown === this.shown) return false;
    const more = [];
    for (let at = this.shown; at < shown; at += 1) {
      this.nodes[at] ??= this.make(this.entries[at]);
      this.keys[at] = this.key(this.entries[at]);
      more.push(this.nodes[at]);
    }
    this.parent.append(...more);
    for (let at = shown; at < this.shown; at += 1) this.nodes[at].remove();
    this.shown = shown;
    return true;
  }
}
