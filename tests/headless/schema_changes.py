"""What a newer JSON Schema takes from those who rely on an older one."""

from typing import Any


def breaking_changes(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """A line for each definition, property or choice that is gone or changed, and each that is required no more."""
    changes: list[str] = []
    for name, before in old["$defs"].items():
        after = new["$defs"].get(name)
        if after is None:
            changes.append(f"{name} is gone")
            continue
        changes += [f"{name}: {choice} is gone" for choice in _choices(before) - _choices(after)]
        for key, type_before in before.get("properties", {}).items():
            type_after = after.get("properties", {}).get(key)
            if type_after is None:
                changes.append(f"{name}.{key} is gone")
            elif not _fits(type_before, type_after):
                changes.append(f"{name}.{key} is another type")
        missing = set(before.get("required", ())) - set(after.get("required", ()))
        changes += [f"{name}.{key} may be missing now" for key in missing]
    return changes


def _choices(schema: dict[str, Any]) -> set[str]:
    return {str(choice["$ref"]) for choice in schema.get("oneOf", ())}


def _fits(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether whoever reads the older type can read the newer; words may join an enumeration."""
    if "enum" in before and "enum" in after:
        return set(before["enum"]) <= set(after["enum"])
    return _shape(before) == _shape(after)


def _shape(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {key: _shape(value) for key, value in schema.items() if key not in ("description", "title", "default")}
    return [_shape(item) for item in schema] if isinstance(schema, list) else schema
