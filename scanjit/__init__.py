"""Loops over time, compiled: recurrences written in Python, with gradients, at the speed of hand-written kernels."""

import importlib as _importlib
import typing as _typing
from types import ModuleType as _Module

from scanjit import (
    random as random,  # a module: sj.random.Stream
    show as show,  # a module: sj.show.Document
    tracebacks as _tracebacks,
)
from scanjit.arrays import check_unmasked
from scanjit.autodiff import grad, jvp, vjp
from scanjit.batching import vmap
from scanjit.config import config
from scanjit.derivatives import CustomVjp, custom_vjp, hessian, hvp, jacobian, tbptt
from scanjit.errors import (
    ArgumentError,
    AssertError,
    DtypeError,
    FormatError,
    FunctionError,
    GradientError,
    InternalError,
    NonFiniteError,
    NotSupportedError,
    OutOfBoundsError,
    ScanError,
    ScanjitError,
    ShapeError,
    from_signal_handler,
    not_from_signal_handler,
)
from scanjit.export import export_numpy
from scanjit.guests import from_numba
from scanjit.ir import Node
from scanjit.library import export_library
from scanjit.loops import *  # noqa: F403
from scanjit.loops import __all__ as _loops
from scanjit.precision import mixed
from scanjit.runtime import threadpool as _threadpool
from scanjit.runtime.files import replace_file
from scanjit.runtime.function import CompiledFunction, function
from scanjit.runtime.gradcheck import check_grad
from scanjit.runtime.jit import jit, value_and_grad
from scanjit.runtime.loading import load
from scanjit.runtime.printing import dprint
from scanjit.runtime.shared import SharedVariable, set_values, shared
from scanjit.show import pprint
from scanjit.streaming import StepFunction, step_function
from scanjit.symbol import TensorLike
from scanjit.tensor import *  # noqa: F403
from scanjit.tensor import (
    NAMES as _tensor,
    tensor as tensor,  # the function, not the package of that name
)
from scanjit.tensor.foreign import NAMES as _FOREIGN
from scanjit.tensor.probes import assert_, print_
from scanjit.version import __version__ as __version__

__all__ = [
    "ArgumentError",
    "AssertError",
    "CompiledFunction",
    "CustomVjp",
    "DtypeError",
    "FormatError",
    "FunctionError",
    "GradientError",
    "InternalError",
    "Node",
    "NonFiniteError",
    "NotSupportedError",
    "OutOfBoundsError",
    "ScanError",
    "ScanjitError",
    "ShapeError",
    "SharedVariable",
    "StepFunction",
    "TensorLike",
    "assert_",
    "check_grad",
    "check_unmasked",
    "config",
    "custom_vjp",
    "dprint",
    "export_library",
    "export_numpy",
    "from_numba",
    "from_signal_handler",
    "function",
    "grad",
    "hessian",
    "hvp",
    "jacobian",
    "jit",
    "jvp",
    "load",
    "mixed",
    "not_from_signal_handler",
    "pprint",
    "print_",
    "replace_file",
    "set_values",
    "shared",
    "step_function",
    "tbptt",
    "value_and_grad",
    "vjp",
    "vmap",
    *_loops,
    *_tensor,
]

_threadpool.watch()
_tracebacks.install()


if _typing.TYPE_CHECKING:
    from scanjit import (
        frames as frames,
        jax as jax,
        onnx as onnx,
        optimize as optimize,
        parallel as parallel,
        plot as plot,
        pytensor as pytensor,
        timeseries as timeseries,
        torch as torch,
    )
else:

    def __getattr__(name: str) -> _Module:
        """These are imported when they are first used."""
        if name in ("frames", "jax", "onnx", "optimize", "parallel", "plot", "pytensor", "timeseries", "torch"):
            return _importlib.import_module(f"scanjit.{name}")
        hint = f": write {_FOREIGN[name]}" if name in _FOREIGN else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
