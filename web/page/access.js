/**
 * How this page is let in: what it asks the server over HTTP. Secrets are in no URL that is sent, and kept nowhere.
 *
 * @module
 */

/** @typedef {{signedIn: boolean, watches: string | null, asksFor: 'code' | 'token'}} Standing */

/** URLs are relative to the page, so that it works behind a path prefix. @param {string} path */
function at(path) {
  return new URL(path, new URL('.', location.href)).href;
}

/** Where the WebSocket is. */
export function socketUrl() {
  return at('.').replace(/^http/, 'ws');
}

/** Whether the server lets this page in. @returns {Promise<Standing>} */
export async function standing() {
  const response = await fetch(at('web/session'), { cache: 'no-store' });
  if (!response.ok) throw new Error(`the server answers ${response.status}`);
  return response.json();
}

/**
 * Trade a secret for the cookie that lets this page in.
 *
 * @param {'Code' | 'Share' | 'Bearer'} kind
 * @param {string} secret
 * @returns {Promise<string | null>} why not; null if all is well
 */
export async function signIn(kind, secret) {
  const response = await fetch(at('web/login'), { method: 'POST', headers: { Authorization: `${kind} ${secret}` } });
  if (response.ok) return null;
  return (await response.text()) || `the server answers ${response.status}`;
}

/** Give the cookie back. */
export async function signOut() {
  await fetch(at('web/logout'), { method: 'POST' });
}

/** A link that lets another browser of the same person in, once. @returns {Promise<string>} */
export async function signInLink() {
  const { code } = await secretOf('web/code', {});
  return `${at('.')}#code=${code}`;
}

/**
 * A link that lets somebody watch a session, read-only, and opens one of its processes.
 *
 * @param {string} observeId
 * @param {string} processId
 */
export async function shareLink(observeId, processId) {
  const { share } = await secretOf('web/share', { 'X-Observe-Id': observeId });
  return `${at('.')}#share=${share}&process=${encodeURIComponent(processId)}`;
}

/** @param {string} path @param {Record<string, string>} headers */
async function secretOf(path, headers) {
  const response = await fetch(at(path), { method: 'POST', headers });
  if (!response.ok) throw new Error((await response.text()) || `the server answers ${response.status}`);
  return response.json();
}

/** What the fragment of the page's URL brought; it is taken out of the address bar and the history. */
export function takeFragment() {
  const fragment = new URLSearchParams(location.hash.slice(1));
  if (location.hash !== '') history.replaceState(null, '', location.pathname + location.search);
  return { code: fragment.get('code'), share: fragment.get('share'), process: fragment.get('process') };
}
