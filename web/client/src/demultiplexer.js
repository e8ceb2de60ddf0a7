/**
 * Which process hears what: notifications of a session to the inboxes of its processes, without a break over cuts.
 *
 * @module
 */

import { InvalidRequest, TransportDisconnected, UnknownProcess } from './errors.js';
import { Feed } from './feed.js';
import { BOUND, HOLD_FROM, Inbox, RELEASE_BELOW } from './inbox.js';

/** @typedef {import('./calls.js').Call} Call */
/** @typedef {import('./protocol.js').Position} Position */
/** @typedef {import('./protocol.js').ProcessEvent} ProcessEvent */
/** @typedef {import('./session.js').Session} Session */

/**
 * A process of another session: one of the two ids is there.
 *
 * @typedef {object} Foreign
 * @property {string} processId its id in its own session
 * @property {string} [sessionId]
 * @property {string} [observeId]
 */

/**
 * Bytes of output that are asked for at a time when something was missed: little at first, twice as much each time,
 * since an answer that a cut tears is lost as a whole, and a connection that breaks often must get on, too.
 */
const READ_FIRST = 64 << 10;
const READ_MOST = 1 << 20;

/** One process that somebody has a handle of: its feed and inbox, and what it needs of the session. */
export class Entry {
  /** The request that starts it; null for a process that was there before. @type {Call | null} */
  start = null;
  #demultiplexer;
  #held = false;
  /** @type {Call | null} */
  #reading = null;
  #readBytes = READ_FIRST;

  /**
   * @param {string} processId
   * @param {Demultiplexer} demultiplexer
   * @param {Foreign | null} foreign
   * @param {Position | undefined} after
   */
  constructor(processId, demultiplexer, foreign, after) {
    this.processId = processId;
    this.foreign = foreign;
    this.feed = new Feed(processId, after);
    this.inbox = new Inbox(() => this.#judgeSize());
    this.#demultiplexer = demultiplexer;
  }

  /** Whether its start is not answered yet. */
  get #starting() {
    return this.start !== null && !this.start.done;
  }

  /** New events, in their order. None is taken after the last. @param {ProcessEvent[]} events */
  put(events) {
    if (this.inbox.end !== null) return;
    this.inbox.put(events);
    if (this.inbox.end !== null) this.#demultiplexer.remove(this);
  }

  /**
   * The server tells something of it.
   *
   * @param {import('./feed.js').Kind} kind
   * @param {any} params
   */
  notified(kind, params) {
    if (this.inbox.size >= BOUND) this.feed.miss();
    else this.put(this.feed.notified(kind, params));
    this.catchUp();
  }

  /** There is no connection: nobody holds the process, and what it prints is not told. */
  cut() {
    this.#held = false;
    if (this.#reading !== null) this.#demultiplexer.session.drop(this.#reading);
    this.#reading = null;
    if (!this.#starting || this.start?.sent) this.feed.miss();
  }

  /** There is one again. */
  resumed() {
    this.#readBytes = READ_FIRST;
    if (this.foreign !== null) {
      this.attach().catch((error) => this.#refused(error));
      return;
    }
    if (this.inbox.size >= RELEASE_BELOW) this.#hold(true);
    this.catchUp();
  }

  /** Have the server tell of a process of another session. Rejects with the ExecServerError of the server. */
  async attach() {
    const { processId, ...ids } = /** @type {Foreign} */ (this.foreign);
    const { lastSeq, endOffset } = this.feed;
    const after = lastSeq === 0 ? {} : { afterSeq: lastSeq, afterOffset: endOffset };
    this.feed.attached();
    await this.#demultiplexer.session.post('process/attach', { processId, ...ids, ...after, as: this.processId }).promise;
  }

  /** Read what is missing, unless that is under way, or there is no room. */
  catchUp() {
    if (!this.feed.behind || this.#reading !== null || this.inbox.size >= RELEASE_BELOW) return;
    const { session } = this.#demultiplexer;
    if (!session.connected) return;
    const params = { processId: this.processId, afterSeq: this.feed.lastSeq, maxBytes: this.#readBytes };
    const reading = session.post('process/read', params);
    this.#reading = reading;
    this.#readBytes = Math.min(this.#readBytes * 2, READ_MOST);
    reading.promise.then(
      (result) => {
        if (this.#reading !== reading) return;
        this.#reading = null;
        if (this.#starting) this.start?.succeed({ processId: this.processId });
        this.put(this.feed.read(result));
        this.catchUp();
      },
      (error) => {
        if (this.#reading !== reading) return;
        this.#reading = null;
        this.#refused(error);
      },
    );
  }

  /** @param {unknown} error */
  #refused(error) {
    if (error instanceof TransportDisconnected) return; // everybody is told
    if (error instanceof UnknownProcess) this.lose('the server does not know the process any more');
    else this.lose(error instanceof Error ? error.message : String(error));
  }

  /** Nothing more will be heard of it. @param {string} reason */
  lose(reason) {
    if (this.#starting) {
      const text = 'the connection was cut before the process was started; nothing runs';
      this.start?.fail(new TransportDisconnected(text));
    }
    this.put([{ type: 'failed', processId: this.processId, reason }]);
  }

  #judgeSize() {
    if (!this.#held && this.inbox.size >= HOLD_FROM) this.#hold(true);
    else if (this.#held && this.inbox.size < RELEASE_BELOW) this.#hold(false);
    this.catchUp();
  }

  /** Ask the server to hold the process, or to let it go on. @param {boolean} paused */
  #hold(paused) {
    const { session } = this.#demultiplexer;
    if (this.foreign !== null || this.feed.closed || !session.connected || !session.has('flow')) return;
    this.#held = paused;
    session.post('process/flow', { processId: this.processId, paused });
  }
}

/** The processes of a session that are heard of here; the `Listener` of the session. */
export class Demultiplexer {
  /** @type {Map<string, Entry>} */
  #entries = new Map();

  /**
   * @param {Session} session
   * @param {(name: 'disconnected' | 'reconnected' | 'lost' | 'notification', detail: unknown) => void} tell
   */
  constructor(session, tell) {
    this.session = session;
    this.tell = tell;
  }

  /**
   * Hear of a process from now on, until its last event.
   *
   * @param {string} processId
   * @param {Foreign | null} [foreign]
   * @param {Position} [after]
   * @throws {InvalidRequest} if it is heard of already
   */
  add(processId, foreign = null, after = undefined) {
    if (this.#entries.has(processId)) {
      throw new InvalidRequest(`there is a handle of process ${processId} already`, -32600, { kind: 'processExists' });
    }
    const entry = new Entry(processId, this, foreign, after);
    this.#entries.set(processId, entry);
    return entry;
  }

  /** Hear no more of a process. @param {Entry} entry */
  remove(entry) {
    if (this.#entries.get(entry.processId) === entry) this.#entries.delete(entry.processId);
  }

  /** @param {string} method @param {any} params */
  notified(method, params) {
    switch (method) {
      case 'process/output':
      case 'process/exited':
      case 'process/closed':
      case 'process/gap':
        this.#entries.get(params.processId)?.notified(method, params);
        break;
      default:
        this.tell('notification', { method, params });
    }
  }

  /** @param {string} reason */
  cut(reason) {
    for (const entry of this.#entries.values()) entry.cut();
    this.tell('disconnected', { reason });
  }

  resumed() {
    for (const entry of [...this.#entries.values()]) entry.resumed();
    this.tell('reconnected', {});
  }

  /** @param {string} reason */
  lost(reason) {
    for (const entry of [...this.#entries.values()]) {
      if (entry.start !== null && !entry.start.done) entry.start.fail(new TransportDisconnected(reason));
      entry.put([{ type: 'failed', processId: entry.processId, reason: new TransportDisconnected(reason).message }]);
    }
    this.tell('lost', { reason });
  }
}
