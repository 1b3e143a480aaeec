"""Times a network's SGHMC steps in PyTorch: steps in a CUDA graph, eager and through torch.compile.

Chains of dense networks are batched products. Of other networks one chain is moved: others take as long each.
"""
from networks import network, padding, settled
from serving import LEARNING_RATE, MOMENTUM, NOISE_STD, NOISE_VARIANCE, PRIOR_VARIANCE, repeated, serve, steps_of_a_call, worker_options

options = worker_options()
import torch
from torch.nn import functional

device = torch.device(options.device)
torch.manual_seed(0)
torch.backends.cudnn.benchmark = True
torch.set_float32_matmul_precision("high")
ACTIVATIONS = {"relu": functional.relu, "tanh": torch.tanh, "gelu": functional.gelu, "silu": functional.silu}


def padded(x, kernel, stride, value=0.0):
    """The image with what must be added on sides that differ, and the padding that the operation itself does."""
    (above, below), (left, right) = (padding(size, kernel, stride) for size in x.shape[2:])
    if above == below == left == right:
        return x, above
    return functional.pad(x, (left, right, above, below), value=value), 0


def applied(layers, p, statistics, x, prefix=""):
    """Outputs for images, channels before pixels."""
    for number, layer in enumerate(layers):
        (kind, settings), name = settled(layer), f"{prefix}{number}"
        part = lambda suffix: p[f"{name}.{suffix}"]
        if kind == "conv":
            stride = settings.get("stride", 1)
            x, around = padded(x, settings["kernel"], stride)
            x = functional.conv2d(x, part("w"), part("b"), stride, around, groups=settings.get("groups", 1))
        elif kind == "dense":
            x = functional.linear(x.flatten(1), part("w"), part("b"))
        elif kind in ACTIVATIONS:
            x = ACTIVATIONS[kind](x)
        elif kind == "threshold":
            x = torch.maximum(x, part("threshold")[:, None, None].to(x.dtype))
        elif kind == "filter_response_norm":
            wide = x.float()
            wide = wide * torch.rsqrt(wide.square().mean((2, 3), keepdim=True) + 1e-6)
            x = (wide * part("scale")[:, None, None] + part("offset")[:, None, None]).to(x.dtype)
        elif kind == "group_norm":
            x = functional.group_norm(x, settings["groups"], part("scale"), part("offset"))
        elif kind == "layer_norm":
            x = functional.layer_norm(x.movedim(1, -1), (x.shape[1],), part("scale"), part("offset")).movedim(-1, 1)
        elif kind == "batch_norm":
            mean, variance = statistics[name]
            x = functional.batch_norm(x, mean, variance, part("scale"), part("offset"), training=True, momentum=0.01, eps=1e-5)
        elif kind == "avg_pool":
            x = functional.avg_pool2d(x, settings["size"])
        elif kind == "max_pool":
            size, stride = settings["size"], settings.get("stride", settings["size"])
            x, around = padded(x, size, stride, float("-inf"))
            x = functional.max_pool2d(x, size, stride, around)
        elif kind == "global_avg_pool":
            x = x.mean((2, 3))
        elif kind == "residual":
            body = applied(settings["body"], p, statistics, x, name + ".body.")
            x = body + applied(settings.get("shortcut", []), p, statistics, x, name + ".shortcut.")
    return x


class Chains:
    """Parameters with their momenta, and a function that gives the energy of fresh rows."""

    def __init__(self, shapes, rows, energy):
        # Kernels of convolutions lie as channels_last wants them, and so do their momenta.
        placed = lambda part: part.contiguous(memory_format=torch.channels_last) if part.dim() == 4 else part
        self.position = {name: placed(scale * torch.randn(shape, device=device)).requires_grad_() for name, (shape, scale) in shapes.items()}
        self.momentum = [torch.zeros_like(part) for part in self.position.values()]
        self.step_size, self.energy = (LEARNING_RATE / rows) ** 0.5, energy

    def step(self):
        parts = list(self.position.values())
        slope = list(torch.autograd.grad(self.energy(self.position), parts))
        with torch.no_grad():
            noise = [torch.randn_like(part) for part in parts]
            torch._foreach_add_(slope, parts, alpha=1 / PRIOR_VARIANCE)
            torch._foreach_mul_(self.momentum, MOMENTUM)
            torch._foreach_add_(self.momentum, slope, alpha=-self.step_size)
            torch._foreach_add_(self.momentum, noise, alpha=NOISE_STD)
            torch._foreach_add_(parts, self.momentum, alpha=self.step_size)


def examples(net):
    if net.images:
        x = torch.randint(0, 256, (net.rows, *net.input), device=device, dtype=torch.uint8)
    else:
        x = torch.randn(net.rows, *net.input, device=device)
    if net.classifies:
        return x, torch.randint(0, net.outputs, (net.rows,), device=device)
    return x, torch.tanh(x @ torch.randn(net.input, device=device) / net.input[0] ** 0.5)


def dense_chains(net, chains, compiles):
    """Chains of a dense network, as products of batches of matrices."""
    x, y = examples(net)
    x = x.reshape(net.rows, -1)
    low = getattr(torch, options.precision) if net.images else torch.float32

    def outputs(p, h):
        for number, layer in enumerate(net.layers):
            kind, _ = settled(layer)
            h = torch.baddbmm(p[f"{number}.b"].to(h.dtype), h, p[f"{number}.w"].to(h.dtype)) if kind == "dense" else ACTIVATIONS[kind](h)
        return h.float()

    forward = torch.compile(outputs) if compiles else outputs

    def energy(p):
        if net.batch is None:
            own_x, own_y = x.expand(chains, *x.shape), y.expand(chains, -1)
        else:
            picked = torch.randint(0, net.rows, (chains, net.batch), device=device)
            own_x, own_y = x[picked], y[picked]
        found = forward(p, own_x.to(low) / 255 if net.images else own_x)
        weight = net.rows / own_y.shape[1]
        if net.classifies:
            return weight * functional.cross_entropy(found.flatten(0, 1), own_y.flatten(), reduction="sum")
        return 0.5 * weight / NOISE_VARIANCE * (found.squeeze(2) - own_y).square().sum()

    shapes = {}
    for name, shape in net.shapes().items():
        shapes[name] = ((chains, *shape), shape[0] ** -0.5) if len(shape) == 2 else ((chains, 1, *shape), 0.1)
    return Chains(shapes, net.rows, energy)


def image_chain(net, compiles):
    """One chain of a network that reads images."""
    low = getattr(torch, options.precision)
    # Convolutions are (filters, inputs, height, width) here, products (outputs, inputs).
    shapes = {}
    for name, shape in net.shapes().items():
        fan = 1
        for size in shape[:-1]:
            fan *= size
        turned = (shape[3], shape[2], *shape[:2]) if len(shape) == 4 else tuple(reversed(shape))
        shapes[name] = (turned, fan**-0.5 if len(shape) > 1 else 0.1)
    x, y = examples(net)
    images = x.permute(0, 3, 1, 2)
    norms = {name[: -len(".scale")]: shape for name, (shape, _) in shapes.items() if name.endswith(".scale")}
    statistics = {name: (torch.zeros(shape, device=device), torch.ones(shape, device=device)) for name, shape in norms.items()}
    outputs = lambda p, pixels: applied(net.layers, p, statistics, pixels)
    forward = torch.compile(outputs) if compiles else outputs

    def energy(p):
        picked = torch.randint(0, net.rows, (net.batch,), device=device)
        pixels = images[picked].to(low).div_(255).contiguous(memory_format=torch.channels_last)
        with torch.autocast(device.type, low, enabled=low != torch.float32, cache_enabled=False):
            found = forward(p, pixels)
        return functional.cross_entropy(found.float(), y[picked]) * net.rows

    return Chains(shapes, net.rows, energy)


def prepared(case, chains, way):
    net = network(case)
    torch._dynamo.reset()
    population = dense_chains(net, chains, way == "compiled") if net.is_dense else image_chain(net, way == "compiled")
    steps, captured = steps_of_a_call(net, chains, options.device), 10
    if options.device == "cpu":
        call = lambda: [population.step() for _ in range(steps)]
    else:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                population.step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(captured):
                population.step()

        def call():
            for _ in range(steps // captured):
                graph.replay()
            torch.cuda.synchronize()

        steps = steps // captured * captured

    def timed():
        microseconds = repeated(call, steps, chains, options.seconds)
        assert all(bool(part.isfinite().all()) for part in population.position.values()), "a chain left the finite numbers"
        return microseconds

    return timed


def ways(case, chains):
    net = network(case)
    names = ["graph", "compiled"] if net.images and options.device == "cuda" else ["graph"]
    return [(case, chains if net.is_dense else 1, way) for way in names]


if __name__ == "__main__":
    assert options.device == "cpu" or torch.cuda.is_available(), "PyTorch sees no GPU"
    # Work is captured on one thread.
    serve(f"PyTorch {torch.__version__.split('+')[0]}", ways, prepared, threads=1)
