#!/usr/bin/env python3
"""Looks at report pages in a real browser: python3 check.py [--pictures DIR] REPORT.html…

Asks of each page: no error, no request to anywhere, figures seen with no text cut off or on top of other text, switches that
switch, values on hovering and by keyboard, no sideways scrolling on a phone, complete without its script, not too large, soon
ready. Ends with 0 where all is well, 1 where it is not, and says SKIPPED where there is no Chromium.
"""

import argparse
import pathlib
import sys

import browser

PHONE, DESK = (390, 844), (1280, 900)
MOST_BYTES = 5_000_000
MOST_MILLISECONDS = 1000

# Texts of visible drawings that leave their drawing, or lie on each other.
TEXTS = """[...document.querySelectorAll('.drawing > svg')].filter(svg => svg.getBoundingClientRect().width > 0).flatMap(svg => {
  const frame = svg.getBoundingClientRect();
  const name = svg.getAttribute('aria-label') || svg.querySelector('title').textContent;
  const texts = [...svg.querySelectorAll('text')].map(text => ({ text: text.textContent, box: text.getBoundingClientRect() }));
  const cut = texts.filter(({ box }) => box.left < frame.left - 1 || box.right > frame.right + 1
    || box.top < frame.top - 1 || box.bottom > frame.bottom + 1).map(({ text }) => `${name}: "${text}" is cut off`);
  const over = [];
  texts.forEach((a, i) => texts.slice(i + 1).forEach(b => {
    const across = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
    const down = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
    if (across > 1.5 && down > 4) over.push(`${name}: "${a.text}" and "${b.text}" overlap`);
  }));
  return [...cut, ...over];
})"""

SWITCHES = """(() => {
  const wrong = [];
  for (const figure of document.querySelectorAll('figure')) {
    for (const button of figure.querySelectorAll('.tools button')) {
      const seen = () => [...figure.querySelectorAll('.view')].findIndex(view => !view.hidden);
      const before = [seen(), button.getAttribute('aria-pressed')];
      const isScale = button.classList.contains('scale');
      button.click();
      if ([...figure.querySelectorAll('.view')].filter(view => !view.hidden).length !== 1) wrong.push('not one view: ' + button.textContent);
      if (isScale && (seen() === before[0] || button.getAttribute('aria-pressed') === before[1])) wrong.push('no change: ' + button.textContent);
      if (!isScale && button.getAttribute('aria-pressed') !== 'true') wrong.push('not pressed: ' + button.textContent);
      const view = figure.querySelector('.view:not([hidden])');
      if (!isScale && view.dataset.models !== button.dataset.show) wrong.push('wrong view: ' + button.textContent);
      if (view.getBoundingClientRect().height < 100) wrong.push('nothing to see: ' + button.textContent);
      if (isScale) button.click();
    }
    figure.querySelector('[data-show]')?.click();
  }
  return wrong;
})()"""

HOVER = """(() => {
  const silent = [];
  for (const svg of document.querySelectorAll('.drawing > svg')) {
    const box = svg.getBoundingClientRect();
    if (!box.width) continue;
    const tooltip = document.querySelector('.tooltip');
    let said = 0;
    for (let x = 0.15; x < 0.95; x += 0.05) for (let y = 0.2; y < 0.9; y += 0.05) {
      svg.dispatchEvent(new PointerEvent('pointermove', { clientX: box.left + x * box.width, clientY: box.top + y * box.height }));
      if (!tooltip.hidden && /\\d/.test(tooltip.textContent)) said += 1;
    }
    svg.dispatchEvent(new PointerEvent('pointerleave'));
    svg.focus();
    svg.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight' }));
    const keys = !tooltip.hidden && /\\d/.test(tooltip.textContent);
    svg.blur();
    if (!said || !keys || !tooltip.hidden) silent.push(svg.getAttribute('aria-label'));
  }
  return silent;
})()"""

TABLES = """[...document.querySelectorAll('details.data')].map(details => {
  details.open = true;
  details.dispatchEvent(new Event('toggle'));
  const rows = details.querySelectorAll('tbody tr').length;
  details.open = false;
  return rows;
}).filter(rows => rows === 0).length"""

UNNAMED = """[...document.querySelectorAll('button, a[href], img, .drawing > svg')].filter(element =>
  !(element.getAttribute('aria-label') || element.getAttribute('alt') || element.textContent.trim())).length
  + [...document.querySelectorAll('main table th:not([scope])')].length"""


def noise(events, page):
    """Errors of the console and requests that leave the page."""
    found = []
    for event in events:
        method, params = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            found.append(f"exception: {params['exceptionDetails'].get('text')}")
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            found.append(f"console: {params['args']}")
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            found.append(f"log: {params['entry']['text']}")
        elif method == "Network.requestWillBeSent":
            url = params["request"]["url"]
            if url != page and not url.startswith(("data:", "blob:")):
                found.append(f"outside request: {url[:100]}")
    return found


def check(chromium, path, pictures, timing):
    """What is wrong with a page, and a line of what was measured."""
    url, wrong = path.resolve().as_uri(), []
    size = path.stat().st_size
    if size > MOST_BYTES:
        wrong.append(f"{size} bytes are more than {MOST_BYTES}")
    ready = float("inf")
    for name, (width, height) in (("phone", PHONE), ("desk", DESK)):
        for dark in (False, True):
            chromium.open(url, width, height, dark)
            wrong += noise(chromium.events, url)
            # The best of several loadings: the others say how busy the machine is.
            ready = min(ready, chromium.value("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"))
            wrong += [f"{name}: {text}" for text in chromium.value(TEXTS)]
            across = chromium.value("document.documentElement.scrollWidth - innerWidth")
            if across > 0:
                wrong.append(f"{name}: scrolls sideways by {across} px")
            if pictures:
                look = "dark" if dark else "light"
                chromium.picture(pictures / f"{path.parent.name}-{name}-{look}.png")
        wrong += [f"{name}: {text}" for text in chromium.value(SWITCHES)]
        wrong += [f"{name}: no values on hovering or by keys: {text}" for text in chromium.value(HOVER)]
        for label, expression in (("empty tables of numbers", TABLES), ("elements without a name", UNNAMED)):
            count = chromium.value(expression)
            if count:
                wrong.append(f"{name}: {count} {label}")
        wrong += noise(chromium.events, url)
    figures = chromium.value("document.querySelectorAll('figure').length")
    unseen = chromium.value("[...document.querySelectorAll('figure')].filter(f => f.getBoundingClientRect().height < 150).length")
    if not figures or unseen:
        wrong.append(f"{unseen} of {figures} figures are not seen")
    if timing and ready > MOST_MILLISECONDS:
        wrong.append(f"ready after {ready:.0f} ms")
    chromium.open(url, *DESK, scripts=False)
    chromium.ask("Emulation.setScriptExecutionDisabled", value=False)
    if chromium.value("[...document.querySelectorAll('figure')].some(f => f.getBoundingClientRect().height < 150)"):
        wrong.append("without its script a figure is not seen")
    return wrong, f"{figures} figures, {size / 1e6:.2f} MB, ready after {ready:.0f} ms"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="+", type=pathlib.Path)
    parser.add_argument("--pictures", type=pathlib.Path, help="folder for pictures of the pages")
    parser.add_argument("--no-timing", action="store_true", help="do not mind how soon pages are ready")
    asked = parser.parse_args()
    program = browser.find()
    if not program:
        print(f"SKIPPED: no browser found ({', '.join(browser.NAMES)}); pages were not looked at", file=sys.stderr)
        return 0
    if asked.pictures:
        asked.pictures.mkdir(parents=True, exist_ok=True)
    chromium, failed = browser.Browser(program), False
    try:
        for path in asked.pages:
            wrong, measured = check(chromium, path, asked.pictures, not asked.no_timing)
            print(f"{path}: {measured}")
            for text in dict.fromkeys(wrong):
                print(f"  WRONG: {text}")
            failed |= bool(wrong)
    finally:
        chromium.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
