"""Functions made of `grad`, `jvp` and `vmap`, and rules of the user's own."""

from scanjit.derivatives.custom import CustomVjp, custom_vjp
from scanjit.derivatives.jacobians import hessian, hvp, jacobian
from scanjit.derivatives.truncated import tbptt

__all__ = ["CustomVjp", "custom_vjp", "hessian", "hvp", "jacobian", "tbptt"]
