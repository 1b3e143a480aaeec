"""Models of PyTorch and JAX as functions of one flat vector of weights: log-likelihoods, energies and outputs of many at once.

    log p(y|x,θ,β):  softmax(β z)_y  of classes,   N(y | μ, σ²/β)  of numbers
    U(θ) = −log N(θ | 0, σ_p²) − (n/|B|) Σ_B log p(y|x,θ)
"""

from __future__ import annotations

import copy
import math
from typing import Any, Dict, Optional, Tuple

import numpy as np

from .errors import InputError
from .sampling import _as_numpy, into

#: Numbers of outputs that are in memory at a time.
MOST_OUTPUTS = 1 << 22


class Targets:
    """What is to be predicted: classes from 0, or numbers with the variance of their noise."""

    def __init__(self, y: Any, noise_variance: float) -> None:
        values = _as_numpy(y, None)
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        if values.ndim != 1 or len(values) == 0:
            raise InputError(f"targets must be one number or class for each row, got an array of shape {list(values.shape)}")
        self.is_class = values.dtype.kind in "iub"
        if self.is_class and values.astype(np.int64).min() < 0:
            raise InputError("classes must be counted from 0")
        if not self.is_class and not np.isfinite(values).all():
            raise InputError("targets hold numbers that are not finite")
        if not (np.isfinite(noise_variance) and noise_variance > 0):
            raise InputError(f"noise_variance must be a finite number > 0, got {noise_variance!r}")
        self.values = values.astype(np.int64 if self.is_class else np.float32)
        self.noise_variance = float(noise_variance)

    def __len__(self) -> int:
        return len(self.values)

    def log_densities(self, outputs: np.ndarray, beta: float) -> np.ndarray:
        """log p(y|x,θ,β) of outputs [draws, rows, …]: an array [draws, rows]."""
        if self.is_class:
            logits = beta * outputs.astype(np.float64)
            largest = logits.max(axis=2, keepdims=True)
            logits -= largest + np.log(np.exp(logits - largest).sum(axis=2, keepdims=True))
            return logits[:, np.arange(len(self)), self.values]
        variance = self.noise_variance / beta
        distances = outputs.reshape(outputs.shape[:2]).astype(np.float64) - self.values
        return -0.5 * distances**2 / variance - 0.5 * math.log(2 * math.pi * variance)


def model_of(module: Any, train: Tuple[Any, Any], prior_variance: float, noise_variance: float) -> Any:
    """The model of a module of PyTorch, or of a pair `(apply, parameters)` of JAX."""
    if not (isinstance(train, (tuple, list)) and len(train) == 2):
        raise InputError("train must be a pair (inputs, targets)")
    if not (np.isfinite(prior_variance) and prior_variance > 0):
        raise InputError(f"prior_variance must be a finite number > 0, got {prior_variance!r}")
    targets = Targets(train[1], noise_variance)
    if len(train[0]) != len(targets):
        raise InputError(f"there are {len(train[0])} rows and {len(targets)} targets")
    if type(module).__module__.startswith("torch") or hasattr(module, "named_parameters"):
        return TorchModel(module, train[0], targets, prior_variance)
    if isinstance(module, (tuple, list)) and len(module) == 2 and callable(module[0]):
        return JaxModel(module[0], module[1], train[0], targets, prior_variance)
    raise InputError(
        "the model must be a torch.nn.Module, or a pair (apply, parameters) of JAX where apply(parameters, inputs) gives outputs; "
        f"got {type(module).__name__}"
    )


class _Model:
    """What both kinds share; `shapes` are those of θ's tensors by name."""

    shapes: Dict[str, tuple]
    dim: int

    def __init__(self, targets: Targets, prior_variance: float) -> None:
        self.targets, self.prior_variance = targets, float(prior_variance)

    @property
    def num_rows(self) -> int:
        return len(self.targets)

    def outputs(self, thetas: np.ndarray, x: Any) -> np.ndarray:
        """Outputs [draws, rows, …] of several θ."""
        raise NotImplementedError

    def validation_lpd(self, theta: np.ndarray, x: Any, targets: Targets, beta: float) -> float:
        """Mean log p(y|x,θ,β) of other rows."""
        return float(targets.log_densities(self.outputs(theta[None], x), beta).mean())

    def in_lots(self, thetas: np.ndarray, x: Any) -> Any:
        """Outputs of θ so many at a time that they stay in memory."""
        numbers = max(1, int(np.prod(self.outputs(thetas[:1], x).shape)))
        lot = max(1, MOST_OUTPUTS // numbers)
        for first in range(0, len(thetas), lot):
            yield self.outputs(thetas[first : first + lot], x)


class TorchModel(_Model):
    """A module of PyTorch, in inference mode; its parameters are θ, in their order."""

    def __init__(self, module: Any, x: Any, targets: Targets, prior_variance: float) -> None:
        super().__init__(targets, prior_variance)
        import torch

        self._torch = torch
        if any(isinstance(part, torch.nn.modules.batchnorm._BatchNorm) for part in module.modules()):
            raise InputError(
                "a batch norm makes the outputs of a row depend on the others, so there is no likelihood of rows; take GroupNorm or LayerNorm"
            )
        self._own = module
        self._module = copy.deepcopy(module).eval()
        self.shapes = {name: tuple(value.shape) for name, value in self._module.named_parameters()}
        self._device = next((value.device for value in self._module.parameters()), torch.device("cpu"))
        self.dim = sum(math.prod(shape) for shape in self.shapes.values())
        if self.dim == 0:
            raise InputError("the module has no parameters")
        self._x = torch.as_tensor(x, device=self._device)
        self._y = torch.as_tensor(targets.values, device=self._device)
        one = torch.func.grad_and_value(self._energy)
        self._batched: Any = torch.func.vmap(one, in_dims=(0, None, None, None))
        self._one = one

    def start(self, repetition: int, seed: int) -> np.ndarray:
        """The module's own parameters, and then fresh ones."""
        module = self._own
        if repetition > 0:
            module = copy.deepcopy(module)
            with self._torch.random.fork_rng(devices=[]):
                self._torch.manual_seed(seed * 1000 + repetition)
                for part in module.modules():
                    if hasattr(part, "reset_parameters"):
                        part.reset_parameters()
        flat = [value.detach().reshape(-1).to("cpu", self._torch.float32) for value in module.parameters()]
        return self._torch.cat(flat).numpy().copy()

    def _call(self, theta: Any, x: Any) -> Any:
        parameters, place = {}, 0
        for name, shape in self.shapes.items():
            size = math.prod(shape)
            parameters[name] = theta[place : place + size].reshape(shape)
            place += size
        return self._torch.func.functional_call(self._module, parameters, (x,))

    def _sum(self, z: Any, y: Any, beta: float) -> Tuple[Any, Any]:
        """Σ log p(y|x,θ,β), and its derivative in log β."""
        if self.targets.is_class:
            log_p = self._torch.log_softmax(beta * z, dim=-1)
            chosen = z.gather(1, y[:, None]).sum()
            return log_p.gather(1, y[:, None]).sum(), beta * (chosen - (log_p.exp() * z).sum())
        variance = self.targets.noise_variance / beta
        squares = ((z.reshape(y.shape) - y) ** 2).sum() / variance
        count = y.shape[0]
        return -0.5 * squares - 0.5 * count * math.log(2 * math.pi * variance), 0.5 * count - 0.5 * squares

    def _energy(self, theta: Any, x: Any, y: Any, weight: float) -> Any:
        prior = 0.5 * (theta**2).sum() / self.prior_variance + 0.5 * self.dim * math.log(2 * math.pi * self.prior_variance)
        return prior - weight * self._sum(self._call(theta, x), y, 1.0)[0]

    def _rows(self, rows: Optional[np.ndarray]) -> Tuple[Any, Any]:
        if rows is None:
            return self._x, self._y
        rows = self._torch.from_numpy(rows).to(self._device)
        return self._x[rows], self._y[rows]

    def _theta(self, theta: np.ndarray) -> Any:
        return self._torch.from_numpy(theta).to(self._device)

    def tempered(self, theta: np.ndarray, rows: Optional[np.ndarray], beta: float) -> Tuple[float, float, np.ndarray]:
        """Σ log p(y|x,θ,β) over some rows or all, its derivative in log β, and its gradient in θ."""
        x, y = self._rows(rows)
        point = self._theta(theta).requires_grad_()
        value, slope = self._sum(self._call(point, x), y, beta)
        (gradient,) = self._torch.autograd.grad(value, point)
        return float(value.detach()), float(slope.detach()), _as_numpy(gradient, np.float32)

    def energies(self, thetas: np.ndarray, rows: Optional[np.ndarray]) -> Tuple[np.ndarray, np.ndarray]:
        """U and ∇U of several θ on some rows or all: batched where the module allows it, else one after the other."""
        x, y = self._rows(rows)
        weight = self.num_rows / len(y)
        points = self._theta(thetas)
        if self._batched is not None:
            try:
                gradients, energies = self._batched(points, x, y, weight)
                return _as_numpy(energies, np.float64), _as_numpy(gradients, np.float32)
            except RuntimeError:
                self._batched = None
        found = [self._one(point, x, y, weight) for point in points]
        gradients = self._torch.stack([gradient for gradient, _ in found])
        return np.array([float(energy.detach()) for _, energy in found]), _as_numpy(gradients, np.float32)

    def outputs(self, thetas: np.ndarray, x: Any) -> np.ndarray:
        x = self._torch.as_tensor(x, device=self._device)
        with self._torch.no_grad():
            return np.stack([_as_numpy(self._call(self._theta(np.ascontiguousarray(theta)), x), np.float32) for theta in thetas])


class JaxModel(_Model):
    """A function `apply(parameters, inputs)` of JAX; the leaves of `parameters` are θ."""

    def __init__(self, apply: Any, parameters: Any, x: Any, targets: Targets, prior_variance: float) -> None:
        super().__init__(targets, prior_variance)
        import jax
        import jax.numpy as jnp
        from jax.flatten_util import ravel_pytree

        self._jnp, self._share = jnp, into("jax")
        flat, unravel = ravel_pytree(parameters)
        self._start = np.asarray(flat, dtype=np.float32)
        self.dim = int(flat.size)
        if self.dim == 0:
            raise InputError("there are no parameters")
        leaves = jax.tree_util.tree_flatten_with_path(parameters)[0]
        self.shapes = {jax.tree_util.keystr(path): tuple(np.shape(leaf)) for path, leaf in leaves}
        self._x, self._y = jnp.asarray(x), jnp.asarray(targets.values)

        def call(theta: Any, x: Any) -> Any:
            return apply(unravel(theta), x)

        def total(theta: Any, log_beta: Any, x: Any, y: Any) -> Any:
            z, beta = call(theta, x), jnp.exp(log_beta)
            if targets.is_class:
                return jnp.take_along_axis(jax.nn.log_softmax(beta * z, axis=-1), y[:, None], axis=1).sum()
            variance = targets.noise_variance / beta
            return (-0.5 * (z.reshape(y.shape) - y) ** 2 / variance - 0.5 * jnp.log(2 * jnp.pi * variance)).sum()

        def energy(theta: Any, x: Any, y: Any, weight: Any) -> Any:
            prior = 0.5 * (theta**2).sum() / prior_variance + 0.5 * self.dim * math.log(2 * math.pi * prior_variance)
            return prior - weight * total(theta, 0.0, x, y)

        self._tempered = jax.jit(jax.value_and_grad(total, argnums=(0, 1)))
        self._energies = jax.jit(jax.vmap(jax.value_and_grad(energy), in_axes=(0, None, None, None)))
        self._outputs = jax.jit(jax.vmap(call, in_axes=(0, None)))

    def start(self, repetition: int, seed: int) -> np.ndarray:
        """The parameters, and then fresh numbers that are spread as each tensor of them is."""
        if repetition == 0:
            return self._start.copy()
        rng = np.random.default_rng([seed, repetition])
        fresh, place = np.empty_like(self._start), 0
        for shape in self.shapes.values():
            size = math.prod(shape)
            own = self._start[place : place + size]
            fresh[place : place + size] = own.mean() + own.std() * rng.standard_normal(size)
            place += size
        return fresh

    def _rows(self, rows: Optional[np.ndarray]) -> Tuple[Any, Any]:
        return (self._x, self._y) if rows is None else (self._x[rows], self._y[rows])

    def tempered(self, theta: np.ndarray, rows: Optional[np.ndarray], beta: float) -> Tuple[float, float, np.ndarray]:
        """Σ log p(y|x,θ,β) over some rows or all, its derivative in log β, and its gradient in θ."""
        value, (gradient, slope) = self._tempered(self._jnp.asarray(theta), np.float32(math.log(beta)), *self._rows(rows))
        return float(value), float(slope), np.asarray(gradient, dtype=np.float32)

    def energies(self, thetas: np.ndarray, rows: Optional[np.ndarray]) -> Tuple[np.ndarray, np.ndarray]:
        """U and ∇U of several θ on some rows or all."""
        x, y = self._rows(rows)
        energies, gradients = self._energies(self._share(thetas), x, y, np.float32(self.num_rows / len(y)))
        return np.asarray(energies, dtype=np.float64), np.asarray(gradients, dtype=np.float32)

    def outputs(self, thetas: np.ndarray, x: Any) -> np.ndarray:
        return np.asarray(self._outputs(self._jnp.asarray(thetas), self._jnp.asarray(x)))
