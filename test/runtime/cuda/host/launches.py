#!/usr/bin/env python3
"""launches.py KERNELS.cu HOST.cpp: the kernels with their launches, kernel<<<blocks, threads, 0, stream>>>(...), as calls of
HostKernels.h."""

import pathlib
import re
import sys

LAUNCH = re.compile(
    r"(?P<kernel>\b\w+(?:<[\w., ]+>)?)\s*<<<(?P<blocks>.*?), (?P<threads>\w+), 0, stream>>>(?P<arguments>\(.*?\));", re.S
)


def main():
    source, target = map(pathlib.Path, sys.argv[1:])
    text, count = LAUNCH.subn(
        r"fsdp::test::runOnHost(\g<blocks>, \g<threads>, [&] { \g<kernel>\g<arguments>; });", source.read_text()
    )
    assert count == source.read_text().count("<<<"), f"{source}: a launch is not understood"
    target.write_text(f'#include "host/HostKernels.h"\n#line 1 "{source}"\n{text}')


if __name__ == "__main__":
    main()
