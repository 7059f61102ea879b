"""The engines that are compared: for each a file that makes programs of what the cases write for it.

They are imported in workers only (`benchmarks.worker`), each where its library is; what a case imports at its top must
not need any of them.
"""

PACKAGES = {
    "scanjit": "scanjit",
    "torch": "torch",
    "jax": "jax",
    "onnxruntime": "onnxruntime",
    "openvino": "openvino",
    "tensorflow": "tensorflow",
    "pytensor": "pytensor",
    "numba": "numba",
    "numpy": "numpy",
    "lasagne_like": "lasagne_like",
    "float32": "scanjit",
    "scipy": "scipy",
    "torchlpc": "torchlpc",
    "xlstm": "xlstm",
    "tirex": "tirex2",
    **{name: name for name in ("jaxopt", "arch", "statsmodels", "statsforecast")},
}
"""For each engine the package that it needs."""

TITLES = {
    "scanjit": "scanjit",
    "torch": "PyTorch",
    "jax": "JAX",
    "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO",
    "tensorflow": "TensorFlow",
    "pytensor": "PyTensor",
    "numba": "Numba, by hand",
    "numpy": "NumPy, by hand",
    "lasagne_like": "lasagne_like",
    "float32": "scanjit, float32",
    "scipy": "SciPy",
    "torchlpc": "torchlpc",
    "xlstm": "xlstm",
    "tirex": "TiRex 2",
}

REQUIREMENTS = {
    "torch": ("torch>=2.15",),
    "jax": ("jax>=0.11",),
    "onnxruntime": ("onnxruntime>=1.31", "onnx", "ddddocr"),
    "openvino": ("openvino>=2026.0", "onnx"),
    "tensorflow": ("tensorflow-cpu>=2.20",),
    "pytensor": ("pytensor",),
    "numba": ("numba",),
    "scipy": ("scipy>=1.16",),
    "torchlpc": ("torch>=2.15", "--no-binary=torchlpc", "torchlpc>=0.7"),
    "xlstm": ("torch>=2.15", "xlstm>=2"),
    "tirex": ("torch>=2.15", "tirex-2>=0.4"),
    "jaxopt": ("jax>=0.11", "jaxopt>=0.8"),
    "arch": ("arch>=8", "joblib"),
    "statsmodels": ("statsmodels>=0.15",),
    "statsforecast": ("statsforecast>=2.1",),
}
"""For each engine what is installed in an environment of its own: what was new when these benchmarks were written.
Of torchlpc there is only the source, which pip builds beside a PyTorch of its own."""

PEERS = ("torch", "jax", "onnxruntime", "openvino", "tensorflow", "pytensor")
"""Whom the targets compare with. Loops by hand are shown where there are some: they are what one would otherwise write,
and no library."""
BY_HAND = ("numba", "numpy")
SPECIAL = ("scipy", "torchlpc", "xlstm", "tirex")
"""Libraries for one kind of recurrence: they take part in the cases named `special` alone."""
OWN = {"layers": "lasagne_like", "narrow": "float32"}
"""Other ways to compute with scanjit that are shown beside it, by the word of the cases in which they take part."""
