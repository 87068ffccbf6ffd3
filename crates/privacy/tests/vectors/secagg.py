#!/usr/bin/env python3
"""A second implementation of the arithmetic of secure aggregation, to check secagg.json with. For tests only.

It shares nothing with the Rust one: plain Python with its standard library, written from RFC 7748 (X25519), RFC 8439
(ChaCha20-Poly1305), RFC 5869 (HKDF), FIPS 197 (the field) and the description in crates/privacy/src/secagg. It is slow
and not constant in time.
"""

import hashlib
import hmac
import itertools
import json
import math
import pathlib
import struct

VERSION = 2
WORD = 1 << 32

# --- primitives


def x25519(scalar: bytes, point: bytes) -> bytes:
    p = 2**255 - 19
    k = int.from_bytes(scalar, "little")
    k = (k & ~7 & ((1 << 254) - 1)) | (1 << 254)
    u = int.from_bytes(point, "little") & ((1 << 255) - 1)
    x1, x2, z2, x3, z3 = u % p, 1, 0, u % p, 1
    for t in reversed(range(255)):
        bit = k >> t & 1
        if bit:
            x2, z2, x3, z3 = x3, z3, x2, z2
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        da, cb, aa, bb = d * a % p, c * b % p, a * a % p, b * b % p
        e = aa - bb
        x3, z3 = (da + cb) ** 2 % p, x1 * (da - cb) ** 2 % p
        x2, z2 = aa * bb % p, e * (aa + 121665 * e) % p
        if bit:
            x2, z2, x3, z3 = x3, z3, x2, z2
    return (x2 * pow(z2, p - 2, p) % p).to_bytes(32, "little")


def public(secret: bytes) -> bytes:
    return x25519(secret, (9).to_bytes(32, "little"))


def rotate(value: int, by: int) -> int:
    return (value << by | value >> (32 - by)) & 0xFFFFFFFF


def chacha_block(key: bytes, counter: int, nonce: bytes) -> bytes:
    start = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574, *struct.unpack("<8I", key), counter]
    start += struct.unpack("<3I", nonce)
    x = start[:]
    columns = [(i, i + 4, i + 8, i + 12) for i in range(4)]
    diagonals = [(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4) for i in range(4)]
    for _ in range(10):
        for a, b, c, d in columns + diagonals:
            for first, second, third, by in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                x[first] = (x[first] + x[second]) % WORD
                x[third] = rotate(x[third] ^ x[first], by)
    return struct.pack("<16I", *((one + other) % WORD for one, other in zip(x, start)))


def keystream(key: bytes, length: int, first: int = 0) -> bytes:
    blocks = (chacha_block(key, first + i, bytes(12)) for i in range(-(-length // 64)))
    return b"".join(blocks)[:length]


def poly1305(key: bytes, message: bytes) -> bytes:
    p = 2**130 - 5
    r = int.from_bytes(key[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    total = 0
    for at in range(0, len(message), 16):
        total = (total + int.from_bytes(message[at : at + 16] + b"\1", "little")) * r % p
    return ((total + int.from_bytes(key[16:], "little")) % 2**128).to_bytes(16, "little")


def tag(key: bytes, sealed: bytes, about: bytes) -> bytes:
    padded = [part + bytes(-len(part) % 16) for part in (about, sealed)]
    lengths = struct.pack("<QQ", len(about), len(sealed))
    return poly1305(keystream(key, 32), b"".join(padded) + lengths)


def xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other))


def seal(key: bytes, plain: bytes, about: bytes) -> bytes:
    sealed = xor(plain, keystream(key, len(plain), 1))
    return sealed + tag(key, sealed, about)


def unseal(key: bytes, box: bytes, about: bytes):
    sealed = box[:-16]
    if not hmac.compare_digest(box[-16:], tag(key, sealed, about)):
        return None
    return xor(sealed, keystream(key, len(sealed), 1))


def hkdf(salt: bytes, secret: bytes, info: bytes) -> bytes:
    extracted = hmac.new(salt, secret, hashlib.sha256).digest()
    return hmac.new(extracted, info + b"\1", hashlib.sha256).digest()


class Generator:
    """ChaCha20 from a seed, and streams of it by label and number."""

    def __init__(self, seed: bytes):
        self.seed, self.at = seed, 0

    def stream(self, label: str, index: int) -> "Generator":
        text = self.seed + struct.pack("<Q", len(label)) + label.encode() + struct.pack("<Q", index)
        return Generator(hashlib.sha256(text).digest())

    def take(self, count: int) -> bytes:
        first, last = self.at // 64, -(-(self.at + count) // 64)
        blocks = b"".join(chacha_block(self.seed, i, bytes(12)) for i in range(first, last))
        taken = blocks[self.at - 64 * first :][:count]
        self.at += count
        return taken


# --- the field GF(256) and Shamir's shares


def multiply(a: int, b: int) -> int:
    product = 0
    for bit in range(8):
        if b >> bit & 1:
            product ^= a << bit
    for bit in reversed(range(8, 15)):
        if product >> bit & 1:
            product ^= 0x11B << (bit - 8)
    return product


PRODUCTS = [[multiply(a, b) for b in range(256)] for a in range(256)]
INVERSES = [next((b for b in range(256) if PRODUCTS[a][b] == 1), 0) for a in range(256)]


def split(secret: bytes, threshold: int, count: int, generator: Generator) -> list:
    drawn = generator.take(4 * 32 * (threshold - 1))
    # A word for each coefficient, of which the lowest byte counts.
    low = drawn[::4]
    shares = []
    for x in range(1, count + 1):
        share = bytearray()
        for at in range(32):
            coefficients = [secret[at], *low[at * (threshold - 1) : (at + 1) * (threshold - 1)]]
            value, power = 0, 1
            for coefficient in coefficients:
                value ^= PRODUCTS[coefficient][power]
                power = PRODUCTS[power][x]
            share.append(value)
        shares.append(bytes(share))
    return shares


def combine(points: list) -> bytes:
    """The value at 0 of the polynomial through these points, by Lagrange."""
    secret = bytes(32)
    for x, share in points:
        weight = 1
        for other, _ in points:
            if other != x:
                weight = PRODUCTS[weight][PRODUCTS[other][INVERSES[other ^ x]]]
        secret = xor(secret, bytes(PRODUCTS[weight][byte] for byte in share))
    return secret


# --- degree and threshold


def tail(population: int, marked: int, draws: int):
    """The chance of more than so many marked among the draws."""
    marked = min(marked, population)
    all_draws, chances = math.comb(population, draws), []
    for x in range(draws + 1):
        ways = math.comb(marked, x) * math.comb(population - marked, draws - x) if x <= marked else 0
        chances.append(ways / all_draws)
    sums = list(itertools.accumulate(reversed(chances)))[::-1] + [0.0]
    return lambda x: sums[x + 1] if x < draws else 0.0


def choose(n: int, dropout: float, colluding: float, malicious: bool):
    dropped, bad = (int(share * n + 1e-9) for share in (dropout, colluding))
    even = [k for k in range(2, min(255, n - 1) + 1, 2) if k < n - 1] if n > 32 else []
    for k in even + ([n - 1] if n <= 256 else []):
        lost = tail(n - 1, dropped, k)
        spare = next((y for y in range(k + 1) if n * lost(y) <= 2.0**-30), None)
        if spare is None:
            continue
        threshold = k - spare
        too_many = max(2 * threshold - k, 0) if malicious else threshold
        exposure = 1.0 if too_many == 0 else n * tail(n - 1, bad, k)(too_many - 1)
        if k < n - 1:
            run = n
            for i in range(k // 2):
                run *= max(min(dropped + bad, n) - i, 0) / (n - i)
            exposure += run
        if threshold >= 2 and exposure <= 2.0**-40:
            return {"neighbours": k, "threshold": threshold}
    return None


# --- what devices derive


def context(purpose: str, config: dict, a: int, b: int) -> bytes:
    text = bytes([len(purpose)]) + purpose.encode()
    text += struct.pack("<QQ", config["federation"], config["round"]) + unhex(config["binding"])
    return text + struct.pack("<II", a, b)


def expand(secret: bytes, purpose: str, config: dict, a: int, b: int) -> bytes:
    return hkdf(b"sottovoce secagg 2", secret, context(purpose, config, a, b))


def derive(secret: bytes, peer: bytes, purpose: str, config: dict, a: int, b: int) -> bytes:
    shared = x25519(secret, peer)
    assert any(shared), "a key of small order"
    return expand(shared, purpose, config, a, b)


def commitment(self_mask: bytes) -> bytes:
    return hashlib.sha256(b"sottovoce secagg own mask" + self_mask).digest()


def add_keystream(key: bytes, subtract: bool, words: list) -> list:
    stream = struct.unpack(f"<{len(words)}I", keystream(key, 4 * len(words)))
    sign = -1 if subtract else 1
    return [(word + sign * mask) % WORD for word, mask in zip(words, stream)]


class Member:
    """A device: its secrets, and what it says at each step."""

    def __init__(self, config: dict, client: int, seed: bytes):
        self.config, self.client, source = config, client, Generator(seed)
        self.encryption, self.masks, self.self_mask, self.polynomials = (
            source.stream(label, 0).take(32)
            for label in ("secagg boxes", "secagg masks", "secagg own mask", "secagg shares")
        )

    def polynomial(self, which: int) -> Generator:
        return Generator(self.polynomials).stream("secagg polynomial", which)

    def self_mask_key(self) -> bytes:
        return expand(self.self_mask, "own mask", self.config, self.client, self.client)

    def pair_key(self, peer: int, key: bytes) -> bytes:
        low, high = sorted((self.client, peer))
        return derive(self.masks, key, "pair mask", self.config, low, high)

    def box_key(self, sender: int, recipient: int, key: bytes) -> bytes:
        return derive(self.encryption, key, "box", self.config, sender, recipient)

    def seal(self, to: int, key: bytes, self_mask: bytes, mask_key: bytes) -> bytes:
        about = context("box", self.config, self.client, to)
        return seal(self.box_key(self.client, to, key), self_mask + mask_key, about)

    def unseal(self, sender: int, key: bytes, box: bytes):
        plain = unseal(self.box_key(sender, self.client, key), box, context("box", self.config, sender, self.client))
        return plain and (plain[:32], plain[32:])

    def message(self, kind: int, body: bytes) -> bytes:
        header = struct.pack("<BBQQI", VERSION, kind, self.config["federation"], self.config["round"], self.client)
        return header + body


def listed(entries: list) -> bytes:
    return struct.pack("<I", len(entries)) + b"".join(struct.pack("<I", client) + rest for client, rest in entries)


# --- the vectors


def unhex(text: str) -> bytes:
    return bytes.fromhex(text)


def to_words(text: str) -> list:
    return list(struct.unpack(f"<{len(text) // 8}I", unhex(text)))


CHECKED = 0


def same(found, expected, what: str):
    global CHECKED
    CHECKED += 1
    assert found == expected, f"{what}: {found!r} instead of {expected!r}"


def check_parts(vectors: dict):
    for each in vectors["generators"]:
        generator = Generator(unhex(each["seed"])).stream(each["label"], each["index"])
        same(generator.take(100), unhex(each["bytes"]), "generator")
    for each in vectors["parameters"]:
        for against in ("semi-honest", "malicious"):
            chosen = choose(each["devices"], each["dropout"], each["colluding"], against == "malicious")
            same(chosen, each[against], f"parameters of {each['devices']}, {against}")
    for point in vectors["small_order"]:
        same(x25519(bytes([3] * 32), unhex(point)), bytes(32), "point of small order")
    for each in vectors["masks"]:
        masked = add_keystream(unhex(each["key"]), each["subtract"], to_words(each["words"]))
        same(masked, to_words(each["masked"]), "mask")


def check_agreement(vectors: dict):
    agreement = vectors["agreement"]
    config, devices = agreement["config"], agreement["devices"]
    members = [Member(config, each["client"], unhex(each["seed"])) for each in devices]
    for each, member in zip(devices, members):
        same(member.encryption.hex(), each["encryption_secret"], "encryption secret")
        same(public(member.encryption).hex(), each["encryption"], "encryption key")
        same(member.masks.hex(), each["masks_secret"], "mask secret")
        same(public(member.masks).hex(), each["masks"], "mask key")
        same(member.self_mask.hex(), each["self_mask"], "self-mask seed")
        same(commitment(member.self_mask).hex(), each["commitment"], "commitment")
        same(member.self_mask_key().hex(), each["self_mask_key"], "self-mask key")
    one, other = members
    same(context("pair mask", config, one.client, other.client).hex(), agreement["context"], "context")
    for own, peer in ((one, other), (other, one)):
        same(own.pair_key(peer.client, public(peer.masks)).hex(), agreement["pair_key"], "pair key")
    box = vectors["box"]
    assert (box["from"], box["to"]) == (one.client, other.client) and box["config"] == config
    shares = unhex(box["self_mask"]), unhex(box["mask_key"])
    same(one.seal(other.client, public(other.encryption), *shares).hex(), box["box"], "box")
    same(other.unseal(one.client, public(one.encryption), unhex(box["box"])), shares, "box opened")
    same(other.unseal(one.client, public(one.encryption), unhex(box["broken"])), None, "broken box")


def check_shares(vectors: dict):
    for each in vectors["shares"]:
        secret, threshold, shares = unhex(each["secret"]), each["threshold"], each["shares"]
        split_again = split(secret, threshold, len(shares), Generator(unhex(each["seed"])))
        same([share.hex() for share in split_again], shares, "shares")
        points = list(zip(range(1, len(shares) + 1), split_again))
        same(combine(points[-threshold:]), secret, "secret from the last shares")
        if threshold > 2:
            assert combine(points[: threshold - 1]) != secret
    each = vectors["corrected"]
    points = list(zip(range(1, 256), map(unhex, each["shares"])))
    # Without an algorithm for it: the one choice of shares that gives the committed secret.
    for chosen in itertools.combinations(points, each["threshold"]):
        secret = combine(list(chosen))
        if commitment(secret).hex() == each["commitment"]:
            same(secret.hex(), each["secret"], "corrected secret")
            moved = lambda x: combine([(point ^ x, share) for point, share in chosen])
            on_it = lambda x, share: (x, share) in chosen or moved(x) == share
            wrong = [x - 1 for x, share in points if not on_it(x, share)]
            same(wrong, each["wrong"], "false shares")
            return
    raise AssertionError("no shares give the committed secret")


def check_round(whole: dict):
    config, threshold = whole["config"], whole["threshold"]
    said = whole["devices"]
    members = {each["client"]: Member(config, each["client"], unhex(each["seed"])) for each in said}
    inputs = {each["client"]: to_words(each["input"]) for each in said}
    keys = {client: (public(member.encryption), public(member.masks)) for client, member in members.items()}
    others = {client: [other for other in members if other != client] for client in members}
    same(choose(len(members), config["dropout"], config["colluding"], True),
         {"neighbours": whole["neighbours"], "threshold": threshold}, "parameters of the round")

    # Each device's shares for its neighbours, and the boxes that they come in.
    shares, boxes = {}, {}
    for client, member in members.items():
        secrets = zip(*(split(secret, threshold, len(others[client]), member.polynomial(which))
                        for which, secret in enumerate((member.self_mask, member.masks))))
        shares[client] = dict(zip(others[client], secrets))
        boxes[client] = {to: member.seal(to, keys[to][0], *both) for to, both in shares[client].items()}

    came = {each["client"] for each in said if "mask" in each["sent"]}
    masked = {}
    for client in came:
        member, words = members[client], inputs[client] + [1]
        words = add_keystream(member.self_mask_key(), False, words)
        for peer in others[client]:
            words = add_keystream(member.pair_key(peer, keys[peer][1]), client > peer, words)
        masked[client] = words

    for each in said:
        client = each["client"]
        member, peers = members[client], others[client]
        flat = lambda key: key[0] + key[1] + b"\0"
        survived, dropped = ([peer for peer in peers if (peer in came) == yes] for yes in (True, False))
        names = lambda clients: listed([(peer, b"") for peer in clients])
        revealed = [(peer, bytes([peer not in came]) + shares[peer][client][peer not in came]) for peer in peers]
        sent = {
            "advertise": lambda: member.message(1, flat(keys[client])),
            "share": lambda: member.message(3, commitment(member.self_mask) + listed(list(boxes[client].items()))),
            "mask": lambda: member.message(
                5, struct.pack(f"<I{len(masked[client])}I", len(masked[client]), *masked[client])),
            "unmask": lambda: member.message(9, listed(revealed)),
        }
        received = {
            "share": lambda: member.message(
                2, struct.pack("<I", len(members)) + listed([(peer, flat(keys[peer])) for peer in peers])),
            "mask": lambda: member.message(4, listed([(peer, boxes[peer][client]) for peer in peers])),
            "unmask": lambda: member.message(6, names(survived) + names(dropped)),
        }
        for which, own, messages in (("sends", sent, each["sent"]), ("receives", received, each["received"])):
            for step, message in messages.items():
                same(own[step]().hex(), message, f"what client {client} {which} in the step {step}")

    # The server: from shares that came, the self masks of who survived and the mask keys of who did not.
    holders = {each["client"] for each in said if "unmask" in each["sent"]}
    total = [sum(column) % WORD for column in zip(*masked.values())]
    for client, member in members.items():
        dropped = client not in came
        points = [(at + 1, shares[client][holder][dropped])
                  for at, holder in enumerate(others[client]) if holder in holders]
        assert len(points) >= threshold
        secret = combine(points[:threshold])
        same(secret, member.masks if dropped else member.self_mask, "reconstructed secret")
        if not dropped:
            total = add_keystream(expand(secret, "own mask", config, client, client), True, total)
            continue
        for peer in came:
            low, high = sorted((client, peer))
            key = derive(secret, keys[peer][1], "pair mask", config, low, high)
            total = add_keystream(key, peer < client, total)
    same(total.pop(), len(came), "check word")
    same(sorted(came), whole["counted"], "who is counted")
    same(total, to_words(whole["sum"]), "sum")
    same(total, [sum(column) % WORD for column in zip(*(inputs[client] for client in came))], "sum of the inputs")


def main():
    # RFC 7748, 5.2; RFC 5869, A.1: a mistake here must not be taken for one there.
    scalar = unhex("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4")
    point = unhex("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c")
    expected = unhex("c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552")
    same(x25519(scalar, point), expected, "X25519")
    same(hkdf(bytes(range(13)), b"\x0b" * 22, unhex("f0f1f2f3f4f5f6f7f8f9")),
         unhex("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"), "HKDF")
    vectors = json.loads((pathlib.Path(__file__).parent / "secagg.json").read_text())
    check_parts(vectors)
    check_agreement(vectors)
    check_shares(vectors)
    check_round(vectors["round"])
    print(f"{CHECKED} values compared: the vectors hold")


if __name__ == "__main__":
    main()
