"""Pages in a headless browser: what it complains of, what axe-core finds not usable by everybody, and links that lead nowhere."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from urllib.parse import unquote

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

BROWSER = "chromium"

WINDOWS = {"narrow and light": (400, "light"), "wide and dark": (1280, "dark")}
"""Width in pixels and colour scheme: each of two, as no width has colours of its own."""


BETWEEN = 800
"""A width at which only the room of parts is looked at."""

TOO_WIDE = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
CUT_OFF = """[...document.querySelectorAll(".box:has(> table.short, > table.effects)")]
    .some(box => box.scrollWidth > box.clientWidth)"""


@contextmanager
def browser() -> Iterator[Browser]:
    """The browser of the machine. Skips the test where there is none."""
    path = shutil.which(BROWSER)
    if not path:
        required = os.environ.get("TFGLM_REQUIRE_BROWSER") == "1"
        (pytest.fail if required else pytest.skip)(f"there is no {BROWSER}; apt-get install chromium")
    with sync_playwright() as playwright, playwright.chromium.launch(executable_path=path) as launched:
        yield launched


@contextmanager
def opened(browser: Browser, path: Path, **options: object) -> Iterator[Page]:
    """A page in a window of its own, which in the end has to have had no error on its console and loaded nothing but itself.
    `options` are those of Playwright's `new_page`."""
    with browser.new_page(**options) as page:
        errors, loaded = list[str](), list[str]()
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: loaded.append(request.url))
        page.goto(path.as_uri())
        yield page
        assert not errors, f"{path}: {errors}"
        assert all(address == path.as_uri() or re.match("data:|blob:", address) for address in loaded), loaded


def faults(pages: list[Path]) -> list[str]:
    """What is wrong with pages, narrow and wide, light and dark: parts that stand out of the window, heads of tables that do not
    say what they head, and whatever axe-core finds."""
    found = []
    with browser() as started:
        for path, (name, (width, scheme)) in product(pages, WINDOWS.items()):
            with opened(started, path, viewport={"width": width, "height": 800}, color_scheme=scheme) as page:
                seen = [
                    f"{rule['impact']}: {rule['help']} ({rule['id']}): {rule['nodes'][0]['html'][:200]}"
                    for rule in Axe().run(page).response["violations"]
                ]
                if page.evaluate(TOO_WIDE):
                    seen.append("wider than the window")
                if page.evaluate(CUT_OFF):
                    seen.append("a short table or the strongest effects are wider than the page")
                if page.locator("th:not([scope])").count():
                    seen.append("a <th> without scope")
                page.set_viewport_size({"width": BETWEEN, "height": 800})
                if page.evaluate(f"{TOO_WIDE} || {CUT_OFF}"):
                    seen.append(f"wider than a window of {BETWEEN} pixels")
                found += [f"{path}, {name}: {fault}" for fault in seen]
    return found


def without_links(page: Path) -> str:
    """The HTML of a page whose links are text like any other: which words are links depends on what stands before them."""
    return re.sub(r"</?a\b[^>]*>", "", page.read_text())


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
