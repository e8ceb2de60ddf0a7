/**
 * What has come of one process and was not taken yet: one queue for each stream, with one bound for all of them.
 *
 * Somebody who takes stdout alone, and somebody who takes everything in order, take from the same inbox; each event is
 * taken once. A gap belongs to every stream, because nobody can tell which it was in; who takes everything in order sees
 * it once.
 *
 * @module
 */

/** @typedef {import('./protocol.js').ProcessEvent} ProcessEvent */
/** @typedef {'stdout' | 'stderr' | 'pty' | 'state'} QueueName */

/** Bytes that wait here from which the server is asked to hold the process. */
export const HOLD_FROM = 4 << 20;
/** Bytes below which it is asked to go on. */
export const RELEASE_BELOW = 1 << 20;
/** Bytes from which nothing more is taken: where the server cannot hold a process, or does not. */
export const BOUND = 16 << 20;
/** Bytes that a piece of output counts beside its own. */
const EVENT_COST = 256;

/** @type {readonly QueueName[]} */
export const EVERYTHING = ['stdout', 'stderr', 'pty', 'state'];

/** A queue from which many can be taken without moving the rest each time. */
class Queue {
  /** @type {{number: number, event: ProcessEvent}[]} */
  #items = [];
  #first = 0;

  get head() {
    return this.#items[this.#first];
  }

  /** @param {number} number @param {ProcessEvent} event */
  push(number, event) {
    this.#items.push({ number, event });
  }

  shift() {
    this.#first += 1;
    if (this.#first > 1024 && this.#first * 2 > this.#items.length) {
      this.#items.splice(0, this.#first);
      this.#first = 0;
    }
    if (this.#first === this.#items.length) {
      this.#items = [];
      this.#first = 0;
    } else {
      this.#items[this.#first - 1] = /** @type {any} */ (undefined); // its bytes may go
    }
  }
}

/** The events of one process that wait to be taken. */
export class Inbox {
  /** Bytes that wait. */
  size = 0;
  /** The last event, once it has come; nothing is put after it. @type {ProcessEvent | null} */
  end = null;
  /** @type {import('./protocol.js').ExitedEvent | null} */
  exit = null;
  #count = 0;
  /** @type {Record<QueueName, Queue>} */
  #queues = { stdout: new Queue(), stderr: new Queue(), pty: new Queue(), state: new Queue() };
  /** @type {(() => void)[]} */
  #waiters = [];
  #sizeChanged;

  /** @param {() => void} [sizeChanged] called when `size` has grown or shrunk */
  constructor(sizeChanged = () => {}) {
    this.#sizeChanged = sizeChanged;
  }

  /** Append events and wake whoever waits for one. @param {ProcessEvent[]} events */
  put(events) {
    if (events.length === 0 || this.end !== null) return;
    for (const event of events) {
      this.#count += 1;
      for (const name of queuesOf(event)) this.#queues[name].push(this.#count, event);
      this.size += cost(event);
      if (event.type === 'exited') this.exit = event;
      if (event.type === 'closed' || event.type === 'failed') {
        this.end = event;
        break;
      }
    }
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const wake of waiters) wake();
    this.#sizeChanged();
  }

  /**
   * The oldest event that waits in these queues; null if there is none now.
   *
   * @param {readonly QueueName[]} names
   * @returns {ProcessEvent | null}
   */
  take(names) {
    let oldest = null;
    for (const name of names) {
      const head = this.#queues[name].head;
      if (head !== undefined && (oldest === null || head.number < oldest.number)) oldest = head;
    }
    if (oldest === null) return null;
    for (const name of names) {
      const queue = this.#queues[name];
      if (queue.head?.number === oldest.number) queue.shift();
    }
    this.size -= cost(oldest.event);
    this.#sizeChanged();
    return oldest.event;
  }

  /**
   * The oldest event in these queues, waited for; null once the last event has come and none is left there.
   *
   * @param {readonly QueueName[]} names
   * @returns {Promise<ProcessEvent | null>}
   */
  async get(names) {
    for (;;) {
      const event = this.take(names);
      if (event !== null || this.end !== null) return event;
      await this.change();
    }
  }

  /** Wait until something is put. @returns {Promise<void>} */
  change() {
    return new Promise((resolve) => this.#waiters.push(resolve));
  }
}

/** @param {ProcessEvent} event @returns {readonly QueueName[]} */
function queuesOf(event) {
  if (event.type === 'output') return [event.stream];
  return event.type === 'gap' ? EVERYTHING : ['state'];
}

/** @param {ProcessEvent} event */
function cost(event) {
  return event.type === 'output' ? EVENT_COST + event.data.length : 0;
}
