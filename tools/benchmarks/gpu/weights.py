#!/usr/bin/env python3
"""Draws the initial values of a case's model, and writes them as safetensors."""

import argparse
import pathlib

import cases
from cases import models

import safetensors_io  # found through cases


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=pathlib.Path, required=True)
    parser.add_argument("--case", required=True)
    parser.add_argument("--device", choices=["cuda", "cpu"], required=True)
    parser.add_argument("-o", dest="output", type=pathlib.Path, required=True)
    options = parser.parse_args()
    _, case = cases.read(parser, options)
    config = models.Config(**case["model"])
    safetensors_io.save(options.output, models.build(config, options.device).state_dict())


if __name__ == "__main__":
    main()
