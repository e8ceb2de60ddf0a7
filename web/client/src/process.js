/**
 * The handle of a process on a server.
 *
 * @module
 */

import { OutputGap, StdinClosed, TransportDisconnected } from './errors.js';
import { randomId } from './ids.js';
import { EVERYTHING } from './inbox.js';

/** @typedef {import('./demultiplexer.js').Entry} Entry */
/** @typedef {import('./inbox.js').QueueName} QueueName */
/** @typedef {import('./protocol.js').ExitStatus} ExitStatus */
/** @typedef {import('./protocol.js').Position} Position */
/** @typedef {import('./protocol.js').ProcessEvent} ProcessEvent */
/** @typedef {import('./session.js').Session} Session */

/** Bytes of input in one request. */
const PIECE = 256 << 10;
/** Bytes of input that may be unanswered; more wait here. */
const WINDOW = 1 << 20;

const utf8 = new TextEncoder();

/**
 * A process on a server. Made by `start`, `attach` and `watch` of a client.
 *
 * Its output waits here until it is taken: up to 4 MiB, then the server is asked to hold the process. So who only calls
 * `wait`, and leaves output where it is, may wait for ever, as with pipes.
 *
 * A cut connection is resumed behind the back of all this. If that fails the events end with one of type `failed`, and
 * everything else throws TransportDisconnected.
 */
export class Process {
  /** The output that `events` has told of so far: where to go on, `attach(id, {after})`, in another page. @type {Position} */
  position;
  #session;
  #entry;
  #inbox;
  /** @type {Record<string, ReadableStream<Uint8Array>>} */
  #streams = {};
  #writing = Promise.resolve();
  #writePrefix = randomId();
  #writes = 0;
  /** @type {Set<{size: number, promise: Promise<unknown>}>} */
  #unanswered = new Set();

  /**
   * Not for users: see the class.
   *
   * @param {Session} session
   * @param {Entry} entry
   * @param {{argv?: string[], tty?: boolean}} facts
   */
  constructor(session, entry, { argv, tty }) {
    /** The id under which this client hears of it. */
    this.id = entry.processId;
    /** Program and arguments; undefined for a process that is watched by its `observeId`. */
    this.argv = argv;
    /** Whether it is on a terminal; undefined as well. */
    this.tty = tty;
    this.#session = session;
    this.#entry = entry;
    this.#inbox = entry.inbox;
    this.position = { seq: entry.feed.lastSeq, offset: entry.feed.endOffset };
  }

  /** How it ended, as `wait` returns it; null before that is known. @returns {ExitStatus | null} */
  get exitStatus() {
    return this.#inbox.exit?.status ?? null;
  }

  /** Bytes of its output that wait here to be taken. */
  get waitingBytes() {
    return this.#inbox.size;
  }

  // -- output ----------------------------------------------------------------------------------------------------

  /**
   * All that happens to it, in order: output, gaps, the exit, and at the end `closed` or `failed`. Each event is told
   * once, whoever asks.
   *
   * @returns {AsyncGenerator<ProcessEvent, void, void>}
   */
  async *events() {
    for (;;) {
      const event = await this.#inbox.get(EVERYTHING);
      if (event === null) return;
      this.#move(event);
      yield event;
    }
  }

  /**
   * The events that wait now, without waiting for any.
   *
   * @param {number} [maxBytes] bytes of output from which no more is taken
   * @returns {ProcessEvent[]}
   */
  takeEvents(maxBytes = Infinity) {
    const events = [];
    for (let bytes = 0; bytes < maxBytes; ) {
      const event = this.#inbox.take(EVERYTHING);
      if (event === null) break;
      this.#move(event);
      events.push(event);
      if (event.type === 'output') bytes += event.data.length;
    }
    return events;
  }

  [Symbol.asyncIterator]() {
    return this.events();
  }

  /** Standard output; all output, for a process on a terminal. A gap is an error: OutputGap. */
  get stdout() {
    return this.#stream('stdout', ['stdout', 'pty']);
  }

  /** Standard error; nothing, for a process on a terminal. */
  get stderr() {
    return this.#stream('stderr', ['stderr']);
  }

  /** Wait until the process has exited. Output may still come afterwards. @returns {Promise<ExitStatus>} */
  async wait() {
    while (this.#inbox.exit === null) {
      const { end } = this.#inbox;
      if (end?.type === 'failed') throw new TransportDisconnected(end.reason);
      if (end !== null) throw new TransportDisconnected(`how process ${this.id} ended is not known`);
      await this.#inbox.change();
    }
    return this.#inbox.exit.status;
  }

  /** What its terminal shows. @returns {Promise<import('./protocol.js').Screen>} */
  screen() {
    return this.#call('process/screen', {}, this.#watched);
  }

  /** The beginning and the end of its output. @returns {Promise<import('./protocol.js').Snapshot>} */
  snapshot() {
    return this.#call('process/snapshot', {}, this.#watched);
  }

  // -- input -----------------------------------------------------------------------------------------------------

  /**
   * Write to its standard input; resolves when the server has all of it, which waits for a process that does not read.
   *
   * Writes are done in the order of their calls. What a cut leaves unanswered is sent again, and arrives once.
   *
   * @param {string | Uint8Array} data
   * @throws {StdinClosed} if standard input is closed, was never open, or the process has ended
   */
  async write(data) {
    const bytes = typeof data === 'string' ? utf8.encode(data) : data;
    /** @type {Promise<unknown>[]} */
    const answers = [];
    const sent = this.#writing.then(async () => {
      for (let start = 0; start < bytes.length; start += PIECE) {
        const { promise } = await this.#send(bytes.subarray(start, start + PIECE));
        answers.push(promise);
      }
    });
    this.#writing = sent.catch(() => {});
    await sent;
    await Promise.all(answers);
  }

  /** The end of the input, behind all writes before it; on a terminal what ^D is at this moment. */
  async closeStdin() {
    const sent = this.#writing.then(() => {
      return { call: this.#session.post('process/closeStdin', this.#target(), this.tty === false) };
    });
    this.#writing = sent.then(() => {}, () => {});
    const { call } = await sent;
    this.#checkKnown(await call.promise);
  }

  // -- control ---------------------------------------------------------------------------------------------------

  /** A new size for its terminal. @param {number} rows @param {number} cols @returns {Promise<void>} */
  async resize(rows, cols) {
    await this.#call('process/resize', { rows, cols });
  }

  /** Send a signal to its process group: `interrupt`, or a name such as `SIGTERM`. @param {string} signal */
  async signal(signal) {
    await this.#call('process/signal', { signal });
  }

  /**
   * SIGTERM, and after `graceMs` SIGKILL to what is left of it and its descendants. Whether it was running.
   *
   * @param {number} [graceMs]
   * @returns {Promise<boolean>}
   */
  async terminate(graceMs = 5000) {
    return (await this.#call('process/terminate', { mode: 'graceful', timeoutMs: graceMs })).running;
  }

  /** SIGKILL to it and its descendants. Whether it was running. @returns {Promise<boolean>} */
  async kill() {
    return (await this.#call('process/terminate', {})).running;
  }

  /** Hear no more of it. A watched process is watched no longer; one's own goes on, and can be attached again. */
  async detach() {
    this.#entry.lose('it was detached');
    if (this.#entry.foreign !== null && this.#session.connected) await this.#call('process/detach', {}, { processId: this.id });
  }

  // -- how -------------------------------------------------------------------------------------------------------

  /** @param {ProcessEvent} event */
  #move(event) {
    if (event.type === 'output') this.position = { seq: event.seq, offset: event.offset + event.data.length };
    else if (event.type === 'gap') this.position = { seq: event.toSeq, offset: this.position.offset + (event.bytes ?? 0) };
    else if (event.type !== 'failed') this.position = { seq: event.seq, offset: this.position.offset };
  }

  /** Under which name it is asked for what a watcher may ask, too. */
  get #watched() {
    return { processId: this.id };
  }

  /** Under which name it is changed. With an `observeId` alone the server answers `notOwner`. */
  #target() {
    const { foreign } = this.#entry;
    if (foreign?.sessionId === undefined) return { processId: this.id };
    return { processId: foreign.processId, sessionId: foreign.sessionId };
  }

  /** @param {string} method @param {Record<string, unknown>} params @param {Record<string, unknown>} [target] */
  async #call(method, params, target = this.#target()) {
    return this.#session.post(method, { ...target, ...params }).promise;
  }

  /**
   * Send a piece when there is room for it. The answer is wrapped, so that waiting for room does not wait for it.
   *
   * @param {Uint8Array} piece
   */
  async #send(piece) {
    while (this.#unanswered.size > 0 && this.#unansweredBytes() + piece.length > WINDOW) {
      const [{ promise: oldest }] = this.#unanswered;
      await oldest.catch(() => {});
    }
    this.#writes += 1;
    const params = { ...this.#target(), chunk: piece, writeId: `${this.#writePrefix}-${this.#writes}` };
    const promise = this.#session.post('process/write', params).promise.then((result) => this.#check(result));
    const waiting = { size: piece.length, promise };
    this.#unanswered.add(waiting);
    promise.catch(() => {}).then(() => this.#unanswered.delete(waiting));
    return { promise };
  }

  #unansweredBytes() {
    let bytes = 0;
    for (const { size } of this.#unanswered) bytes += size;
    return bytes;
  }

  /** @param {import('./protocol.js').WriteResult} result */
  #check(result) {
    this.#checkKnown(result);
    if (result.status !== 'accepted') throw new StdinClosed(`standard input of process ${this.id} is closed`);
  }

  /** @param {import('./protocol.js').WriteResult} result */
  #checkKnown({ status }) {
    if (status !== 'unknownProcess') return;
    this.#entry.lose('the server does not know the process any more');
    throw new StdinClosed(`process ${this.id} has ended, and the server has forgotten it`);
  }

  /** @param {string} name @param {QueueName[]} queues */
  #stream(name, queues) {
    this.#streams[name] ??= new ReadableStream(
      { pull: (controller) => this.#pull(controller, queues) },
      { highWaterMark: 0 },
    );
    return this.#streams[name];
  }

  /** @param {ReadableStreamDefaultController<Uint8Array>} controller @param {QueueName[]} queues */
  async #pull(controller, queues) {
    const event = await this.#inbox.get(queues);
    if (event?.type === 'output') {
      controller.enqueue(event.data);
    } else if (event?.type === 'gap') {
      controller.error(new OutputGap(this.id, event.fromSeq, event.toSeq, event.bytes));
    } else if (this.#inbox.end?.type === 'failed') {
      controller.error(new TransportDisconnected(this.#inbox.end.reason));
    } else {
      controller.close();
    }
  }
}
