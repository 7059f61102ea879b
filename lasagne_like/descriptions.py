"""Descriptions of parameters that several classes share: one docstring has them, and the others take them over."""

import inspect


def completed(doc: str | None, source: type) -> str:
    """A docstring, in which the word COMMON is replaced by the docstring of `source` without its first line.

    `COMMON 1` is replaced by the first paragraph of that text, `COMMON 2` by the second.

    Examples
    --------
    >>> from lasagne_like.descriptions import completed
    >>> class Base:
    ...     '''What the layers share.
    ...
    ...     num_units : int
    ...
    ...     name : str
    ...     '''
    >>> print(completed("A layer.\\n\\nCOMMON 1\\nstate : str\\nCOMMON 2", Base))
    A layer.
    <BLANKLINE>
    num_units : int
    state : str
    name : str
    """
    whole = inspect.cleandoc(source.__doc__ or "").partition("\n\n")[2]
    text = inspect.cleandoc(doc or "")
    for i, paragraph in enumerate(whole.split("\n\n"), 1):
        text = text.replace(f"COMMON {i}", paragraph)
    return text.replace("COMMON", whole)
