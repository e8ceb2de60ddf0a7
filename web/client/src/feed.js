/**
 * Which events of one process have come, and which are missing. Pure: it is told, and says what is new.
 *
 * Events come as notifications, in rising seq, and after a cut also in answers to `process/read`, which tells of output,
 * but of exit and close only that they happened. Whatever comes twice is dropped; output that is missing for good is a
 * gap. docs/protocol.md, "Missing output and resuming", is the source of the rules.
 *
 * @module
 */

/** @typedef {import('./protocol.js').Chunk} Chunk */
/** @typedef {import('./protocol.js').Position} Position */
/** @typedef {import('./protocol.js').ProcessEvent} ProcessEvent */
/** @typedef {import('./protocol.js').ReadResult} ReadResult */
/** @typedef {'process/output' | 'process/exited' | 'process/closed' | 'process/gap'} Kind */

/** Output ahead of a hole that is kept until the hole is filled, in bytes; beyond that it is read again. */
const AHEAD_BYTES = 4 << 20;

/** The events of one process. */
export class Feed {
  /** Some events are missing, and have to be read with `afterSeq` = `lastSeq`. */
  behind = false;
  exited = false;
  closed = false;
  /** Everything up to this number has been told, or is in a gap. */
  lastSeq;
  /** Bytes of output up to there. */
  endOffset;
  #gapSinceCut = false;
  /** The last answer to a read that told of the exit, whose own number may be in a gap. @type {ReadResult | null} */
  #exitTold = null;
  /** @type {Map<number, {kind: Kind, params: any}>} */
  #ahead = new Map();
  #aheadBytes = 0;

  /** @param {string} processId @param {Position} [after] where to begin */
  constructor(processId, after = { seq: 0, offset: 0 }) {
    this.processId = processId;
    this.lastSeq = after.seq;
    this.endOffset = after.offset;
  }

  /** What happens from now on is not notified, or not taken. */
  miss() {
    this.behind = !this.closed;
    this.#forgetAhead();
  }

  /** The server sends everything after `lastSeq` anew, and tells what is missing. */
  attached() {
    this.behind = false;
    this.#gapSinceCut = false;
    this.#forgetAhead();
  }

  /**
   * What a notification brings: nothing, if it is known already or there is a hole before it.
   *
   * @param {Kind} kind
   * @param {any} params
   * @returns {ProcessEvent[]}
   */
  notified(kind, params) {
    if (this.closed) return [];
    if (kind === 'process/gap') return this.#gapTold(params);
    if (params.seq <= this.lastSeq) return [];
    if (params.seq > this.lastSeq + 1) {
      this.behind = true;
      this.#keepAhead(kind, params);
      return [];
    }
    return [...this.#take(kind, params), ...this.#takeAhead()];
  }

  /**
   * What the answer to a read after `lastSeq` brings. Unless `behind` is over then, read once more.
   *
   * @param {ReadResult} result
   * @returns {ProcessEvent[]}
   */
  read(result) {
    if (this.closed || !this.behind) return [];
    if (result.exited) this.#exitTold = result;
    const events = result.chunks.flatMap((chunk) => this.#takeChunk(chunk, result));
    const hadAhead = this.#ahead.size > 0;
    events.push(...this.#takeAhead());
    if (result.chunks.length === 0) {
      events.push(...this.#takeEnd(result));
    } else if (!hadAhead || this.#ahead.size > 0) {
      return events;
    } else if (this.#gapSinceCut) {
      events.push(...this.#exitRead(this.lastSeq, result)); // its number may be in the gap
    }
    this.behind = false;
    this.#gapSinceCut = false;
    return events;
  }

  /** @param {{fromSeq: number, toSeq: number, bytes: number}} gap @returns {ProcessEvent[]} */
  #gapTold({ fromSeq, toSeq, bytes }) {
    if (toSeq <= this.lastSeq) return [];
    if (this.behind || fromSeq !== this.lastSeq + 1) {
      this.behind = true; // a read tells exactly what is missing
      return [];
    }
    this.lastSeq = toSeq;
    this.endOffset += bytes;
    return [{ type: 'gap', processId: this.processId, fromSeq, toSeq, bytes }];
  }

  #forgetAhead() {
    this.#ahead.clear();
    this.#aheadBytes = 0;
  }

  /** @param {Kind} kind @param {any} params */
  #keepAhead(kind, params) {
    const size = params.chunk?.length ?? 0;
    if (this.#aheadBytes + size > AHEAD_BYTES) this.#forgetAhead();
    this.#ahead.set(params.seq, { kind, params });
    this.#aheadBytes += size;
  }

  /** @returns {ProcessEvent[]} */
  #takeAhead() {
    /** @type {ProcessEvent[]} */
    const events = [];
    for (const seq of this.#aheadSeqs()) {
      if (seq > this.lastSeq + 1) break;
      const { kind, params } = /** @type {{kind: Kind, params: any}} */ (this.#ahead.get(seq));
      this.#ahead.delete(seq);
      this.#aheadBytes -= params.chunk?.length ?? 0;
      if (seq === this.lastSeq + 1) events.push(...this.#take(kind, params));
    }
    return events;
  }

  #aheadSeqs() {
    return this.#ahead.size === 0 ? [] : [...this.#ahead.keys()].sort((a, b) => a - b);
  }

  /** The notification whose number is the next. @param {Kind} kind @param {any} params @returns {ProcessEvent[]} */
  #take(kind, params) {
    if (kind === 'process/output') return this.#takeOutput(params);
    this.lastSeq = params.seq;
    if (kind === 'process/exited') return this.#exit(params.seq, params);
    this.closed = true;
    this.behind = false;
    const exit = this.#exitTold === null ? [] : this.#exitRead(params.seq - 1, this.#exitTold);
    return [...exit, { type: 'closed', processId: this.processId, seq: params.seq }];
  }

  /** @param {Chunk} chunk @returns {ProcessEvent[]} */
  #takeOutput(chunk) {
    const offset = chunk.offset ?? this.endOffset;
    const known = chunk.offset !== undefined || chunk.seq === this.lastSeq + 1;
    const missing = known ? offset - this.endOffset : null;
    /** @type {ProcessEvent[]} */
    const events = [];
    if (missing !== 0) {
      this.#gapSinceCut = true;
      const range = { fromSeq: this.lastSeq + 1, toSeq: chunk.seq - 1 };
      events.push({ type: 'gap', processId: this.processId, ...range, bytes: missing });
    }
    this.lastSeq = chunk.seq;
    this.endOffset = offset + chunk.chunk.length;
    const { seq, stream, chunk: data } = chunk;
    events.push({ type: 'output', processId: this.processId, seq, stream, offset, data });
    return events;
  }

  /** @param {Chunk} chunk @param {ReadResult} result @returns {ProcessEvent[]} */
  #takeChunk(chunk, result) {
    if (chunk.seq <= this.lastSeq) return [];
    /** @type {ProcessEvent[]} */
    let events = [];
    const hole = chunk.seq - this.lastSeq - 1;
    if (hole > 0 && (chunk.offset === undefined ? hole === 1 : chunk.offset === this.endOffset)) {
      // A number without output in between can only be that of the exit.
      events = this.#exitRead(chunk.seq - 1, result);
      if (events.length > 0) this.lastSeq = chunk.seq - 1;
    }
    return [...events, ...this.#takeOutput(chunk)];
  }

  /**
   * Nothing is retained behind `lastSeq`: what has a number up to `nextSeq` is evicted, exit or close.
   *
   * @param {ReadResult} result
   * @returns {ProcessEvent[]}
   */
  #takeEnd(result) {
    /** @type {ProcessEvent[]} */
    const events = [];
    const last = result.nextSeq - 1;
    const missing = (result.evictedBytes ?? 0) - this.endOffset;
    if (missing > 0) {
      const toSeq = last - Number(result.exited) - Number(result.closed);
      events.push({ type: 'gap', processId: this.processId, fromSeq: this.lastSeq + 1, toSeq, bytes: missing });
      this.endOffset += missing;
    }
    events.push(...this.#exitRead(last - Number(result.closed), result));
    this.lastSeq = Math.max(this.lastSeq, last);
    if (result.closed && !this.closed) {
      this.closed = true;
      events.push({ type: 'closed', processId: this.processId, seq: last });
    }
    events.push(...this.#takeAhead());
    while (this.#ahead.size > 0 && !this.closed) {
      // The answer was older than these, and what is missing before them was evicted since.
      this.lastSeq = this.#aheadSeqs()[0] - 1;
      events.push(...this.#takeAhead());
    }
    return events;
  }

  /** @param {number} seq @param {ReadResult} result @returns {ProcessEvent[]} */
  #exitRead(seq, result) {
    return result.exited && result.exitCode !== null ? this.#exit(seq, result) : [];
  }

  /**
   * @param {number} seq
   * @param {{exitCode: number | null, signal?: string | null, reason?: string | null, sandboxDenied: boolean}} exit
   * @returns {ProcessEvent[]}
   */
  #exit(seq, { exitCode, signal = null, reason, sandboxDenied }) {
    if (this.exited || exitCode === null) return [];
    this.exited = true;
    const status = { exitCode, signal, reason: reason ?? (signal === null ? 'exited' : 'signaled') };
    return [{ type: 'exited', processId: this.processId, seq, status, sandboxDenied }];
  }
}
