"""The technical terms of the pages: their meaning, and their first occurrence on a page."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from markupsafe import Markup, escape

TEXT = Path(__file__).parent / "glossary.txt"

WORDS = dict(line.split(": ", 1) for line in TEXT.read_text(encoding="utf-8").splitlines())
"""The meanings of the terms, as in docs/glossary.md; terms with a common meaning share an entry."""


def names(word: str) -> list[str]:
    """Return how a term of the glossary appears on a page: `CR1` and `CR2` for `CR1, CR2`, `cluster` for `cluster (of
    rows)`."""
    return re.sub(r" \(.+\)", "", word).split(", ")


BY_NAME = {name.lower(): word for word in WORDS for name in names(word)}
NAME = rf"\b(?P<name>{'|'.join(sorted(map(re.escape, BY_NAME), key=len, reverse=True))})s?\b"
CODE = r"<(?P<code>code|pre|script|style)\b.*?</(?P=code)>"
NO_PROSE = r"<(?P<part>a|h\d|label|summary|svg|table)\b.*?</(?P=part)>"
MARK = r"<[^>]*>"

SPOKEN = re.compile(rf"{CODE}|{MARK}|{NAME}", re.IGNORECASE | re.DOTALL)
WRITTEN = re.compile(rf"{CODE}|{NO_PROSE}|{MARK}|{NAME}", re.IGNORECASE | re.DOTALL)


def explained(page: str) -> list[dict]:
    """The words in the text, tables and pictures of a page: their `id`, `word` and `meaning`."""
    used = {BY_NAME[found["name"].lower()] for found in SPOKEN.finditer(page) if found["name"]}
    return [
        {"id": identity(word), "word": word, "meaning": WORDS[word].replace("`", "")} for word in WORDS if word in used
    ]


def identity(word: str) -> str:
    return f"word-{names(word)[0].replace(' ', '-')}"


def linked(page: str, link_to: Callable[[str, Markup], str], own: Iterable[str] = ()) -> Markup:
    """Return the page with a link to the meaning of a term where it first occurs in a sentence.

    `link_to` makes the link from the id of the meaning and the text. Terms within one of the user's `own` names, such as a
    column `interval between calls`, mean something else and get none.
    """
    met = set()
    names_with_terms = [re.escape(escape(name)) for name in own if re.search(NAME, name, re.IGNORECASE)]
    longest_first = "|".join(sorted(set(names_with_terms), key=len, reverse=True))
    text = (
        re.compile(rf"(?<!\w)(?:{longest_first})(?!\w)|{WRITTEN.pattern}", WRITTEN.flags) if longest_first else WRITTEN
    )

    def link(found: re.Match) -> str:
        word = BY_NAME.get((found["name"] or "").lower())
        if not word or word in met:
            return found[0]
        met.add(word)
        return link_to(identity(word), Markup(found[0]))

    return Markup(text.sub(link, page))
