"""Checks of values in a model's code, `assert ...` and `if ...: raise ...`: they hold, or the model's own run fails."""

import contextlib
import dis
import os
import sys

import torch
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

_OWN = os.path.dirname(__file__) + os.sep
_TORCH = os.path.dirname(torch.__file__) + os.sep
#: Where no line of a model is.
LIBRARIES = (_OWN, _TORCH)
#: Of torch, what models call in eager mode, too: distributions look at their arguments.
_LAYERS = tuple(_TORCH + part + os.sep for part in ("distributions", "nn"))
#: Of newer Pythons: they make a truth value, on which the next instruction jumps.
_TRUTH_VALUES = ("TO_BOOL", "COMPARE_OP")


def is_tracing(path):
    return path.startswith(_OWN) or (path.startswith(_TORCH) and not path.startswith(_LAYERS))


def _model_frame():
    frame = sys._getframe(1)
    while frame and is_tracing(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def _raises(instructions):
    """Whether these lead to a raise without a further branch."""
    for instruction in instructions:
        if instruction.opname == "RAISE_VARARGS":
            return True
        if instruction.opcode in dis.hasjrel + dis.hasjabs or instruction.opname.startswith("RETURN"):
            return False
    return False


def _answer_of_check(frame):
    """What the condition at which the frame is has to be so that nothing is raised; None if it is no check."""
    instructions = list(dis.get_instructions(frame.f_code))
    offsets = [instruction.offset for instruction in instructions]
    at = offsets.index(frame.f_lasti)
    if instructions[at].opname in _TRUTH_VALUES:
        at += 1
    jump = instructions[at]
    if not jump.opname.startswith("POP_JUMP") or not jump.opname.endswith(("_IF_TRUE", "_IF_FALSE")):
        return None
    jumps_raise = _raises(instructions[offsets.index(jump.argval):])
    if jumps_raise == _raises(instructions[at + 1:]):
        return None
    return jump.opname.endswith("_IF_TRUE") != jumps_raise


@contextlib.contextmanager
def holding():
    """torch.export goes on behind a check of values that are known at run time only, as if it held."""
    guard = SymNode.guard_bool

    def guard_or_hold(self, file, line):
        try:
            return guard(self, file, line)
        except GuardOnDataDependentSymNode:
            frame = _model_frame()
            answer = frame and _answer_of_check(frame)
            if answer is None:
                raise
            return answer

    SymNode.guard_bool = guard_or_hold
    try:
        yield
    finally:
        SymNode.guard_bool = guard
