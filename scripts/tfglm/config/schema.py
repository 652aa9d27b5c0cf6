"""Reading a JSON schema that pydantic derived: what a key is for, and what its value must be, in words."""

from typing import Any

Node = dict[str, Any]
"""A schema, or what a schema says of one key."""


def forms(node: Node, root: Node) -> list[Node]:
    """The forms that a value at `node` of the JSON schema `root` may take, references resolved, null left out."""
    if "$ref" in node:
        return [root["$defs"][node["$ref"].removeprefix("#/$defs/")]]
    return [form for each in node.get("anyOf", []) for form in forms(each, root)] or [node]


def below(node: Node, key: str | int, root: Node) -> Node:
    """Return the node for the value of `key` (any key, where keys are free); empty if no key is allowed."""
    for form in forms(node, root):
        free = [*form.get("patternProperties", {}).values(), form.get("additionalProperties"), form.get("items")]
        for child in (form.get("properties", {}).get(key), *free):
            if isinstance(child, dict):
                return child
    return {}


def is_scalar(node: Node, root: Node) -> bool:
    """Whether a value at `node` is a number or a text, in any form, with no keys and no entries."""
    return all(form.get("type") in ("string", "integer", "number", "boolean", "null") for form in forms(node, root))


def description(node: Node, root: Node) -> str:
    """Return the purpose of the key."""
    return node.get("description") or forms(node, root)[0].get("description", "")


def expected(node: Node, root: Node, bounded: bool = True) -> str:
    """Say in words what a value at `node` must be: 'an integer >= 1'. With `bounded` it includes the upper bound of an
    integer."""
    return " or ".join(_in_words(form, root, bounded) for form in forms(node, root) if form.get("type") != "null")


def _one_of(values: list) -> str:
    *others, last = (f"`{value}`" for value in values)
    return f"{', '.join(others)} or {last}" if others else last


def _in_words(form: Node, root: Node, bounded: bool = True) -> str:
    if "enum" in form or "const" in form:
        return _one_of(form.get("enum") or [form["const"]])
    match form.get("type"):
        case "string" if form.get("examples"):
            return _one_of(form["examples"])
        case "string" if form.get("pattern"):
            return "a name of letters, digits and _ that begins with a letter"
        case "array":
            return f"a list of {expected(form['items'], root, bounded).replace('a name', 'names').replace('begins', 'begin')}"
        case "object" if "properties" in form:
            return f"a section with the keys {', '.join(form['properties'])}"
        case "object":
            value = below(form, "", root)
            return (
                "sections, each under its name"
                if "$ref" in value
                else f"names, each with {expected(value, root, bounded)}"
            )
    bounds = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    if form.get("type") == "integer" and not bounded:
        del bounds["maximum"]
    limits = " and ".join(f"{sign} {form[bound]:.16g}" for bound, sign in bounds.items() if bound in form)
    words = {"string": "text", "integer": "an integer", "number": "a number", "boolean": "true or false"}
    return f"{words[form['type']]} {limits}".strip() if "type" in form else "values"
