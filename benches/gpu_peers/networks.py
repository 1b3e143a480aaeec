"""The networks that peers are timed on: those of kelvin's benchmark, and any experiment file's.

A network is a list of layers as an experiment file writes them; `shapes` names its parameters, and `images` says whether it reads
pixels or rows of numbers.
"""
import math
import pathlib
import tomllib
from dataclasses import dataclass

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "gpu_networks"
IMAGES = {"mnist": (28, 28, 1), "fashion-mnist": (28, 28, 1), "cifar10": (32, 32, 3)}
CLASSES = 10


def dense(hidden, outputs):
    return [layer for units in hidden for layer in ({"dense": {"units": units}}, "relu")] + [{"dense": {"units": outputs}}]


def conv(filters, kernel, stride=1):
    return {"conv": {"filters": filters, "kernel": kernel, "stride": stride}}


MNIST_CNN = [conv(32, 3), "relu", {"avg_pool": {"size": 2}}, conv(64, 3), "relu", {"avg_pool": {"size": 2}}, *dense([256], CLASSES)]


def resnet(depth):
    unit = lambda filters, kernel, stride=1: [conv(filters, kernel, stride), "batch_norm"]
    layers = [*unit(16, 3), "relu"]
    for filters in (16, 32, 64):
        for block in range((depth - 2) // 6):
            stride = 2 if filters > 16 and block == 0 else 1
            body = [*unit(filters, 3, stride), "relu", *unit(filters, 3)]
            layers += [{"residual": {"body": body, "shortcut": unit(filters, 1, stride) if stride == 2 else []}}, "relu"]
    return [*layers, "global_avg_pool", {"dense": {"units": CLASSES}}]


def wide_resnet(depth, width):
    layers, channels, before = [conv(16, 3)], 16, ["batch_norm", "relu"]
    for narrow in (16, 32, 64):
        filters = narrow * width
        for block in range((depth - 4) // 6):
            stride = 2 if narrow > 16 and block == 0 else 1
            same = channels == filters and stride == 1
            layers += [] if same else before
            body = (before if same else []) + [conv(filters, 3, stride), *before, conv(filters, 3)]
            layers.append({"residual": {"body": body, "shortcut": [] if same else [conv(filters, 1, stride)]}})
            channels = filters
    return [*layers, *before, "global_avg_pool", {"dense": {"units": CLASSES}}]


def settled(layer):
    """Kind and settings of a layer, which may be written as its name alone."""
    return (layer, {}) if isinstance(layer, str) else next(iter(layer.items()))


@dataclass
class Network:
    """What peers are timed on; `batch` of None stands for all rows."""

    name: str
    layers: list
    input: tuple
    outputs: int
    rows: int
    batch: int | None

    @property
    def images(self):
        return len(self.input) == 3

    @property
    def is_dense(self):
        return all(settled(layer)[0] in ("dense", "relu", "tanh", "gelu", "silu") for layer in self.layers)

    @property
    def classifies(self):
        return self.outputs > 1

    def shapes(self):
        """Name and shape of every parameter; convolutions are (height, width, inputs of a group, filters)."""
        found = {}
        output = self._shapes(self.layers, self.input, "", found)
        assert output == (self.outputs,), f"{self.name} has {output} outputs"
        return found

    def _shapes(self, layers, shape, prefix, found):
        for number, layer in enumerate(layers):
            (kind, settings), name = settled(layer), f"{prefix}{number}"
            if kind == "conv":
                stride, filters, kernel = settings.get("stride", 1), settings["filters"], settings["kernel"]
                found[name + ".w"] = (kernel, kernel, shape[2] // settings.get("groups", 1), filters)
                found[name + ".b"] = (filters,)
                shape = (math.ceil(shape[0] / stride), math.ceil(shape[1] / stride), filters)
            elif kind == "dense":
                found[name + ".w"], found[name + ".b"] = (math.prod(shape), settings["units"]), (settings["units"],)
                shape = (settings["units"],)
            elif kind in ("batch_norm", "group_norm", "layer_norm", "filter_response_norm"):
                found[name + ".scale"] = found[name + ".offset"] = (shape[-1],)
            elif kind == "threshold":
                found[name + ".threshold"] = (shape[-1],)
            elif kind == "avg_pool":
                shape = (shape[0] // settings["size"], shape[1] // settings["size"], shape[2])
            elif kind == "max_pool":
                stride = settings.get("stride", settings["size"])
                shape = (math.ceil(shape[0] / stride), math.ceil(shape[1] / stride), shape[2])
            elif kind == "global_avg_pool":
                shape = (shape[2],)
            elif kind == "residual":
                after = self._shapes(settings["body"], shape, name + ".body.", found)
                beside = self._shapes(settings.get("shortcut", []), shape, name + ".shortcut.", found)
                assert after == beside, f"{self.name}: a residual of {after} and {beside}"
                shape = after
            elif kind not in ("relu", "tanh", "gelu", "silu"):
                raise ValueError(f"{self.name}: peers know no layer `{kind}`")
        return shape


def padding(size, kernel, stride):
    """Zeros before and after an image's side, as kelvin, TensorFlow and Flax place them."""
    total = max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


def read(path):
    """The network of an experiment file about images."""
    with open(path, "rb") as file:
        settings = tomllib.load(file)
    model, source = settings["model"], settings["data"]["source"]
    if source not in IMAGES:
        raise SystemExit(f"{path}: made-up images stand for {', '.join(IMAGES)}; this one reads `{source}`")
    named = model.get("network", "dense")
    if "layers" in model:
        layers = model["layers"]
    elif named == "dense":
        layers = dense(model.get("hidden", [64]), CLASSES)
    elif named == "mnist-cnn":
        layers = MNIST_CNN
    elif named.startswith("resnet-"):
        layers = resnet(int(named.split("-")[1]))
    else:
        layers = wide_resnet(*map(int, named.split("-")[2:]))
    name = pathlib.Path(path).stem
    return Network(name, layers, IMAGES[source], CLASSES, 1024, settings["sampler"]["batch_size"])


BENCHMARK = {
    "8-64-1/824": Network("8-64-1/824", dense([64], 1), (8,), 1, 824, None),
    "14-64-1/128": Network("14-64-1/128", dense([64], 1), (14,), 1, 9547, 128),
    "8-64-64-1/824": Network("8-64-64-1/824", dense([64, 64], 1), (8,), 1, 824, None),
    "30-128-128-3/128": Network("30-128-128-3/128", dense([128, 128], 3), (30,), 3, 4096, 128),
    "784-256-256-10/128": Network("784-256-256-10/128", dense([256, 256], 10), (28, 28, 1), 10, 1024, 128),
    "mnist-cnn": Network("mnist-cnn", MNIST_CNN, (28, 28, 1), 10, 1024, 128),
    "resnet20": Network("resnet20", resnet(20), (32, 32, 3), 10, 1024, 128),
}


def others():
    """The experiment files beside the benchmark, by name."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.toml"))}


def network(case):
    """A case of the benchmark, or the network of an experiment file (its path, or its name in `gpu_networks`)."""
    return BENCHMARK.get(case) or read(others().get(case, case))
