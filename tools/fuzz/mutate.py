"""Mutations of files, each determined by a random.Random only."""

import io
import re
import zipfile

NUMBERS = [b"0", b"-1", b"1", b"2", b"255", b"65536", b"2147483648", b"-2147483649", b"4294967296",
           b"9223372036854775807", b"-9223372036854775808", b"18446744073709551616", b"nan", b"inf", b"-inf",
           b"1e308", b"-0.0", b"1e-320", b"0x7FF8000000000000"]  # fmt: skip


def flip_bits(data, random):
    data = bytearray(data)
    for _ in range(random.choice([1, 1, 2, 8])):
        if data:
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(data)


def set_bytes(data, random):
    """Overwrites bytes with extreme values for lengths and counts."""
    if not data:
        return data
    at = random.randrange(len(data))
    word = random.choice([b"\xff" * 8, b"\x00" * 8, b"\xff" * 4, b"\x80", b"\x7f", b"\xff\xff\xff\x7f"])
    return data[:at] + word + data[at + len(word) :]


def cut(data, random):
    return data[: random.randrange(len(data) + 1)]


def remove_span(data, random):
    begin = random.randrange(len(data) + 1)
    return data[:begin] + data[begin + random.choice([1, 4, 16, 200]) :]


def repeat_span(data, random):
    begin = random.randrange(len(data) + 1)
    end = begin + random.choice([1, 4, 16, 200])
    return data[:end] + data[begin:end] * random.choice([1, 1, 3]) + data[end:]


def change_number(data, random):
    found = list(re.finditer(rb"-?\d+(\.\d+)?(e[-+]?\d+)?", data))
    if not found:
        return flip_bits(data, random)
    place = random.choice(found)
    return data[: place.start()] + random.choice(NUMBERS) + data[place.end() :]


def swap_words(data, random):
    """Replaces one word by another: names, keywords, values."""
    words = list(re.finditer(rb"[@%#]?[A-Za-z_][A-Za-z0-9_.]*", data))
    if len(words) < 2:
        return flip_bits(data, random)
    target, source = random.choice(words), random.choice(words)
    return data[: target.start()] + source.group() + data[target.end() :]


def change_lines(data, random):
    lines = data.split(b"\n")
    at = random.randrange(len(lines))
    other = random.randrange(len(lines))
    kind = random.randrange(3)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(other, lines[at])
    else:
        lines[at], lines[other] = lines[other], lines[at]
    return b"\n".join(lines)


BYTES = [flip_bits, set_bytes, cut, remove_span, repeat_span]
TEXT = [change_number, change_number, swap_words, change_lines, remove_span, repeat_span, cut, flip_bits]


def mutate_text(data, random):
    for _ in range(random.choice([1, 1, 1, 2, 4])):
        data = random.choice(TEXT)(data, random)
    return data


def mutate_bytes(data, random):
    for _ in range(random.choice([1, 1, 2])):
        data = random.choice(BYTES)(data, random)
    return data


def mutate_safetensors(data, random):
    """Mutates the header as text, with the right length before it, or the file as bytes."""
    if random.random() < 0.3:
        return mutate_bytes(data, random)
    size = int.from_bytes(data[:8], "little")
    header = mutate_text(data[8 : 8 + size], random)
    return len(header).to_bytes(8, "little") + header + data[8 + size :]


def mutate_zip(data, random):
    """Mutates one record of the archive, with new checksums, or the archive itself."""
    if random.random() < 0.25:
        return mutate_bytes(data, random)
    result = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(result, "w") as new:
        entries = old.infolist()
        chosen = random.choice(entries).filename
        for entry in entries:
            record = old.read(entry)
            if entry.filename == chosen:
                kind = random.randrange(8)
                if kind == 0:
                    continue  # it is missing
                is_text = entry.filename.endswith((".py", ".json")) and kind != 1
                record = (mutate_text if is_text else mutate_bytes)(record, random)
            new.writestr(entry.filename, record)
    return result.getvalue()


def mutate_tokens(data, random):
    """Mutates a word of the header of a token file, or the file as bytes."""
    if random.random() < 0.4:
        return mutate_bytes(data, random)
    at = 4 * random.choice([0, 1, 2, 2, 2, 3])
    count = int.from_bytes(data[at : at + 4], "little")
    word = random.choice([count - 1, count + 1, 0, 1, 20240520, 20240801, 2**31 - 1, 2**31, 2**32 - 1]) % 2**32
    data = data[:at] + word.to_bytes(4, "little") + data[at + 4 :]
    return cut(data, random) if random.random() < 0.2 else data


def mutate_checkpoint(data, random):
    """Mutates a safetensors file, or checkpoint.json: mostly without its checksum, which may be
    missing."""
    if not data.startswith(b"{"):
        return mutate_safetensors(data, random)
    if random.random() < 0.8:
        data = re.sub(rb',\s*"crc32c": \d+\s*\}\s*$', b"\n}\n", data)
    return mutate_text(data, random)
