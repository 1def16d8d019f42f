// Reads one document for observe.py: what can be acted on, what is at a point, what scrolls, what a field holds.
// Called as (request) with [operation, ...arguments]; changes nothing, except `choose`, which picks an option.
// Limited to the viewport and to LIMIT visited nodes, so that a page of 10,000 nodes costs milliseconds.
(request) => {
  const LIMIT = 8000, ROWS = 300, NAME = 120;
  const SKIP = new Set(['script', 'style', 'noscript', 'template', 'head', 'option', 'optgroup', 'datalist', 'iframe', 'frame']);
  const STRONG = 'a[href],button,input:not([type=hidden]),select,textarea,summary,[role=button],[role=link],[role=tab],' +
    '[role=checkbox],[role=radio],[role=switch],[role=menuitem],[role=option],[role=textbox],[role=combobox],[role=searchbox],' +
    '[contenteditable=""],[contenteditable=true]';
  const ROLES = {
    link: 'link', button: 'button', tab: 'button', menuitem: 'button', option: 'button', treeitem: 'button',
    checkbox: 'checkbox', radio: 'checkbox', switch: 'checkbox', menuitemcheckbox: 'checkbox', menuitemradio: 'checkbox',
    textbox: 'input', searchbox: 'input', combobox: 'input', spinbutton: 'input', slider: 'input',
  };
  const clean = (text) => (text || '').replace(/\s+/g, ' ').trim().slice(0, NAME);
  const parentOf = (node) => node.parentElement || (node.getRootNode && node.getRootNode().host) || null;

  const strongRole = (el) => {
    const tag = el.localName, type = (el.getAttribute('type') || '').toLowerCase();
    if (tag === 'select') return 'select';
    if (tag === 'textarea') return 'input';
    if (tag === 'input') {
      if (type === 'hidden') return '';
      if (type === 'checkbox' || type === 'radio') return 'checkbox';
      return ['button', 'submit', 'reset', 'image'].includes(type) ? 'button' : 'input';
    }
    if (tag === 'button' || tag === 'summary') return 'button';
    if ((tag === 'a' || tag === 'area') && el.hasAttribute('href')) return 'link';
    const editable = el.getAttribute('contenteditable');
    if (editable === '' || editable === 'true') return 'input';
    return ROLES[(el.getAttribute('role') || '').toLowerCase()] || '';
  };
  // Elements that only behave like a control: a handler in the markup, a place in the tab order, a hand for a pointer.
  const weakRole = (el) => {
    if (el === document.body || el === document.documentElement || el.localName === 'label') return '';
    if (el.hasAttribute('onclick') || (el.hasAttribute('tabindex') && el.tabIndex >= 0)) return el.localName === 'a' ? 'link' : 'button';
    if (getComputedStyle(el).cursor !== 'pointer') return '';
    const parent = parentOf(el);
    return parent && getComputedStyle(parent).cursor === 'pointer' ? '' : el.localName === 'a' ? 'link' : 'button';
  };

  const wordsOf = (node) => {
    let text = '';
    for (const child of node.childNodes) {
      if (child.nodeType === 3) text += child.data;
      else if (child.nodeType === 1 && !/^(select|input|textarea|script|style)$/.test(child.localName)) text += ' ' + wordsOf(child);
    }
    return text;
  };
  const besides = (el) => {
    const side = (name) => {
      const node = el[name];
      return node && (node.nodeType === 3 || (node.nodeType === 1 && !strongRole(node))) ? clean(node.textContent) : '';
    };
    return el.type === 'checkbox' || el.type === 'radio'
      ? side('nextSibling') || side('previousSibling') : side('previousSibling') || side('nextSibling');
  };
  const nameOf = (el, role) => {
    const aria = clean(el.getAttribute('aria-label'));
    if (aria) return aria;
    const ids = el.getAttribute('aria-labelledby');
    if (ids) {
      const root = el.getRootNode();
      const text = clean(ids.split(/\s+/).map((id) => (root.getElementById ? root.getElementById(id) : null)?.textContent || '').join(' '));
      if (text) return text;
    }
    if (el.localName === 'input' && role === 'button') return clean(el.value || el.alt || el.title || el.type);
    if (['input', 'select', 'textarea'].includes(el.localName)) {
      const label = el.labels && el.labels.length ? clean(wordsOf(el.labels[0])) : '';
      const first = el.localName === 'select' && el.options.length ? clean(el.options[0].text) : '';
      return label || clean(el.placeholder) || clean(el.title) || besides(el) || first || clean(el.name);
    }
    const text = clean(el.innerText === undefined ? el.textContent : el.innerText);
    if (text) return text;
    const picture = el.matches('img,[alt]') ? el : el.querySelector('img[alt],[aria-label],svg title');
    return clean(picture && (picture.alt || picture.getAttribute('aria-label') || picture.textContent)) || clean(el.title);
  };
  const valueOf = (el) => {
    if (el.localName === 'select') return [...el.selectedOptions].map((option) => clean(option.text)).join(', ');
    if (el.type === 'checkbox' || el.type === 'radio') return el.checked ? 'checked' : '';
    if (el.type === 'password') return '\u2022'.repeat(el.value.length);
    if (el.localName === 'input' || el.localName === 'textarea') return strongRole(el) === 'button' ? '' : el.value.slice(0, 2000);
    if (el.isContentEditable) return (el.innerText || '').slice(0, 2000);
    return el.getAttribute('aria-checked') === 'true' ? 'checked' : '';
  };
  const selectorOf = (el) => {
    const parts = [];
    for (let node = el; node && node !== document.documentElement && parts.length < 12; node = parentOf(node)) {
      const root = node.getRootNode();
      if (/^[A-Za-z][\w-]*$/.test(node.id || '') && root.querySelectorAll('#' + node.id).length === 1) {
        parts.unshift('#' + node.id);
        break;
      }
      let index = 1;
      for (let sibling = node.previousElementSibling; sibling; sibling = sibling.previousElementSibling)
        if (sibling.localName === node.localName) index++;
      parts.unshift(`${node.localName}:nth-of-type(${index})`);
    }
    return parts.join('>');
  };

  const at = (x, y) => {
    let el = document.elementFromPoint(x, y);
    while (el && el.shadowRoot) {
      const inner = el.shadowRoot.elementFromPoint(x, y);
      if (!inner || inner === el) break;
      el = inner;
    }
    return el;
  };
  const within = (outer, inner) => {
    for (let node = inner; node; node = parentOf(node)) if (node === outer) return true;
    return false;
  };
  const coveredAt = (el, box) => {
    const x = (Math.max(box.left, 0) + Math.min(box.right, innerWidth)) / 2;
    const y = (Math.max(box.top, 0) + Math.min(box.bottom, innerHeight)) / 2;
    const top = at(x, y);
    if (!top || within(el, top) || within(top, el)) return false;
    const label = top.closest('label');
    return !(label && label.control === el);
  };
  const rowOf = (el, role, name, box) => ({
    role, name, value: role === 'text' ? '' : valueOf(el), selector: selectorOf(el), covered: coveredAt(el, box),
    box: [box.left, box.top, box.width, box.height],
  });
  const shows = (box) => box.width > 0 && box.height > 0 && box.right > 0 && box.bottom > 0 && box.left < innerWidth && box.top < innerHeight;

  const list = () => {
    const rows = [], told = new WeakSet();
    let visited = 0;
    const inlineText = (el) => {
      let text = '';
      for (const child of el.childNodes) {
        if (child.nodeType === 3) text += child.data;
        else if (child.nodeType === 1 && !SKIP.has(child.localName)) {
          const plain = !child.matches(STRONG) && !child.querySelector(STRONG) && !weakRole(child);
          if (child.localName === 'br') text += ' ';
          else if (plain && getComputedStyle(child).display.startsWith('inline')) { text += child.textContent; told.add(child); }
        }
      }
      return clean(text);
    };
    const textBox = (el, box) => {
      const range = document.createRange();
      range.selectNodeContents(el);
      const tight = range.getBoundingClientRect();
      return tight.width > 0 && tight.width < box.width * 0.6 ? tight : box;
    };
    const visit = (root) => {
      for (const el of root.children) {
        if (++visited > LIMIT || rows.length >= ROWS) return;
        if (SKIP.has(el.localName) || told.has(el)) continue;
        const box = el.getBoundingClientRect(), visible = shows(box);
        if (visible && getComputedStyle(el).visibility === 'visible') {
          const strong = strongRole(el), role = strong || weakRole(el);
          if (strong || (role && !el.querySelector(STRONG))) {
            rows.push(rowOf(el, role, nameOf(el, role), box));
            continue;
          }
          if ([...el.childNodes].some((node) => node.nodeType === 3 && node.data.trim())) {
            const name = inlineText(el);
            if (name) rows.push(rowOf(el, 'text', name, textBox(el, box)));
          } else if (el.localName === 'img' && el.alt) rows.push(rowOf(el, 'other', clean(el.alt), box));
        } else if (!visible && getComputedStyle(el).display === 'none') continue;
        if (el.shadowRoot) visit(el.shadowRoot);
        if (el.firstElementChild) visit(el);
      }
    };
    if (document.body) visit(document.body);
    return rows;
  };

  const describe = (el) => {
    const label = el.closest('label');
    if (label && label.control && !within(label.control, el)) el = label.control;
    for (let node = el, depth = 0; node && depth < 8; node = parentOf(node), depth++) {
      const role = strongRole(node) || weakRole(node);
      if (role) return rowOf(node, role, nameOf(node, role), node.getBoundingClientRect());
    }
    const whole = el === document.body || el === document.documentElement;
    const name = whole ? '' : clean(el.innerText === undefined ? el.textContent : el.innerText) || clean(el.alt || el.id);
    const text = [...el.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    return rowOf(el, text && !whole ? 'text' : 'other', name, el.getBoundingClientRect());
  };
  const scrolled = () => {
    const main = document.scrollingElement || document.documentElement;
    for (let node = at(innerWidth / 2, innerHeight / 2); node; node = parentOf(node)) if (node.scrollTop || node.scrollLeft) return true;
    return Boolean(main && (main.scrollTop || main.scrollLeft));
  };
  const isFrame = (el) => el.localName === 'iframe' || el.localName === 'frame';
  const inside = (el) => {
    const box = el.getBoundingClientRect(), style = getComputedStyle(el);
    return [box.left + el.clientLeft + parseFloat(style.paddingLeft || 0), box.top + el.clientTop + parseFloat(style.paddingTop || 0)];
  };
  const focused = () => {
    let el = document.activeElement;
    while (el && el.shadowRoot && el.shadowRoot.activeElement) el = el.shadowRoot.activeElement;
    return el;
  };
  const choose = (x, y, wanted) => {
    const el = at(x, y), label = el && el.closest('label');
    let select = el && (el.closest('select') || (label && label.control));
    if (!select || select.localName !== 'select') return { error: 'there is no native drop-down at this point' };
    if (select.disabled) return { error: 'the drop-down is disabled' };
    const fold = (text) => text.replace(/\s+/g, ' ').trim().toLowerCase();
    const options = [...select.options], want = fold(wanted);
    let found = options.filter((option) => fold(option.text) === want);
    if (!found.length) found = options.filter((option) => want && fold(option.text).includes(want));
    if (!found.length || (found.length > 1 && fold(found[0].text) !== want)) {
      const names = options.slice(0, 20).map((option) => clean(option.text)).join(' | ');
      return { error: `${found.length ? 'several options match' : 'no option reads'} "${clean(wanted)}"; options: ${names}` };
    }
    if (found[0].disabled) return { error: `the option "${clean(found[0].text)}" is disabled` };
    select.focus();
    found[0].selected = true;
    select.dispatchEvent(new Event('input', { bubbles: true, composed: true }));
    select.dispatchEvent(new Event('change', { bubbles: true }));
    return { value: valueOf(select), row: rowOf(select, 'select', nameOf(select, 'select'), select.getBoundingClientRect()) };
  };

  const [operation, ...rest] = request;
  if (operation === 'list') {
    const key = Symbol.for('rmsweb.printed'), printed = globalThis[key] || 0;
    globalThis[key] = 0;
    return { title: document.title, printed, scrolled: scrolled(), rows: rest[0] ? list() : [] };
  }
  if (operation === 'at') {
    const el = at(...rest);
    if (!el) return null;
    return isFrame(el) ? { frame: inside(el) } : { row: describe(el) };
  }
  if (operation === 'element') return at(...rest);
  if (operation === 'inside') return inside(rest[0]);
  if (operation === 'focus') {
    const el = focused();
    if (!el) return null;
    return isFrame(el) ? { frame: true } : { value: valueOf(el), editable: strongRole(el) === 'input' || el.isContentEditable, row: describe(el) };
  }
  if (operation === 'focused') return focused();
  if (operation === 'scrolls') {
    const found = [];
    for (let node = at(...rest); node; node = parentOf(node))
      if (node.scrollHeight > node.clientHeight || node.scrollWidth > node.clientWidth) found.push([node.scrollLeft, node.scrollTop]);
    const main = document.scrollingElement || document.documentElement;
    return [...found, [main.scrollLeft, main.scrollTop]];
  }
  if (operation === 'choose') return choose(...rest);
  throw new Error(`unknown operation ${operation}`);
}
