"""`model.rs`: the declarations for Rust, a module with the structs and an `extern` block."""

from __future__ import annotations

from scanjit.library.header import described
from scanjit.library.model import Array, Interface, stored
from scanjit.library.status import STATUSES

_MODULE = """\
//! {name}: a function of Python's, exported by scanjit. Written by a program: export it again instead of editing it.
//!
//! `mod {name};`, and link `lib{name}.a`. See `{name}.h` for what the functions ask for.
#![allow(dead_code, non_camel_case_types, non_snake_case)]

use core::ffi::{{c_char, c_int, c_void}};

{statuses}

pub const {guard}_ALIGNMENT: usize = 64;

{structs}

unsafe extern "C" {{
    pub fn {name}_workspace(sizes: *const {name}_sizes) -> usize;
    pub fn {name}_{call}(
        sizes: *const {name}_sizes,
        inputs: *const {name}_inputs,
        outputs: *const {name}_outputs,
        state: *mut {name}_state,
        workspace: *mut c_void,
        bytes: usize,
    ) -> c_int;
{of_state}    pub fn {name}_error(status: c_int) -> *const c_char;
}}
"""
_OF_STATE = """\
    pub fn {name}_state_size() -> usize;
    pub fn {name}_state_init(state: *mut {name}_state) -> c_int;
"""


def rust(face: Interface) -> str:
    """The text of the Rust module."""
    inputs = [(each, f"*const {_type(each)}") for each in face.given]
    outputs = [(each, f"*mut {_type(each)}") for each in face.given_back]
    state = [(each, f"[{_type(each)}; {max(variable.stored.size, 1)}]") for each, variable in face.state]
    fields = {
        "sizes": [f"    pub {made}: i64," for made in face.sizes.values()],
        "inputs": [_field(*pair) for pair in inputs],
        "outputs": [_field(*pair) for pair in outputs],
        "state": [_field(*pair) for pair in state],
    }
    return _MODULE.format(
        name=face.name,
        guard=face.guard,
        call=face.call,
        statuses="\n".join(f"pub const {face.guard}_{word}: c_int = {number};" for word, number, _ in STATUSES),
        structs="\n\n".join(_struct(f"{face.name}_{what}", lines) for what, lines in fields.items()),
        of_state=_OF_STATE.format(name=face.name) if state else "",
    )


def _type(each: Array) -> str:
    return stored(each.dtype).replace("int", "i").replace("ui", "u").replace("float", "f")


def _field(each: Array, type_: str) -> str:
    return f"    pub {each.name}: {type_}, // {described(each)}"


def _struct(name: str, fields: list[str]) -> str:
    body = "\n".join(fields) or "    _none: [u8; 0], // there is none: pass a null pointer"
    return f"#[repr(C)]\n#[derive(Clone, Copy, Debug)]\npub struct {name} {{\n{body}\n}}"
