"""Functions of machine code as text: LLVM's language, and four words more."""

import re
from collections.abc import Mapping

_ACCESS = re.compile(r"  (?:(%\w+) = )?(get|set|at|change) (?:(\w+) )?(\w+)\.(\w+) ([%@]\w+)(?:, (.+))?")


def expanded(text: str, structs: Mapping[str, str]) -> str:
    """A text in LLVM's language alone. `structs` says what lies in memory, one structure after the other: the type of
    each field and its name. Empty space has the name `-`.

    `%x = at team.busy %team` is the address of a field of the structure at %team (or of item `%i` of an array:
    `at team.slots %team, i64 %i`); `%x = get team.busy %team` is its value; `set team.busy %team, 1` stores a value.
    With the name of an ordering, as in `get seq_cst team.running %team`, an access is atomic.
    `%done = change acq_rel team.busy %team, 0 to 1` stores a 1 if a 0 is there; %done says whether it was.
    """
    fields = {name: [tuple(field.rsplit(" ", 1)) for field in of.split(", ")] for name, of in structs.items()}
    lines = [f"%{name} = type {{ {', '.join(kind for kind, _ in of)} }}" for name, of in fields.items()]
    for number, line in enumerate(text.splitlines()):
        match = _ACCESS.fullmatch(line)
        if match is None:
            lines.append(line)
            continue
        result, word, order, struct, field, base, given = match.groups()
        index, kind = next((i, kind) for i, (kind, name) in enumerate(fields[struct]) if name == field)
        place = result if word == "at" else f"%at{number}"
        item = f", {given}" if word == "at" and given else ""
        lines.append(f"  {place} = getelementptr %{struct}, ptr {base}, i32 0, i32 {index}{item}")
        atomic, ordered = ("atomic ", f" {order}, align 8") if order else ("", "")
        if word == "get":
            lines.append(f"  {result} = load {atomic}{kind}, ptr {place}{ordered}")
        elif word == "set":
            lines.append(f"  store {atomic}{kind} {given}, ptr {place}{ordered}")
        elif word == "change":
            before, after = given.split(" to ")
            failed = "acquire" if order == "acq_rel" else order
            lines.append(f"  %was{number} = cmpxchg ptr {place}, {kind} {before}, {kind} {after} {order} {failed}")
            lines.append(f"  {result} = extractvalue {{ {kind}, i1 }} %was{number}, 1")
    return "\n".join(lines)
