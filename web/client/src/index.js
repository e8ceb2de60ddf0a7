/**
 * Client of exec-server for browsers and Node 22.
 *
 * @module
 */

/** @typedef {import('./client.js').ConnectOptions} ConnectOptions */
/** @typedef {import('./start.js').StartOptions} StartOptions */
/** @typedef {import('./protocol.js').Chunk} Chunk */
/** @typedef {import('./protocol.js').EnvironmentInfo} EnvironmentInfo */
/** @typedef {import('./protocol.js').EnvPolicy} EnvPolicy */
/** @typedef {import('./protocol.js').ExitStatus} ExitStatus */
/** @typedef {import('./protocol.js').Methods} Methods */
/** @typedef {import('./protocol.js').Notifications} Notifications */
/** @typedef {import('./protocol.js').Position} Position */
/** @typedef {import('./protocol.js').ProcessEntry} ProcessEntry */
/** @typedef {import('./protocol.js').ProcessEvent} ProcessEvent */
/** @typedef {import('./protocol.js').Screen} Screen */
/** @typedef {import('./protocol.js').Snapshot} Snapshot */

export { ExecServerClient, connect } from './client.js';
export {
  ConnectFailed,
  DecodeError,
  ExecServerError,
  InternalError,
  InvalidParams,
  InvalidRequest,
  MethodNotFound,
  NotFound,
  OutputGap,
  ProcessExists,
  SessionAttached,
  SpawnError,
  StdinClosed,
  TransportDisconnected,
  UnknownProcess,
} from './errors.js';
export { Process } from './process.js';
