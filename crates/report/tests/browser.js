// Looks at each page in a frame of each width, and tells what a reader would trip over.
const wrong = [];
const seen = { sheets: 0, frames: 0, words: 0, charts: 0, scrolled: 0, shades: 0, scale: {}, scheme: '' };

const rgb = (text) => (text.match(/[\d.]+/g) || []).map(Number);
const luminance = ([r, g, b]) => {
  const part = (v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
  return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
};
const contrast = (a, b) => {
  const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p);
  return (x + 0.05) / (y + 0.05);
};

function ground(view, element) {
  for (let e = element; e; e = e.parentElement) {
    const of = rgb(view.getComputedStyle(e).backgroundColor);
    if (of.length === 3 || of[3] > 0) return of;
  }
  return [255, 255, 255];
}

function look(name, width, frame) {
  const view = frame.contentWindow, page = frame.contentDocument, root = page.documentElement;
  const style = (e) => view.getComputedStyle(e);
  const say = (what, element) => {
    const text = element ? ` <${element.tagName.toLowerCase()}> ${(element.textContent || '').trim().slice(0, 50)}` : '';
    wrong.push(`${name} at ${width}: ${what}${text}`);
  };
  seen.frames += 1;
  seen.scheme = view.matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
  if (root.scrollWidth > root.clientWidth) say(`wider than the page (${root.scrollWidth})`);
  const entries = view.performance.getEntriesByType('resource');
  for (const entry of entries) say(`asks for ${entry.name}`);
  for (const e of page.querySelectorAll('[src], link[href], script')) {
    if (!(e.getAttribute('href') || '').startsWith('data:,')) say('asks for something', e);
  }
  for (const e of page.querySelectorAll('body *')) {
    const box = e.getBoundingClientRect();
    if (box.width === 0 || e.closest('.scroll') || e.closest('svg') || e.classList.contains('skip')) continue;
    if (box.right > width + 1 || box.left < -1) say('cut off at the side', e);
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (own) {
      seen.words += 1;
      const style = view.getComputedStyle(e);
      const of = contrast(rgb(style.color), ground(view, e));
      if (of < 4.5) say(`contrast of ${of.toFixed(2)}`, e);
      if (parseFloat(style.fontSize) < 12) say('too small to read', e);
    }
  }
  for (const e of page.querySelectorAll('body *')) {
    const isHidden = ['hidden', 'clip'].includes(style(e).overflowX);
    if (!e.closest('svg') && isHidden && e.scrollWidth > e.clientWidth + 1) say('words cut off', e);
  }
  for (const e of page.querySelectorAll('.scroll')) {
    if (e.scrollWidth <= e.clientWidth + 1 || style(e).overflowX === 'visible') continue;
    seen.scrolled += 1;
    if (e.tabIndex !== 0 || e.getAttribute('role') !== 'region' || !e.getAttribute('aria-label')) say('no keyboard scrolls', e);
    if (!style(e).backgroundImage.includes('gradient')) say('nothing shows that it scrolls', e);
    const words = e.querySelector('.sideways');
    // Whether it runs shows when a frame is drawn, which here none is.
    const runs = words && style(words).display !== 'none' && style(words).animationTimeline.includes('scroll');
    if (!runs) say('no words say that it scrolls', e);
  }
  for (const figure of page.querySelectorAll('figure')) {
    const charts = [...figure.querySelectorAll('svg')];
    const shown = charts.filter((c) => c.getBoundingClientRect().width > 0);
    if (charts.length && shown.length !== 1) say(`shows ${shown.length} charts in a figure`, figure);
    const rows = figure.querySelectorAll('tbody tr').length || page.querySelectorAll('main > .scroll tbody tr').length;
    if (!rows || !figure.querySelector('figcaption, table')) say('no table below a chart', figure);
  }
  for (const chart of page.querySelectorAll('svg')) {
    const frameOf = chart.getBoundingClientRect();
    if (frameOf.width === 0) continue;
    seen.charts += 1;
    if (chart.getAttribute('role') !== 'img' || !chart.getAttribute('aria-label')) say('no words for a chart', chart);
    // The stronger the colour, the more: each shade is further from grey than the one before.
    const strength = (c) => Math.max(...c.slice(0, 3)) - Math.min(...c.slice(0, 3));
    const shades = [...chart.querySelectorAll('.cell')].flatMap((e) => {
      const nth = [...e.classList].find((name) => /^h\d$/.test(name));
      if (!nth) return [];
      const fill = rgb(style(e).fill);
      seen.scale[nth] = style(e).fill;
      if (contrast(fill, ground(view, chart)) < 3) say('a shade like the ground', e);
      return [[Number(nth[1]), strength(fill), e]];
    });
    shades.sort(([a], [b]) => a - b);
    seen.shades += shades.length;
    const weaker = shades.find(([nth, of], n) => n > 0 && nth > shades[n - 1][0] && of <= shades[n - 1][1]);
    if (weaker) say('more has the weaker colour', weaker[2]);
    const texts = [...chart.querySelectorAll('text')].map((e) => [e, e.getBoundingClientRect()]);
    for (const [e, box] of texts) {
      seen.words += 1;
      const out = [frameOf.left - box.left, box.right - frameOf.right, frameOf.top - box.top, box.bottom - frameOf.bottom];
      if (Math.max(...out) > 1) say('outside its chart', e);
      if (e.textContent.includes('…')) say('words cut off', e);
      if (parseFloat(view.getComputedStyle(e).fontSize) * frameOf.width / chart.viewBox.baseVal.width < 10) say('too small to read', e);
      const cell = e.classList.contains('in-cell') ? e.previousElementSibling : null;
      const below = cell && !cell.classList.contains('h-none') ? rgb(view.getComputedStyle(cell).fill) : ground(view, chart);
      const of = contrast(rgb(view.getComputedStyle(e).fill), below);
      if (of < 4.5) say(`contrast of ${of.toFixed(2)}`, e);
    }
    for (let i = 0; i < texts.length; i++) {
      for (let k = 0; k < i; k++) {
        const [a, b] = [texts[i][1], texts[k][1]];
        const x = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const y = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        // Lines of words reach into each other's margins.
        if (x > 1 && y > Math.min(a.height, b.height) * 0.35) say(`overlap with '${texts[k][0].textContent}'`, texts[i][0]);
      }
    }
  }
}

// As it is printed: nothing can be scrolled, and a chart must fit on a sheet, or it is torn apart.
function lookAtPaper(name, [width, height], frame) {
  const page = frame.contentDocument;
  const say = (what, element) => wrong.push(`${name}, printed: ${what} ${(element.textContent || '').trim().slice(0, 50)}`);
  if (page.documentElement.scrollWidth > width) say('wider than a sheet', page.body);
  for (const e of page.querySelectorAll('figure th, figure td, pre, dd, p, li')) {
    const box = e.getBoundingClientRect();
    if (box.width > 0 && box.right > width + 1) say('cut off on paper', e);
  }
  for (const figure of page.querySelectorAll('figure')) {
    const charts = [...figure.querySelectorAll('svg')].map((e) => e.getBoundingClientRect());
    const shown = charts.filter((box) => box.width > 0);
    if (charts.length && shown.length !== 1) say(`shows ${shown.length} charts in a figure`, figure);
    seen.sheets += shown.length;
    const table = figure.querySelector('table');
    const head = table ? table.getBoundingClientRect().top - figure.getBoundingClientRect().top : 0;
    if (shown.some((box) => box.height > height) || head > height) say('higher than a sheet', figure);
  }
  if (page.defaultView.getComputedStyle(page.body).backgroundColor !== 'rgb(255, 255, 255)') say('no white paper', page.body);
}

const all = async () => {
  for (const [name, html] of PRINTED) {
    const frame = document.createElement('iframe');
    frame.style = `border:0;width:${SHEET[0]}px;height:900px`;
    const loaded = new Promise((done) => frame.addEventListener('load', done));
    frame.srcdoc = html;
    document.body.append(frame);
    await loaded;
    look(`${name}, printed`, SHEET[0], frame);
    lookAtPaper(name, SHEET, frame);
    frame.remove();
  }
  for (const [name, html] of PAGES) {
    for (const width of WIDTHS) {
      const frame = document.createElement('iframe');
      frame.style = `border:0;width:${width}px;height:900px`;
      const loaded = new Promise((done) => frame.addEventListener('load', done));
      frame.srcdoc = html;
      document.body.append(frame);
      await loaded;
      look(name, width, frame);
      frame.remove();
    }
  }
};

const tell = () => {
  const text = `RESULT[${JSON.stringify({ wrong: wrong.slice(0, 60), seen })}]RESULT`;
  document.body.replaceChildren(document.createTextNode(text));
};
all().catch((e) => wrong.push(`the check itself failed: ${e}`)).then(tell);
