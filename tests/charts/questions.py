"""Questions of a chart with their answers, and a reader that answers them from its text.

The questions are made of the data and of what the drawing calls were told. Neither they nor the reader know the code
that describes charts.
"""

import itertools
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Point = tuple[Any, float]
Answers = Mapping[str, Any]

LEAST_QUESTIONS = 12
NEAR = 1e-4
"""How far a number of a text may be off, as a share of it: texts have five figures."""
NUMBER = r"-?\d[\d.]*(?:e[+-]?\d+)?"
AXES = r"x|y|z|color|size|theta|labels|values"
PART = re.compile(rf'(?P<axis>{AXES})(?: "(?P<label>[^"]*)")?(?: (?P<extent>[^"]*?))?(?: \((?P<note>log|in %)\))?')
NOTES = ("error bars", "rising", "falling", "between two curves")
FACTS = {
    rf"median ({NUMBER})": "median{of}",
    rf"bins of ({NUMBER})": "bin width",
    r"(\d+) bins": "bins",
    r"(\d[\d ×]*) cells": "cells",
}
SERIES = re.compile(rf"(?P<name>.*?)(?: \((?P<kind>\D[^)]*)\))?(?:^| )(?:n=(?P<n>\d+)|(?={NUMBER} … ))(?P<facts>.*)")


def of_points(kind: str, title: str, labels: Sequence[str], series: Mapping[str, Sequence[Point]]) -> Answers:
    """Of lines, points, bars and areas, one or several."""
    points = [point for one in series.values() for point in one]
    least, greatest = min(points, key=lambda point: point[1]), max(points, key=lambda point: point[1])
    axes = [*_axis("x", labels[0], [x for x, _ in points]), *_axis("y", labels[1], [y for _, y in points])]
    if kind.startswith("horizontal"):
        axes = [*_axis("x", labels[0], [y for _, y in points]), *_axis("y", labels[1], [x for x, _ in points])]
    return {
        **{"kind": kind, "title": title, **dict(axes), "points": len(points)},
        "series": list(series) if len(series) > 1 else [],
        "greatest": greatest[1],
        "greatest at": greatest[0],
        "least at": least[0],
    }


def of_histogram(title: str, labels: Sequence[str], values: Sequence[float], edges: Sequence[float]) -> Answers:
    """Of a histogram whose bars were drawn: of each bin there is the count."""
    inside = [sum(low <= one < high for one in values) for low, high in itertools.pairwise(edges)]
    inside[-1] += sum(one == edges[-1] for one in values)
    axes = [*_axis("x", labels[0], edges), *_axis("y", labels[1], inside)]
    return {
        **{"kind": "histogram", "title": title, **dict(axes), "points": len(values), "bins": len(inside)},
        **{"fullest bin": max(inside), "emptiest bin": min(inside), "series": []},
    }


def of_values(title: str, labels: Sequence[str], values: Sequence[float], **more: Any) -> Answers:
    """Of a histogram that the page will count: of it there are the values."""
    axes = dict([*_axis("x", labels[0], values), *_axis("y", labels[1], [0])])
    del axes["y from"], axes["y to"]
    return {
        **{"kind": "histogram", "title": title, **axes, "points": len(values), "median": statistics.median(values)},
        **{"least": min(values), "greatest": max(values), "series": [], **more},
    }


def of_boxes(title: str, labels: Sequence[str], groups: Mapping[str, Sequence[float]], **more: Any) -> Answers:
    """Of boxes, each with the data that it was made of."""
    values = [value for group in groups.values() for value in group]
    axes = [*_axis("x", labels[0], list(groups)), *_axis("y", labels[1], values)]
    medians = {name: statistics.median(group) for name, group in groups.items()}
    return {
        **{"kind": "box", "title": title, **dict(axes), "series": list(groups)},
        **{f"median of {name}": median for name, median in medians.items()},
        **{f"least of {name}": min(group) for name, group in groups.items()},
        **{f"greatest of {name}": max(group) for name, group in groups.items()},
        **more,
    }


def of_shares(title: str, shares: Mapping[str, float], names: Sequence[str] = ("labels", "values")) -> Answers:
    """Of the slices of a pie."""
    least, greatest = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)
    return {
        **{"kind": "pie", "title": title, "points": len(shares), "series": []},
        **{f"slice {at}": {names[0]: list(shares)[at]} for at in range(min(4, len(shares)))},
        **{f"{names[1]} from": shares[least], f"{names[1]} to": shares[greatest]},
        **{"least": shares[least], "least at": least, "greatest": shares[greatest], "greatest at": greatest},
    }


def of_grid(
    kind: str, title: str, labels: Sequence[str], sides: Sequence[Sequence[Any]], rows: Sequence[Sequence[float]]
) -> Answers:
    """Of cells in colors."""
    cells = [value for row in rows for value in row]
    axes = [*_axis("x", labels[0], sides[0]), *_axis("y", labels[1], sides[1])]
    return {
        **{"kind": kind, "title": title, **dict(axes), "points": len(cells), "series": []},
        **{"least": min(cells), "greatest": max(cells)},
    }


def of_panels(panels: Mapping[str, Answers]) -> Answers:
    """Of several panels, by their titles."""
    asked = {"panels": len(panels)}
    for at, (title, answers) in enumerate(panels.items(), 1):
        asked |= {f"[{at}] {question}": answer for question, answer in {**answers, "title": title}.items()}
    return asked


def _axis(name: str, label: str, values: Sequence[Any]) -> Iterable[tuple[str, Any]]:
    unit = re.search(r"\(([^()]*)\)$", label)
    yield f"{name} label", label
    yield f"{name} unit", unit[1] if unit else ""
    if isinstance(values[0], str) and not re.match(r"\d{4}-", values[0]):
        names = list(dict.fromkeys(values))
        yield f"{name} count", len(names)
        for at, one in enumerate(names[:4], 1):
            yield f"{name} {at}", one
    else:
        yield f"{name} from", min(values)
        yield f"{name} to", max(values)


def wrong_answers(text: str, asked: Answers) -> dict[str, Any]:
    """What the text says to the questions that it answers wrongly or not at all."""
    said = read(text)
    return {question: said.get(question) for question, answer in asked.items() if not _is_said(said, question, answer)}


def _is_said(said: Answers, question: str, answer: Any) -> bool:
    if isinstance(answer, dict):  # a slice: one of the names along an axis
        return all(one in [said.get(f"{axis} {at}") for at in range(1, 5)] for axis, one in answer.items())
    found = said.get(question)
    if isinstance(answer, int | float):
        return found is not None and abs(float(found) - answer) <= NEAR * max(1e-9, abs(answer))
    return found == answer


def read(text: str) -> Answers:
    """All that a reader takes from the text of a chart."""
    head = re.match(r'(?P<library>\w+)(?: "(?P<title>[^"]*)")?(?: (?P<panels>\d+) panels:)? (?P<rest>.*)', text)
    assert head is not None, text
    answers: dict[str, Any] = {"library": head["library"], "title": head["title"] or ""}
    if head["panels"] is None:
        return {**answers, **_read_panel(head["rest"])}
    answers["panels"] = head["panels"]
    for at, panel in enumerate(head["rest"].split(" | "), 1):
        found = _read_panel(panel.removeprefix(f"[{at}] "))
        answers |= {f"[{at}] {question}": answer for question, answer in found.items()}
    return answers


def _read_panel(text: str) -> Answers:
    kind, *parts = re.split(r'; (?=(?:[^"]*"[^"]*")*[^"]*$)', text)
    drawn = re.fullmatch(r'(?P<kind>[^"]*?)(?: "(?P<title>[^"]*)")?', kind)
    assert drawn is not None, text
    answers: dict[str, Any] = {"kind": drawn["kind"]}
    if drawn["title"] is not None:
        answers["title"] = drawn["title"]
    while parts and (axis := PART.fullmatch(parts[0])):
        answers |= _read_axis(axis)
        parts.pop(0)
    return {**answers, **_read_series(parts)}


def _read_axis(axis: re.Match[str]) -> Answers:
    name, label, extent = axis["axis"], axis["label"] or "", axis["extent"] or ""
    unit = re.search(r"\(([^()]*)\)$", label)
    answers: dict[str, Any] = {
        f"{name} label": label,
        f"{name} unit": unit[1] if unit else "",
        f"{name} scale": axis["note"],
    }
    many = re.fullmatch(r"(.*), … \((\d+) categories\)", extent)
    ends = extent.split(" … ") if " … " in extent and not many else [extent, extent]
    names = (many[1] if many else extent).split(", ")
    answers |= {f"{name} from": ends[0], f"{name} to": ends[1], f"{name} count": many[2] if many else len(names)}
    return {**answers, **{f"{name} {at}": one for at, one in enumerate(names, 1)}}


def _read_series(parts: list[str]) -> Answers:
    answers: dict[str, Any] = {"series": []}
    if not parts:
        return answers
    many = re.match(r"\d+ series(?:, n=(\d+))?: ", parts[0])
    if many is None:
        one = re.match(r"(?:[^=]*?: )?n=(\d+)", parts[0])
        return answers | _read_facts([("", parts[0])]) | ({"points": one[1]} if one else {})
    entries: list[tuple[str, str]] = []
    for text in [parts[0].removeprefix(many[0]), *parts[1:]]:
        found = SERIES.match(text)
        name = (found["name"] or found["kind"] or "") if found else text
        entries.append((name, found["facts"] if found else ""))
    return {"series": [name for name, _ in entries], "points": many[1], **_read_facts(entries)}


def _read_facts(entries: Sequence[tuple[str, str]]) -> Answers:
    answers: dict[str, Any] = {}
    ends: list[tuple[float, float]] = []
    for name, facts in entries:
        of = f" of {name}" if name else ""
        if found := re.search(rf"({NUMBER}) … ({NUMBER})", facts):
            ends.append((float(found[1]), float(found[2])))
            answers |= {f"least{of}": found[1], f"greatest{of}": found[2]}
        for pattern, question in FACTS.items():
            if found := re.search(pattern, facts):
                answers[question.format(of=of)] = found[1]
        answers |= {note: True for note in NOTES if note in facts}
    if ends:
        answers |= {"least": min(end[0] for end in ends), "greatest": max(end[1] for end in ends)}
    if len(ends) == 1:
        answers |= {"emptiest bin": answers["least"], "fullest bin": answers["greatest"]}
    return {**answers, **_read_places([facts for _, facts in entries])}


def _read_places(facts: Iterable[str]) -> Answers:
    """The extremes of all series, each with its place."""
    together = "; ".join(facts)
    least, greatest = (re.findall(rf"{word} ({NUMBER}) at ([^,;]+)", together) for word in ("min", "max"))
    if not greatest:
        return {}
    low, high = min(least, key=lambda end: float(end[0])), max(greatest, key=lambda end: float(end[0]))
    return {"least": low[0], "least at": low[1], "greatest": high[0], "greatest at": high[1]}
