"""What pydantic says of a wrong key, in the words of the JSON schema: where it is, what was wrong, what to do."""

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from tfglm.addresses import redacted
from tfglm.config.schema import Node, below, description, expected, forms, is_scalar
from tfglm.errors import UserError, nearest, short

MOST_PROBLEMS = 100
LONGEST_MESSAGE = 2_000
"""Characters of a message about one key, which names what else there is."""

FORM = re.compile(r"(dict|list|function-\w+|literal)\[")
"""How pydantic names one of the forms that a value may have."""

Model = TypeVar("Model", bound=BaseModel)


def validated(model: type[Model], raw: Any, where: str) -> Model:
    """The section in `raw`. Raises UserError with every problem, one a line, each beginning with `where`."""
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        raise UserError(problems_of(error, model, where)) from None


def problems_of(error: ValidationError, model: type[BaseModel], where: str) -> str:
    """Return the errors of pydantic, one per line, each beginning with `where`."""
    root = model.model_json_schema()
    every = error.errors(include_url=False)
    errors = [each for each in every if not _is_of_another_form(each, every, root)]
    problems = [f"{where}: {short(_problem(each, root), LONGEST_MESSAGE)}" for each in errors[:MOST_PROBLEMS]]
    if len(errors) > MOST_PROBLEMS:
        problems.append(f"{where}: and {len(errors) - MOST_PROBLEMS:,} more")
    return "\n".join(dict.fromkeys(problems))


def from_keywords(section: type[Model], keywords: Mapping[str, Any], where: str) -> Model:
    """A section of the config from the keywords of a call. Raises UserError, which begins with `where`, for wrong ones."""
    # Tuples are lists here, and numbers of numpy numbers.
    plain = json.loads(json.dumps(keywords, default=lambda value: getattr(value, "tolist", value.__str__)()))
    try:
        return section.model_validate(plain)
    except ValidationError as error:
        raise UserError(problems_of(error, section, where)) from None


def _is_of_another_form(error: Mapping[str, Any], errors: Sequence[Mapping[str, Any]], root: Node) -> bool:
    """Whether an error only says that a section is no number, or the reverse, where the value may be either."""
    kinds = ("float_type", "literal_error") if isinstance(error["input"], dict) else ("model_type", "dict_type")
    loc = error["loc"]
    if error["type"] not in kinds or not loc or any(place == len(loc) for place, *_ in _keys(error, root)):
        return False
    return any(other["type"] not in kinds and other["loc"][: len(loc) - 1] == loc[:-1] for other in errors)


def _keys(error: Mapping[str, Any], root: Node) -> list[tuple[int, str | int, Node, Node]]:
    """The keys in the place of an error: their position in it from 1, and the nodes above and at each. What else is in it names
    a form that the value may have."""
    node, found = root, []
    for place, key in enumerate(error["loc"], start=1):
        if is_scalar(node, root) or key == "[key]":
            break
        is_unknown = place == len(error["loc"]) and error["type"] == "extra_forbidden"
        if len(forms(node, root)) > 1 and not is_unknown and (FORM.match(str(key)) or not below(node, key, root)):
            continue
        parent, node = node, below(node, key, root)
        found.append((place, key, parent, node))
    return found


def in_file(where: str, message: str) -> str:
    """Put the place of the file, `where`, before each line of a message that begins with a key of the config."""
    return re.sub(
        r"^(?=(data|models|networks|score)[.:])", f"{where}: ".replace("\\", r"\\"), message, flags=re.MULTILINE
    )


def _problem(error: Mapping[str, Any], root: Node) -> str:
    """One of pydantic's errors as `path of the key: what was wrong; what to do`."""
    parent, node, path = root, root, ""
    for _, key, parent, node in _keys(error, root):  # noqa: B007 (the last ones are those of the error)
        is_entry = any("items" in form for form in forms(parent, root))
        path += (
            f" (entry {key + 1})"
            if is_entry and isinstance(key, int)
            else f".{short(json.dumps(str(key), ensure_ascii=False)[1:-1], 60)}"
        )
    is_key = error["loc"][-1:] == ("[key]",)
    return f"{path[1:]}: ".removeprefix(": ") + _remark(error, node, parent, is_key, root)


def _remark(error: Mapping[str, Any], node: Node, parent: Node, is_key: bool, root: Node) -> str:
    received = error["input"]
    match error["type"]:
        case "extra_forbidden" | "invalid_key":
            known = [key for form in forms(parent, root) for key in form.get("properties", {})]
            return "unknown key" + (nearest(str(error["loc"][-1]), known) or f"; the keys here are {', '.join(known)}")
        case "missing":
            return f"missing; give {expected(node, root)}. {description(node, root)}".removesuffix(". ")
        case "value_error":
            return str(error["ctx"]["error"])
        case "string_too_long":
            return f"expected at most {error['ctx']['max_length']:,} characters, received {len(received):,}"
        case "too_long":
            return f"expected at most {error['ctx']['max_length']:,} entries, received {len(received):,}"
        case "too_short" if received:
            least = f"{error['ctx']['min_length']:,} entries or more"
            return f"expected {least}, received {_shown(received)}. {description(node, root)}".removesuffix(". ")
    if is_key:
        node = {"type": "string", "pattern": "".join(parent.get("patternProperties", {}))}
    # A bound against what no machine could hold is of no interest to who is below it.
    broken = error["type"] in ("less_than_equal", "less_than")
    remark = f"expected {expected(node, root, bounded=broken)}, received {_shown(received)}"
    if "enum" in node:
        return remark + nearest(str(received), node["enum"])
    if node.get("type") == "string" and "pattern" not in node and isinstance(received, int | float):
        return f"{remark}; put it in quotes if it is meant as text"
    return remark


def _shown(value: Any) -> str:
    if value is None or value in ("", [], {}):
        return "nothing"
    try:
        text = json.dumps(_without_secrets(value), ensure_ascii=False, default=str)
    except (ValueError, TypeError, RecursionError):
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:60]}..."


def _without_secrets(value: Any) -> Any:
    """What YAML gave, with the addresses in it as they may be shown; before a text is cut, which could hide that it is one."""
    match value:
        case str():
            return redacted(value)
        case list():
            return [_without_secrets(each) for each in value[:60]]
        case dict():
            return {str(key): _without_secrets(each) for key, each in itertools.islice(value.items(), 60)}
    return value
