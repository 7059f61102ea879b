"""New sizes: of a name, without one, of an axis, of a counter, of the value of a node."""

import weakref

from scanjit.signatures import NodeBelow
from scanjit.types.dims import Atom, Dim, dim_of

_named: dict[str, Atom] = {}


def size(name: str | None = None) -> Dim:
    """The dimension of a name (the same for equal names), or a new anonymous one."""
    return anonymous_size() if name is None else dim_of(named_atom(name))


def anonymous_size(label: str | None = None) -> Dim:
    """A new dimension. It is shown as the label, or as `n` and a number."""
    return dim_of(Atom("size", label))


def axis_size(tensor: str | None, axis: int) -> Dim:
    """A new dimension: the size of an axis of a tensor with this name.

    Examples
    --------
    >>> axis_size("x", 0)
    x.shape[0]
    """
    return anonymous_size(None if tensor is None else f"{tensor}.shape[{axis}]")


def counter(word: str) -> Dim:
    """A new dimension that changes while a program runs. It is shown as the word."""
    return dim_of(Atom("counter", word))


def named_atom(name: str) -> Atom:
    return _named.get(name) or _named.setdefault(name, Atom("size", name))


def is_named(atom: Atom) -> bool:
    """Whether an atom is a named size, rather than an anonymous one."""
    return _named.get(atom.name) is atom


def label(atom: Atom) -> str | None:
    """The text for an anonymous size; None if it is shown as a number."""
    return None if is_named(atom) or atom.name == f"n{atom.serial}" else atom.name


def value_dim(node: NodeBelow, name: str, not_negative: bool = False) -> Dim:
    """The dimension that stands for the value of a scalar integer node, which may be known not to be negative. It holds
    a reference to the node."""
    atom = node.dim_atom
    if atom is None:
        atom = Atom("value", name, node=node, not_negative=not_negative)
        node.dim_ref = weakref.ref(atom)
    return dim_of(atom)
