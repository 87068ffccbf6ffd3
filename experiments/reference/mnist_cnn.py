#!/usr/bin/env python3
"""Client-aware aggregation on MNIST with the CNN, in PyTorch: a reference for `aggregation-mnist-*.toml`.

The study of A. Ferrara's thesis (sec. 5.5) at its full size, which needs a GPU. It follows the definitions of
docs/experiments.md and shares no code with Sottovoce: full batches, local epochs, a tenth of 100 clients a round,
updates weighted by criteria in order of priority. It prints one JSON line a training: the first round after which each
fraction of the clients has reached each accuracy on its own test images, and the best global accuracy.

    python3 mnist_cnn.py MNIST_FOLDER --partition shards-mixed-test --network cnn-linear --rate 0.1 --rounds 300 \\
        --seeds 1 2 3 --closeness mwk

Numbers differ from Sottovoce's in the last digits of 32-bit arithmetic (TF32 on recent GPUs), and in the random draws.
"""

import argparse
import gzip
import itertools
import json
import struct
import time

import numpy as np
import torch
import torch.nn.functional as F

CLIENTS, SHARE, EPOCHS = 100, 0.1, 5
TARGETS = [0.7, 0.8, 0.9, 0.95]
FRACTIONS = [n / 10 for n in range(1, 10)]


def idx(path):
    with gzip.open(path) as file:
        kind, = struct.unpack(">I", file.read(4))
        shape = struct.unpack(f">{kind & 255}I", file.read(4 * (kind & 255)))
        return np.frombuffer(file.read(), np.uint8).reshape(shape)


def mnist(folder):
    parts = []
    for name in ["train", "t10k"]:
        images, labels = (idx(f"{folder}/{name}-{kind}-ubyte.gz") for kind in ["images-idx3", "labels-idx1"])
        parts.append((torch.tensor(images, dtype=torch.float32).unsqueeze(1) / 255, torch.tensor(labels).long()))
    return parts


def partition(kind, train_labels, test_labels, rng):
    """Lists of training and of test images, one of each a client."""
    def dealt(order, clients):
        return [part.astype(np.int64) for part in np.array_split(order, clients)]

    if kind == "iid":
        return dealt(rng.permutation(len(train_labels)), CLIENTS), dealt(rng.permutation(len(test_labels)), CLIENTS)
    shards = rng.permutation(2 * CLIENTS).reshape(CLIENTS, 2)

    def of(labels):
        parts = dealt(np.argsort(labels, kind="stable"), 2 * CLIENTS)
        return [np.concatenate([parts[shard] for shard in own]) for own in shards]

    tests = of(test_labels) if kind == "shards" else dealt(np.arange(len(test_labels)), CLIENTS)
    return of(train_labels), tests


def glorot(shape, rng):
    receptive = int(np.prod(shape[2:]))
    bound = (6 / ((shape[0] + shape[1]) * receptive)) ** 0.5
    return torch.tensor(rng.uniform(-bound, bound, shape), dtype=torch.float32)


def initial(rng, device):
    """Convolutions of 5x5x32 and 5x5x64, dense layers of 512 and 10: 1,663,370 parameters."""
    shapes = [(32, 1, 5, 5), (32,), (64, 32, 5, 5), (64,), (512, 3136), (512,), (10, 512), (10,)]
    return [(glorot(s, rng) if len(s) > 1 else torch.zeros(s)).to(device) for s in shapes]


def forward(p, x, relu):
    after = F.relu if relu else (lambda y: y)
    x = after(F.max_pool2d(F.conv2d(x, p[0], p[1], padding=2), 2))
    x = after(F.max_pool2d(F.conv2d(x, p[2], p[3], padding=2), 2))
    return F.linear(F.relu(F.linear(x.flatten(1), p[4], p[5])), p[6], p[7])


class LocalTraining:
    """Some full-batch steps on one client's images, as one CUDA graph where there is a GPU."""

    def __init__(self, images, labels, rate, relu):
        self.x, self.y = torch.zeros_like(images), torch.zeros_like(labels)
        self.x.copy_(images), self.y.copy_(labels)
        self.rate, self.relu = rate, relu
        self.p = [t.clone().requires_grad_() for t in initial(np.random.default_rng(0), images.device)]
        self.graph = None
        if images.is_cuda:
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(3):
                    self.steps()
            torch.cuda.current_stream().wait_stream(stream)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.steps()

    def steps(self):
        for _ in range(EPOCHS):
            loss = F.cross_entropy(forward(self.p, self.x, self.relu), self.y)
            gradients = torch.autograd.grad(loss, self.p)
            with torch.no_grad():
                for t, g in zip(self.p, gradients):
                    t.sub_(g, alpha=self.rate)

    def run(self, shared, images, labels):
        with torch.no_grad():
            self.x.copy_(images), self.y.copy_(labels)
            for t, s in zip(self.p, shared):
                t.copy_(s)
        self.graph.replay() if self.graph else self.steps()
        return [t.detach().clone() for t in self.p]


def closeness(kind, local, shared):
    norms = [(a - b).norm() for a, b in zip(local, shared)]
    if kind == "mwk":
        distance = torch.stack([n for n, t in zip(norms, shared) if t.dim() > 1]).mean()
    else:
        distance = torch.stack(norms).norm()
    return 1 / (float(distance) + 1) ** 0.5


def weights(order, values):
    """Each criterion divided by its sum; then x1 + x1 x2 + x1 x2 x3."""
    columns = [np.asarray(values[name]) / np.sum(values[name]) for name in order]
    score, product = np.zeros(len(columns[0])), np.ones(len(columns[0]))
    for column in columns:
        product = product * column
        score += product
    return score / score.sum()


def train(order, data, parts, options, rate, seed, local):
    (images, labels), (test_images, test_labels) = data
    own, tests = parts
    rng = np.random.default_rng([seed, 1])
    shared = initial(np.random.default_rng([seed, 2]), images.device)
    owner = torch.empty(len(test_labels), dtype=torch.long)
    for client, test in enumerate(tests):
        owner[torch.from_numpy(test)] = client
    owner = owner.to(images.device)
    sizes = torch.bincount(owner, minlength=CLIENTS)
    reached, best, rounds = {}, (0.0, 0), 0
    for rounds in range(1, options.rounds + 1):
        cohort = rng.choice(CLIENTS, int(SHARE * CLIENTS), replace=False)
        locals_, values = [], {"ds": [], "ld": [], "mw": []}
        for client in cohort:
            mine = own[client]
            locals_.append(local.run(shared, images[mine], labels[mine]))
            values["ds"].append(len(mine))
            values["ld"].append(len(labels[mine].unique()))
            values["mw"].append(closeness(options.closeness, locals_[-1], shared))
        share = weights(order, values)
        shared = [sum(float(w) * t for w, t in zip(share, tensors)) for tensors in zip(*locals_)]
        with torch.no_grad():
            right = torch.cat([(forward(shared, x, local.relu).argmax(1) == y)
                               for x, y in zip(test_images.split(5000), test_labels.split(5000))])
        accuracy = (torch.bincount(owner, weights=right.float(), minlength=CLIENTS) / sizes).cpu().numpy()
        overall = float(right.float().mean())
        best = max(best, (overall, -rounds))
        if not np.isfinite(overall) or not all(torch.isfinite(t).all() for t in shared[-1:]):
            break
        for target in TARGETS:
            for fraction in FRACTIONS:
                if (accuracy >= target - 1e-9).mean() >= fraction - 1e-9:
                    reached.setdefault(f"{target:g}/{fraction:g}", rounds)
        if len(reached) == len(TARGETS) * len(FRACTIONS):
            break
    return {"rounds": rounds, "best": best[0], "best_round": -best[1], "reached": reached}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--partition", choices=["iid", "shards", "shards-mixed-test"], required=True)
    parser.add_argument("--network", choices=["cnn", "cnn-linear"], default="cnn")
    parser.add_argument("--closeness", choices=["mw", "mwk"], default="mw")
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--orders", nargs="+", help="such as ds or mw,ld,ds; all nine without")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no training after so many seconds")
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = [(x.to(device), y.to(device)) for x, y in mnist(options.folder)]
    names = ["ds", "ld", "mw"]
    orders = [order.split(",") for order in options.orders or []]
    orders = orders or [[name] for name in names] + [list(p) for p in itertools.permutations(names)]
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = True
    start = time.time()
    size = data[0][1].numel() // CLIENTS
    local = LocalTraining(data[0][0][:size], data[0][1][:size], options.rate, options.network == "cnn")
    for seed in options.seeds:
        labels = [part[1].cpu().numpy() for part in data]
        parts = partition(options.partition, *labels, np.random.default_rng([seed, 0]))
        for order in orders:
            if time.time() - start > options.seconds:
                return
            begun = time.time()
            found = train(order, data, parts, options, options.rate, seed, local)
            about = {"order": " > ".join(order).upper(), "seed": seed, "rate": options.rate,
                     "partition": options.partition, "network": options.network, "closeness": options.closeness}
            print(json.dumps(about | found | {"seconds": round(time.time() - begun, 1)}), flush=True)


if __name__ == "__main__":
    main()
