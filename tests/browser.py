"""Pages in a headless browser, and the links between them."""

import base64
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

BROWSER = "chromium"
OPTIONS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--virtual-time-budget=20000",
    "--allow-file-access-from-files",
]

NARROW, WIDE = 400, 1280

# Frames, as no window is narrower than 500 pixels.
PROBE = """<!DOCTYPE html><title>probe</title><body><script>
const seen = []
function look(path, width, frame) {
  const page = frame.contentDocument, all = what => [...page.querySelectorAll(what)]
  const levels = all("h1, h2, h3").map(heading => +heading.tagName[1])
  const search = page.querySelector("#search")
  let found = null
  if (search) {
    search.value = "SEARCHED"
    search.dispatchEvent(new Event("input"))
    found = all("tbody.term > tr:not(:first-child):not([hidden])").map(row => row.cells[0].textContent)
    search.value = ""
    search.dispatchEvent(new Event("input"))
    const head = all("thead tr:last-child th").find(each => each.textContent === "estimate")
    head.querySelector("button").click()
  }
  const column = all("thead tr:last-child th[aria-sort]").map(head => head.cellIndex)[0]
  seen.push({
    path, width, found,
    sorted: column && all("tbody.term:nth-of-type(2) > tr:not(:first-child)").map(row => row.cells[column].textContent),
    too_wide: page.documentElement.scrollWidth - page.documentElement.clientWidth,
    headings_in_order: levels[0] === 1 && levels.every((level, k) => k === 0 || (level > 1 && level <= levels[k - 1] + 1)),
    landmarks: all("main").length === 1 && all("nav").length > 0 && page.documentElement.lang === "en",
    without_scope: all("th:not([scope])").length,
    without_alt: all("img:not([alt])").length,
    without_label: all("input").filter(input => !input.labels.length).length,
  })
}
for (const path of PATHS) for (const width of WIDTHS) {
  const frame = document.createElement("iframe")
  frame.style.width = width + "px"
  frame.style.border = 0
  frame.onload = () => look(path, width, frame)
  frame.src = path
  document.body.append(frame)
}
window.onload = () => {
  const result = document.createElement("pre")
  result.id = "seen"
  result.textContent = btoa(unescape(encodeURIComponent(JSON.stringify(seen))))
  document.body.append(result)
}
</script>"""


def dumped(page: Path, folder: Path) -> subprocess.CompletedProcess:
    """A page as the browser has it in the end, without an error on the console. `folder` is for its profile. Skips the test where
    there is no browser."""
    if not shutil.which(BROWSER):
        required = os.environ.get("TFGLM_REQUIRE_BROWSER") == "1"
        (pytest.fail if required else pytest.skip)(f"there is no {BROWSER}; apt-get install chromium")
    arguments = [BROWSER, *OPTIONS, f"--user-data-dir={folder / 'profile'}", "--dump-dom", page.as_uri()]
    shown = subprocess.run(arguments, capture_output=True, text=True, timeout=120)
    assert not re.search(r"Uncaught|CONSOLE.*(?i:error)", shown.stderr), shown.stderr
    return shown


def looked_at(pages: list[Path], folder: Path, searched: str) -> list[dict]:
    """What is seen of pages at both widths, a dict each; `searched` is typed where rows can be searched."""
    probe = PROBE.replace("PATHS", json.dumps([page.as_uri() for page in pages])).replace("SEARCHED", searched)
    (folder / "probe.html").write_text(probe.replace("WIDTHS", json.dumps([NARROW, WIDE])))
    seen = re.search(r'<pre id="seen">([^<]*)', dumped(folder / "probe.html", folder).stdout)
    assert seen
    return json.loads(base64.b64decode(seen[1]))


def broken_links(pages: list[Path]) -> Iterator[str]:
    """The links of pages that lead nowhere, and what they load from elsewhere."""
    for page in pages:
        text = page.read_text()
        for name, address in re.findall(r'\b(href|src)="([^"]*)"', text):
            path, _, place = unquote(address).partition("#")
            target = page.parent / path if path else page
            if name == "src":
                if not address.startswith("data:"):
                    yield f"{page}: {address}"
            elif not target.is_file() or (place and f'id="{place}"' not in target.read_text()):
                yield f"{page}: {address}"
