"""Generated code run as plain Python, every access checked against its buffer (`mode="emulate"`)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from scanjit.codegen.generate import Generated
from scanjit.runtime.sized import Sized
from scanjit.runtime.table import EntryTable
from scanjit.simd.emulate import Allocations, load_source


def emulate(
    code: Generated, table: EntryTable, sized: Sized, arrays: Sequence[np.ndarray], made: Sequence[np.ndarray]
) -> int:
    """Run generated code; returns its status. Every buffer is an allocation of its own."""
    memory = Allocations()
    entries = np.array(sized.entries)
    inputs = [memory.add(array, writable=False, name="input") for array in arrays]
    outputs = [memory.add(array, name="output") for array in made]
    temporaries = [
        memory.allocate(size, life.buffer.name, life.buffer.row is None)
        for life, size in zip(table.lives, sized.nbytes, strict=True)
    ]
    for places, found in ((table.inputs, inputs), (table.outputs, outputs), (table.temporaries, temporaries)):
        for i, which in places:
            entries[i] = found[which]
    for i, data in table.constants:
        entries[i] = memory.add(data, writable=False, name="constant")
    status = np.zeros(1, np.int64)
    entries[table.status] = memory.add(status, name="status", raced=True)
    functions: dict[str, Any] = {}
    for source in code.functions:
        module = load_source(source.text, memory, source.name)
        module.update({name: functions[name] for name in source.calls})
        functions[source.name] = module[source.name]
    functions[code.main.name](memory.add(entries, writable=False, name="table"), 0, 1, 0)
    return int(status[0])
