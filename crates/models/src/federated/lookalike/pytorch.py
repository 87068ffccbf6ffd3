"""Writes pytorch.txt: loss and gradients of the look-alike network by PyTorch, in double precision.

Run as: python pytorch.py > pytorch.txt
A line has a name, the sum of a tensor's gradient, and its sum weighted by cosines of the place.
"""
import torch

torch.set_default_dtype(torch.float64)
CATEGORIES, CODE, DIM, UNITS, PAGES = 6, 3, 4, 2, 5
HIDDEN = 2 * CODE
GATES = {"lstm": 4, "gru": 3, "rnn": 1}


def sines(count, start):
    return torch.sin(torch.arange(start, start + count, dtype=torch.float64) * 1.9 + 1) * 0.6


def run(cell):
    place = 0

    def take(*shape):
        nonlocal place
        count = int(torch.tensor(shape).prod())
        values = sines(count, place).reshape(shape).clone().requires_grad_()
        place += count
        return values

    def linear(name, inputs, outputs):
        # Weights are stored (in, out).
        return {f"{name}.weight": take(inputs, outputs), f"{name}.bias": take(outputs)}

    def norm(name, width):
        tensors = {f"{name}.weight": take(width), f"{name}.bias": take(width)}
        take(width), take(width)  # running statistics, not used with a batch
        return tensors

    p = {}
    p |= linear("encoder.first", CATEGORIES, HIDDEN)
    p |= linear("encoder.second", HIDDEN, CODE)
    p |= norm("encoder.norm", CODE)
    p |= linear("embedder.input", DIM, GATES[cell] * UNITS)
    p |= linear("embedder.hidden", UNITS, GATES[cell] * UNITS)
    p |= norm("decoder.first_norm", CODE + UNITS)
    p |= linear("decoder.first", CODE + UNITS, HIDDEN)
    p |= norm("decoder.second_norm", HIDDEN)
    p |= linear("decoder.second", HIDDEN, CATEGORIES)

    def rows(people):
        values = torch.zeros(len(people), CATEGORIES)
        for row, columns in enumerate(people):
            values[row, columns] = 1
        return values

    seen = rows([[1, 4], [0], [2, 3, 5], [4]])
    target = rows([[1, 4, 5], [0, 2], [2, 3, 5, 0], [4, 1]])
    pages = sines(4 * PAGES * DIM, 1000).reshape(4, PAGES, DIM)

    def dense(name, x):
        return x @ p[f"{name}.weight"] + p[f"{name}.bias"]

    def normed(name, x):
        return torch.nn.functional.batch_norm(
            x, None, None, p[f"{name}.weight"], p[f"{name}.bias"], training=True
        )

    code = torch.relu(normed("encoder.norm", dense("encoder.second", torch.relu(dense("encoder.first", seen)))))
    module = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "rnn": torch.nn.RNN}[cell](DIM, UNITS, batch_first=True)
    weights = {
        "weight_ih_l0": p["embedder.input.weight"].T,
        "bias_ih_l0": p["embedder.input.bias"],
        "weight_hh_l0": p["embedder.hidden.weight"].T,
        "bias_hh_l0": p["embedder.hidden.bias"],
    }
    states, _ = torch.func.functional_call(module, weights, (pages,))
    joined = normed("decoder.first_norm", torch.cat([code, states[:, -1]], dim=1))
    hidden = torch.relu(normed("decoder.second_norm", dense("decoder.first", joined)))
    logits = dense("decoder.second", hidden)
    loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, target)
    loss.backward()
    print(f"{cell} loss\t{loss.item():.15g}\t0")
    for name, tensor in p.items():
        gradient = tensor.grad.flatten()
        cosines = torch.cos(torch.arange(len(gradient), dtype=torch.float64) * 0.3)
        print(f"{cell} {name}\t{gradient.sum().item():.15g}\t{(gradient * cosines).sum().item():.15g}")


for cell in GATES:
    run(cell)
