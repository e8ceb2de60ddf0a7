/**
 * Requests that are not answered yet, over any number of connections.
 *
 * A connection may end while a request is under way. What may be repeated is sent again on the next one: because it
 * changes nothing, or nothing more the second time. A write carries a `writeId` for that. Nobody can tell whether any
 * other request was carried out, so it is not repeated, and whoever waits is told.
 *
 * @module
 */

import { TransportDisconnected } from './errors.js';

/** Methods that can be sent again without doing anything twice. */
const REPEATABLE = new Set([
  'initialize',
  'environment/info',
  'environment/status',
  'environmentConfig/read',
  'capabilities/discoverV2',
  'fs/canonicalize',
  'fs/getMetadata',
  'fs/readDirectory',
  'fs/readFile',
  'fs/walk',
  'process/list',
  'process/read',
  'process/resize',
  'process/screen',
  'process/snapshot',
  'process/terminate',
  'process/wait',
]);

/**
 * Whether a request that may have been carried out can be sent again.
 *
 * @param {string} method
 * @param {Record<string, any>} params
 */
export function mayRepeat(method, params) {
  return method === 'process/write' ? params.writeId !== undefined : REPEATABLE.has(method);
}

/** One request, and the promise of its result. */
export class Call {
  /** It may have reached the server. */
  sent = false;
  done = false;

  /**
   * @param {number} id
   * @param {string} method
   * @param {Record<string, any>} params
   * @param {boolean} repeat whether it may be sent again after a cut
   */
  constructor(id, method, params, repeat) {
    this.id = id;
    this.method = method;
    this.params = params;
    this.repeat = repeat;
    /** @type {Promise<any>} */
    this.promise = new Promise((resolve, reject) => {
      this.resolveWith = resolve;
      this.rejectWith = reject;
    });
    this.promise.catch(() => {}); // seen here, for those that nobody awaits
  }

  /** @param {unknown} result */
  succeed(result) {
    this.done = true;
    this.resolveWith?.(result);
  }

  /** @param {Error} error */
  fail(error) {
    this.done = true;
    this.rejectWith?.(error);
  }
}

/** All unanswered requests of a session, in the order in which they were made. */
export class Calls {
  #lastId = 0;
  /** @type {Map<number, Call>} */
  #open = new Map();

  [Symbol.iterator]() {
    return [...this.#open.values()][Symbol.iterator]();
  }

  /**
   * @param {string} method
   * @param {Record<string, any>} params
   * @param {boolean} [repeat] whether this one may be sent again, although others of its kind may not
   */
  add(method, params, repeat = false) {
    this.#lastId += 1;
    const call = new Call(this.#lastId, method, params, repeat || mayRepeat(method, params));
    this.#open.set(call.id, call);
    return call;
  }

  /** The method that an answer of this id answers. @param {unknown} id */
  methodOf(id) {
    return this.#open.get(/** @type {number} */ (id))?.method;
  }

  /** The server has answered: the call is no longer open. @param {unknown} id */
  take(id) {
    const call = this.#open.get(/** @type {number} */ (id));
    if (call !== undefined) this.#open.delete(call.id);
    return call;
  }

  /** Wait no longer for an answer. @param {Call} call @param {Error} error */
  drop(call, error) {
    this.#open.delete(call.id);
    if (!call.done) call.fail(error);
  }

  /** No answer will ever come. @param {Error} error */
  failAll(error) {
    for (const call of this) this.drop(call, error);
  }

  /**
   * Drop what must not be sent again: starts, which are returned, and all else, which is failed with `reason`. What
   * stays is to be sent on the next connection.
   *
   * @param {string} reason
   * @returns {Call[]}
   */
  loseConnection(reason) {
    /** @type {Call[]} */
    const starts = [];
    for (const call of this) {
      if (!call.sent || call.repeat) {
        call.sent = false;
      } else if (call.method === 'process/start') {
        this.#open.delete(call.id);
        starts.push(call);
      } else {
        const text = `${reason}; it is not known whether ${call.method} was carried out`;
        this.drop(call, new TransportDisconnected(text));
      }
    }
    return starts;
  }
}
