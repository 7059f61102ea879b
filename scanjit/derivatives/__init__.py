"""What is made of `grad`, `jvp` and `vmap`, and rules of the user's own."""

from scanjit.derivatives.custom import CustomVjp, custom_vjp

__all__ = ["CustomVjp", "custom_vjp"]
