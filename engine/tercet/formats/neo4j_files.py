"""Which CSV files of a folder belong together, and the options of Neo4j's bulk import."""

import csv
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tercet.errors import InvalidArgument, InvalidData
from tercet.formats.imported import SourceReport
from tercet.formats.tables import _open

ARGUMENTS = "import.args"  # options of neo4j-admin, one a line
HEADER = re.compile(r"(?P<stem>.*?)[-_. ]?headers?(\.csv|\.tsv)?(\.gz)?", re.IGNORECASE)
INTEGERS = ("int", "long", "short", "byte", "integer")
REALS = ("float", "double")
TEXTS = ("string", "char", "date", "localtime", "time", "localdatetime", "datetime", "duration", "point")
FIELD = re.compile(
    r"(?P<name>.*?)(?::(?P<type>[A-Za-z_]+)(?P<space>\([^)]*\))?(?P<list>\[\])?(?P<options>\{.*\})?)?", re.DOTALL
)


@dataclass(frozen=True)
class Column:
    name: str  # of the property, "" for none
    type: str  # lower case; "id", "label", "start_id", "end_id", "type", "ignore" among them
    space: str | None = None
    many: bool = False


@dataclass(frozen=True)
class Group:
    """Files under one header."""

    files: tuple[Path, ...]  # the first begins with the header
    names: tuple[str, ...] = ()  # labels of all its nodes, or the type of all its relationships


def group_of(folder: Path, given: Any, names: tuple[str, ...]) -> Group:
    files = tuple(folder / f for f in ([given] if isinstance(given, (str, Path)) else given))
    for file in files:
        if not file.is_file():
            raise InvalidArgument(f"{file}: no such file")
    if not files:
        raise InvalidArgument(f"{folder}: expected a file or a list of files, got {given!r}")
    return Group(files, names)


def find_groups(folder: Path, report: SourceReport, delimiter: str) -> tuple[list[Group], dict[str, str]]:
    """The groups of a folder, and the options its import.args has."""
    arguments = folder / ARGUMENTS
    if arguments.is_file():
        return told(folder, arguments)
    files = sorted(p for p in folder.iterdir() if p.is_file() and re.search(r"\.csv(\.gz)?$", p.name, re.IGNORECASE))
    groups, taken = [], set()
    for file in files:
        match = HEADER.fullmatch(file.name)
        if match and match["stem"]:
            mine = [p for p in files if p != file and p.name.startswith(match["stem"]) and not HEADER.fullmatch(p.name)]
            groups.append(Group((file, *mine)))
            taken |= {file, *mine}
    for file in files:
        if file not in taken:
            names = header_line(file, delimiter, '"')
            if any(re.search(r":(ID|START_ID)\b", name, re.IGNORECASE) for name in names):
                groups.append(Group((file,)))
            else:
                report.notes.append(f"{file.name}: no column of type :ID or :START_ID, left out")
    return groups, {}


def told(folder: Path, arguments: Path) -> tuple[list[Group], dict[str, str]]:
    groups: list[Group] = []
    options: dict[str, str] = {}
    for number, line in enumerate(arguments.read_text(encoding="utf-8").splitlines(), 1):
        for word in shlex.split(line, comments=True):
            name, sign, value = word.partition("=")
            if not sign or not name.startswith("--"):
                raise InvalidData(f"{arguments}:{number}: expected --option=value, got {word!r}")
            if name not in ("--nodes", "--relationships"):
                options[name.removeprefix("--")] = value
                continue
            names, sign, files = value.rpartition("=")
            labels = tuple(names.split(":")) if sign and names else ()
            groups.append(group_of(folder, files.split(","), labels))
    return groups, options


def character(text: str, name: str) -> str:
    """One character, also as neo4j-admin spells them: TAB, U+20AC, or a number."""
    if len(text) == 1:
        return text
    if text in ("TAB", "\\t"):
        return "\t"
    if re.fullmatch(r"U\+[0-9A-Fa-f]{4,6}", text):
        return chr(int(text[2:], 16))
    if re.fullmatch(r"\\?\d{1,6}", text):
        return chr(int(text.lstrip("\\")))
    raise InvalidArgument(f"{name}: expected one character, got {text!r}")


def header_line(path: Path, delimiter: str, quote: str) -> list[str]:
    with _open(path) as stream:
        try:
            return next(csv.reader(stream, delimiter=delimiter, quotechar=quote), [])
        except (csv.Error, UnicodeDecodeError, OSError, EOFError) as error:
            raise InvalidData(f"{path}: {error}") from error


def has_rows(path: Path, delimiter: str, quote: str) -> bool:
    """Whether anything follows the header."""
    with _open(path) as stream:
        reader = csv.reader(stream, delimiter=delimiter, quotechar=quote)
        try:
            return next((True for i, row in enumerate(row for row in reader if row) if i), False)
        except (csv.Error, UnicodeDecodeError):
            return True  # whoever reads the rows says what is wrong


def columns_of(path: Path, names: Sequence[str]) -> tuple[Column, ...]:
    out = []
    for name in names:
        match = FIELD.fullmatch(name.strip())
        kind = (match["type"] or "string").lower() if match else "?"
        known = (*INTEGERS, *REALS, *TEXTS, "boolean", "id", "start_id", "end_id", "label", "type", "ignore")
        if match is None or kind not in known:
            raise InvalidData(f"{path}: header: expected <name>:<type> with a type Neo4j has, got {name!r}")
        space = match["space"]
        out.append(Column(match["name"], kind, space[1:-1] if space else None, bool(match["list"])))
    kinds = [c.type for c in out]
    given = [c.name for c in out if c.name and c.type != "ignore"]
    if kinds.count("start_id") != kinds.count("end_id") or ("id" in kinds) == ("start_id" in kinds):
        raise InvalidData(f"{path}: header: expected :ID, or :START_ID and :END_ID, got {list(names)}")
    if max(map(kinds.count, ("id", "start_id", "end_id", "type"))) > 1 or len(set(given)) < len(given):
        raise InvalidData(f"{path}: header: a column is there twice: {list(names)}")
    return tuple(out)
