"""What tests need before they are collected."""

from importlib.util import find_spec

# First: of a file that is run alone, pytest would execute the module once more after its package has imported it, and
# examples would use another copy than the package does.
import lasagne_like  # noqa: F401

collect_ignore_glob = [] if find_spec("onnx") else ["scanjit/onnx/*"]
