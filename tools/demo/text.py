#!/usr/bin/env python3
"""Writes real text into one file of bytes: `text.py OUT [FILE]...`; prints its size and entropy.

Without files: the licences, manuals and documentation on a Debian machine with Python.
"""

import collections
import math
import pathlib
import sys

LIMIT_BYTES = 4 << 20


def found_text():
    import pydoc_data.topics

    for topic in sorted(pydoc_data.topics.topics):
        yield pydoc_data.topics.topics[topic]
    for folder, pattern in (("/usr/share/common-licenses", "*"), ("/usr/share/perl", "**/*.pod")):
        for path in sorted(pathlib.Path(folder).glob(pattern)):
            if path.is_file() and not path.is_symlink():
                yield path.read_text(errors="ignore")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    out, *files = sys.argv[1:]
    try:
        texts = [pathlib.Path(file).read_bytes() for file in files]
    except OSError as error:
        sys.exit(f"text.py: error: {error}")
    texts = texts or [text.encode() for text in found_text()]
    data = b"\n".join(texts)[:LIMIT_BYTES]
    pathlib.Path(out).write_bytes(data)
    counts = collections.Counter(data).values()
    entropy = -sum(count / len(data) * math.log(count / len(data)) for count in counts)
    print(f"{out}: {len(data)} bytes, unigram entropy {entropy:.3f} nats per byte")


if __name__ == "__main__":
    main()
