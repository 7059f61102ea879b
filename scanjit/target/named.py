"""Targets by the names that users give them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from scanjit.target.value import Target, target_for

LEVELS: Mapping[str, tuple[str, ...]] = {
    "v1": (),
    "v2": ("sse3", "ssse3", "sse4.1", "sse4.2", "popcnt"),
    "v3": ("avx", "avx2", "fma", "bmi", "bmi2", "lzcnt", "movbe", "f16c"),
    "v4": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
}
"""The levels of x86-64, and the instructions that each adds to those of the levels before."""
_SYSTEMS = {"linux": "unknown-linux-gnu", "windows": "pc-windows-msvc", "macos": "apple-macosx11.0.0"}
_OTHERS: Mapping[str, Mapping[str, str | int]] = {
    "aarch64-linux": {"triple": "aarch64-unknown-linux-gnu"},
    "arm64-macos": {"triple": "arm64-apple-macosx11.0.0", "name": "apple-m1"},
    "arm64-windows": {"triple": "aarch64-pc-windows-msvc"},
    "armv7-linux": {"triple": "armv7-unknown-linux-gnueabihf"},
    "riscv64-linux": {"triple": "riscv64-unknown-linux-gnu", "features": "+m,+a,+f,+d,+c"},
    "wasm32": {"triple": "wasm32-unknown-unknown", "features": "+simd128"},
    "cortex-m4": {"triple": "thumbv7em-none-eabihf", "name": "cortex-m4", "level1_bytes": 2**12, "level2_bytes": 2**14},
    "cortex-m7": {"triple": "thumbv7em-none-eabihf", "name": "cortex-m7", "level1_bytes": 2**14, "level2_bytes": 2**16},
}
NAMES = ("x86-64-v2", "x86-64-v3", "x86-64-v4", *(f"x86_64-{system}" for system in _SYSTEMS), *_OTHERS)
"""The names of all targets. Those that begin with `x86_64-` may also end with a level: `x86_64-windows-v3`."""


def target_named(name: str, system: str = "linux") -> Target | None:
    """The target of a name; None if it is none. `system` is that of names which leave it out, such as `x86-64-v3`.

    Examples
    --------
    >>> target_named("x86_64-windows-v3").lanes(4), target_named("cortex-m4").lanes(4), target_named("z80")
    (8, 1, None)
    """
    if name in _OTHERS:
        return target_for(**_OTHERS[name])  # type: ignore[arg-type]
    found = re.fullmatch(rf"x86[-_]64(?:-({'|'.join(_SYSTEMS)}))?(?:-(v\d))?", name)
    if found is None or (found[2] or "v1") not in LEVELS:
        return None
    level = found[2] or ("v1" if found[1] is None else "v2")
    features = [feature for other, some in LEVELS.items() if other <= level for feature in some]
    return target_for(
        f"x86_64-{_SYSTEMS[found[1] or system]}",
        "x86-64" if level == "v1" else f"x86-64-{level}",
        ",".join(f"+{feature}" for feature in features),
    )
