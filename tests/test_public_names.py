"""The public names: `import scanjit as sj` offers them, once each, documented."""

import inspect

import scanjit as sj


def test_public_names_exist_and_are_documented():
    assert len(set(sj.__all__)) == len(sj.__all__)
    for name in sj.__all__:
        value = getattr(sj, name)
        assert not inspect.ismodule(value), name
        assert inspect.getdoc(value), f"{name} has no docstring"


def test_names_that_are_modules_too_are_functions():
    assert callable(sj.tensor) and callable(sj.function) and callable(sj.jit) and callable(sj.shared)
