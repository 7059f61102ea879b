"""Generated code run as plain Python, every access checked against its buffer (`mode="emulate"`)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from scanjit.codegen.generate import Generated
from scanjit.runtime.sized import Sized
from scanjit.runtime.table import EntryTable
from scanjit.simd.emulate import Allocations, MemoryFault, load_source


def emulate(
    code: Generated, table: EntryTable, sized: Sized, arrays: Sequence[np.ndarray], made: Sequence[np.ndarray]
) -> tuple[int, list[np.ndarray]]:
    """Run generated code. Every buffer is an allocation of its own. Returns the status, and arrays like the `made` ones
    with a 1 in each byte that was written."""
    memory = Allocations()
    entries = np.array(sized.entries)
    inputs = [memory.add(array, writable=False, name="input") for array in arrays]
    outputs = [memory.add(array, name="output", tracked=True) for array in made]
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
    written = [
        memory.written(at).view(array.dtype).reshape(array.shape) for at, array in zip(outputs, made, strict=True)
    ]
    return int(status[0]), written


def check_written(written: Sequence[np.ndarray]) -> None:
    """Raise an error for a result that generated code has not written whole."""
    for i, result in enumerate(written):
        if not np.ascontiguousarray(result).view(np.uint8).all():
            raise MemoryFault(f"result {i} has elements that nothing has written")
