"""Generated code run as plain Python, every access checked against its buffer (`mode="emulate"`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scanjit.simd.emulate import Memory, load_source


def emulate(part: Any, layout: Any, arrays: Sequence[np.ndarray], made: Sequence[np.ndarray]) -> int:
    """Run a part of a program; returns its status. Every buffer is an allocation of its own."""
    memory = Memory()
    table = np.array(layout.table)
    for i, array in zip(part.inputs, arrays, strict=True):
        if i is not None:
            table[i] = memory.add(array, writable=False, name="input")
    for i, array in zip(part.outputs, made, strict=True):
        if i is not None:
            table[i] = memory.add(array, name="output")
    for i, data in part.constants:
        table[i] = memory.add(data, writable=False, name="constant")
    for i, life, size in zip(part.temporary, part.lives, layout.sizes, strict=True):
        table[i] = memory.allocate(size, life.buffer.name)
    status = np.zeros(1, np.int64)
    if part.status is not None:
        table[part.status] = memory.add(status, name="status", raced=True)
    functions: dict[str, Any] = {}
    for source in part.code.functions:
        module = load_source(source.text, memory, source.name)
        module.update({name: functions[name] for name in source.calls})
        functions[source.name] = module[source.name]
    functions[part.code.main.name](memory.add(table, writable=False, name="table"), 0, 1, 0)
    return int(status[0])
