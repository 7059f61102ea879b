"""Targets for tests."""

from dataclasses import replace

from scanjit.runtime import host
from scanjit.target import Target, target_for


def with_vectors(nbytes: int) -> Target:
    """This machine, with vectors of so many bytes."""
    here = host.target()
    return target_for(here.triple, here.name, here.features, nbytes)


def with_matrices() -> Target:
    """A processor whose registers hold matrices. Not every machine can run its code."""
    features = "+avx512f,+avx512vl,+avx512dq,+avx512bw,+avx512bf16,+avx512vnni,+amx-bf16,+amx-int8"
    return replace(target_for("x86_64-unknown-linux-gnu", "sapphirerapids", features), has_matrices=True)
