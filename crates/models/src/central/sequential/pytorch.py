"""Writes pytorch.txt: losses and gradients of GRU4Rec, SASRec, gSASRec and BERT4Rec by PyTorch, in double precision.

Run as: python pytorch.py > pytorch.txt
A line has a model, a tensor, the sum of its gradient, and its sum weighted by cosines of the place; "loss" is the loss.
"""
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
ITEMS, WIDTH, HEADS, LAYERS, POSITIONS, UNITS, SHARED = 7, 4, 2, 2, 5, 3, 3
LENGTHS = [5, 4, 1]
INPUTS = [1, 5, 4, 0, 6, 0, 3, 3, 6, 2]
TARGETS = [5, 4, 0, 6, 2, 3, 3, 6, 1, 4]
MASKED = [1, 4, 5, 9]


class Parameters(dict):
    """Tensors with sines as values, in the order in which they are taken."""

    place = 0

    def take(self, name, *shape):
        count = int(torch.tensor(shape).prod())
        places = torch.arange(self.place, self.place + count, dtype=torch.float64)
        self.place += count
        self[name] = (torch.sin(places * 1.9 + 1) * 0.6).reshape(shape).clone().requires_grad_()
        return self[name]

    def linear(self, name, inputs, outputs):
        self.take(f"{name}.weight", inputs, outputs)  # stored (in, out)
        self.take(f"{name}.bias", outputs)

    def apply(self, name, x):
        return x @ self[f"{name}.weight"] + self[f"{name}.bias"]

    def norm(self, name, x):
        return F.layer_norm(x, (WIDTH,), self[f"{name}.weight"], self[f"{name}.bias"], eps=1e-5)


def sequences(values):
    return torch.split(values, LENGTHS)


def transformer_parameters(p):
    p.take("network.positions", POSITIONS, WIDTH)
    p.take("network.norm.weight", WIDTH), p.take("network.norm.bias", WIDTH)
    for n in range(LAYERS):
        block = f"network.block{n}"
        for part in ["query", "key", "value", "output"]:
            p.linear(f"{block}.attention.{part}", WIDTH, WIDTH)
        p.take(f"{block}.attention_norm.weight", WIDTH), p.take(f"{block}.attention_norm.bias", WIDTH)
        p.linear(f"{block}.first", WIDTH, 4 * WIDTH)
        p.linear(f"{block}.second", 4 * WIDTH, WIDTH)
        p.take(f"{block}.norm.weight", WIDTH), p.take(f"{block}.norm.bias", WIDTH)


def transformer(p, x, causal):
    outputs = []
    for x in sequences(x):
        steps = len(x)
        y = p.norm("network.norm", x + p["network.positions"][POSITIONS - steps:])
        for n in range(LAYERS):
            block = f"network.block{n}"
            q, k, v = (
                p.apply(f"{block}.attention.{part}", y).reshape(steps, HEADS, WIDTH // HEADS).transpose(0, 1)
                for part in ["query", "key", "value"]
            )
            context = F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(0, 1).reshape(steps, WIDTH)
            y = p.norm(f"{block}.attention_norm", y + p.apply(f"{block}.attention.output", context))
            inner = F.gelu(p.apply(f"{block}.first", y), approximate="tanh")
            y = p.norm(f"{block}.norm", y + p.apply(f"{block}.second", inner))
        outputs.append(y)
    return torch.cat(outputs)


def gru_parameters(p):
    for n, inputs in enumerate([WIDTH, UNITS]):
        p.linear(f"network.gru{n}.input", inputs, 3 * UNITS)
        p.linear(f"network.gru{n}.hidden", UNITS, 3 * UNITS)
    p.linear("network.output", UNITS, WIDTH)


def gru(p, x):
    outputs = []
    for x in sequences(x):
        for n in range(2):
            layer = f"network.gru{n}"
            weights = [p[f"{layer}.input.weight"].T, p[f"{layer}.hidden.weight"].T]
            weights += [p[f"{layer}.input.bias"], p[f"{layer}.hidden.bias"]]
            start = torch.zeros(1, 1, UNITS)
            x = torch.gru(x[:, None], start, weights, True, 1, 0.0, False, False, False)[0][:, 0]
        outputs.append(p.apply("network.output", x))
    return torch.cat(outputs)


def bce(h, items):
    negatives = torch.tensor([[(2 * t + 1) % ITEMS, (t + 3) % ITEMS] for t in TARGETS])
    positive = (h * items[torch.tensor(TARGETS)]).sum(-1)
    negative = (h[:, None] * items[negatives]).sum(-1)
    return F.softplus(-positive).sum() + F.softplus(negative).sum()


def gbce(h, items):
    # Negatives of the batch; the next item is left out where it is among them.
    negatives = torch.tensor([2, 6, 4])
    targets = torch.tensor(TARGETS)
    fraction = SHARED / (ITEMS - 1)
    power = fraction * (0.75 * (1 - 1 / fraction) + 1 / fraction)
    positive = (h * items[targets]).sum(-1)
    kept = (targets[:, None] != negatives[None]).double()
    return power * F.softplus(-positive).sum() + (F.softplus(h @ items[negatives].T) * kept).sum()


def write(model, p, loss):
    loss.backward()
    print(model, "loss", repr(loss.item()), 0.0)
    for name, tensor in p.items():
        gradient = tensor.grad.flatten()
        cosines = torch.cos(torch.arange(len(gradient), dtype=torch.float64) * 0.7)
        print(model, name, repr(gradient.sum().item()), repr((gradient * cosines).sum().item()))


def run(model):
    p = Parameters()
    rows = ITEMS + 1 if model == "bert4rec" else ITEMS
    items = p.take("items", rows, WIDTH)
    gru_parameters(p) if model == "gru4rec" else transformer_parameters(p)
    inputs, targets, scale = torch.tensor(INPUTS), torch.tensor(TARGETS), 1 / len(TARGETS)
    if model == "bert4rec":
        p.linear("output", WIDTH, WIDTH)
        inputs[MASKED] = ITEMS
        h = transformer(p, items[inputs], False)[MASKED]
        h = F.gelu(p.apply("output", h), approximate="tanh")
        loss = F.cross_entropy(h @ items[:ITEMS].T, torch.tensor(INPUTS)[MASKED], reduction="sum") * scale / 0.4
    elif model == "gru4rec":
        loss = F.cross_entropy(gru(p, items[inputs]) @ items.T, targets, reduction="sum") * scale
    else:
        h = transformer(p, items[inputs], True)
        loss = (bce if model == "sasrec" else gbce)(h, items) * scale
    write(model, p, loss)


for model in ["gru4rec", "sasrec", "gsasrec", "bert4rec"]:
    run(model)
