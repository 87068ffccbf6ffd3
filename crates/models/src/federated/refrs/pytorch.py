"""Writes pytorch.txt: loss and gradients of ReFRS's embedding model by PyTorch, in double precision.

Run as: python pytorch.py > pytorch.txt
A line has a name, the sum of a tensor's gradient, and its sum weighted by cosines of the place.
"""
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
DIM, WINDOW, CODES, HEADS, UNITS, WINDOWS, BETA = 4, 16, 5, 2, 6, 3, 0.25
POSITIONS = WINDOW // 4 - 1


def sines(count, start):
    return torch.sin(torch.arange(start, start + count, dtype=torch.float64) * 1.9 + 1) * 0.6


def run(kind):
    place, p = 0, {}

    def take(name, *shape):
        nonlocal place
        count = int(torch.tensor(shape).prod())
        p[name] = sines(count, place).reshape(shape).clone().requires_grad_()
        place += count

    def linear(name, inputs, outputs):
        # Weights are stored (in, out).
        take(f"{name}.weight", inputs, outputs)
        take(f"{name}.bias", outputs)

    linear("encoder.first", 2 * DIM, 2 * DIM)
    linear("encoder.second", 4 * DIM, DIM)
    linear("encoder.third", 2 * DIM, DIM)
    take("codes.codebook", CODES, DIM)
    if kind == "refrs":
        for part in ["query", "key", "value", "output"]:
            linear(f"attention.{part}", DIM, DIM)
    linear("decoder.hidden", POSITIONS * DIM, UNITS)
    linear("decoder.output", UNITS, WINDOW * DIM)

    x = sines(WINDOWS * WINDOW * DIM, 1000).reshape(WINDOWS, WINDOW, DIM)

    def convolution(name, x, stride):
        # (in, out) with the older item's inputs first: out x channels x kernel.
        weight = p[f"{name}.weight"]
        filters = weight.reshape(2, -1, weight.shape[1]).permute(2, 1, 0)
        return F.conv1d(x.transpose(1, 2), filters, p[f"{name}.bias"], stride=stride).transpose(1, 2)

    a = torch.relu(convolution("encoder.first", x, 2))
    b = torch.relu(convolution("encoder.second", a, 2))
    e = convolution("encoder.third", b, 1)
    distance = ((e.unsqueeze(2) - p["codes.codebook"]) ** 2).sum(-1)
    code = p["codes.codebook"][distance.argmin(-1)]
    z = e + (code - e).detach()
    y = z
    if kind == "refrs":
        attention = torch.nn.MultiheadAttention(DIM, HEADS, batch_first=True)
        weights = {
            "in_proj_weight": torch.cat([p[f"attention.{part}.weight"].T for part in ["query", "key", "value"]]),
            "in_proj_bias": torch.cat([p[f"attention.{part}.bias"] for part in ["query", "key", "value"]]),
            "out_proj.weight": p["attention.output.weight"].T,
            "out_proj.bias": p["attention.output.bias"],
        }
        y, _ = torch.func.functional_call(attention, weights, (z, e, e))
    hidden = torch.relu(y.flatten(1) @ p["decoder.hidden.weight"] + p["decoder.hidden.bias"])
    output = hidden @ p["decoder.output.weight"] + p["decoder.output.bias"]
    loss = ((output - x.flatten(1)) ** 2).sum()
    loss = loss + ((e.detach() - code) ** 2).sum() + BETA * ((e - code.detach()) ** 2).sum()
    loss = loss / WINDOWS
    loss.backward()
    print(f"{kind} loss\t{loss.item():.15g}\t0")
    for name, tensor in p.items():
        gradient = tensor.grad.flatten()
        cosines = torch.cos(torch.arange(len(gradient), dtype=torch.float64) * 0.3)
        print(f"{kind} {name}\t{gradient.sum().item():.15g}\t{(gradient * cosines).sum().item():.15g}")


for kind in ["vq-vae", "refrs"]:
    run(kind)
