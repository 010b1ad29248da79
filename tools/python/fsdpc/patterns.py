"""Patterns of modules, as in a config file."""

import fnmatch


def matches(pattern, path):
    """`*` stands for one component of the path, a component `**` for any number of them."""
    return _match(pattern.split("."), path.split("."))


def _match(pattern, path):
    if not pattern or not path:
        return all(part == "**" for part in pattern) and not path
    if pattern[0] == "**":
        return _match(pattern[1:], path) or _match(pattern, path[1:])
    return fnmatch.fnmatchcase(path[0], pattern[0]) and _match(pattern[1:], path[1:])
