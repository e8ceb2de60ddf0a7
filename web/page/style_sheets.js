/**
 * Styles that the terminal makes, as constructed sheets: the Content-Security-Policy lets no inline style in.
 *
 * xterm.js writes `<style>` elements and one `style` attribute. Both are turned into what the policy allows to scripts,
 * and to nothing that is parsed: CSSStyleSheet objects and the CSSOM.
 *
 * @module
 */

/** Have `<style>` elements and `style` attributes made by scripts work under `style-src 'self'`. */
export function allowScriptedStyles() {
  const create = document.createElement.bind(document);
  document.createElement = /** @type {any} */ (
    (/** @type {string} */ name, /** @type {any} */ options) => {
      return name === 'style' ? sheetElement(create('template')) : create(name, options);
    }
  );
  const set = Element.prototype.setAttribute;
  Element.prototype.setAttribute = function setAttribute(name, value) {
    if (name === 'style' && this instanceof HTMLElement) this.style.cssText = value;
    else set.call(this, name, value);
  };
  const get = Element.prototype.getAttribute;
  Element.prototype.getAttribute = function getAttribute(name) {
    return name === 'style' && this instanceof HTMLElement ? this.style.cssText : get.call(this, name);
  };
}

/** An element that looks like `<style>` to whoever sets its text, and is none to the browser. @param {HTMLElement} element */
function sheetElement(element) {
  const sheet = new CSSStyleSheet();
  Object.defineProperty(element, 'textContent', {
    get: () => '',
    set(text) {
      sheet.replaceSync(text);
      if (!document.adoptedStyleSheets.includes(sheet)) document.adoptedStyleSheets.push(sheet);
    },
  });
  const remove = element.remove.bind(element);
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((each) => each !== sheet);
    remove();
  };
  return element;
}
