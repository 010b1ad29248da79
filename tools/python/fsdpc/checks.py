"""Checks of values, in a model's code (`assert ...` and `if ...: raise ...`) and inside of torch's operators: the export assumes
that they hold."""

import bisect
import contextlib
import dis
import os
import sys
import traceback

import torch
from torch._subclasses import fake_impls
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.fx.experimental import proxy_tensor
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from .replacing import replaced

#: Operators that compare values of their arguments by aten.equal.
_CHECKING = [overload for operator in (torch.ops.aten.nanquantile, torch.ops.aten.quantile)
             for overload in (operator.default, operator.scalar)]  # fmt: skip
OWN = os.path.dirname(__file__) + os.sep
_TORCH = os.path.dirname(torch.__file__) + os.sep
#: Files that have no line of a model.
LIBRARIES = (OWN, _TORCH)
#: Parts of torch whose checks count, too, since models call them: distributions check their
#: arguments.
_LAYERS = tuple(_TORCH + part + os.sep for part in ("distributions", "nn"))
#: Instructions of newer Pythons that make a truth value, on which the next instruction jumps.
_TRUTH_VALUES = ("TO_BOOL", "COMPARE_OP")


def is_tracing(path):
    return path.startswith(OWN) or (path.startswith(_TORCH) and not path.startswith(_LAYERS))


def _model_frame():
    frame = sys._getframe(1)
    while frame and is_tracing(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def find_place():
    """The line of the model that is running."""
    frame = sys._getframe(1)
    while frame and frame.f_code.co_filename.startswith((*LIBRARIES, "<")):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else "a line of torch"


def format_caller():
    """The stack of the model's code that is running, as nodes of a program have it."""
    return "".join(traceback.format_list(traceback.extract_stack(_model_frame())))


def _raises(instructions):
    """True if these instructions lead to a raise without a further branch."""
    for instruction in instructions:
        if instruction.opname == "RAISE_VARARGS":
            return True
        if instruction.opcode in dis.hasjrel + dis.hasjabs or instruction.opname.startswith("RETURN"):
            return False
    return False


def _answer_of_check(frame):
    """The value of the condition at the frame's position with which nothing is raised; None if it is not a
    check."""
    instructions = list(dis.get_instructions(frame.f_code))
    offsets = [instruction.offset for instruction in instructions]
    at = bisect.bisect_right(offsets, frame.f_lasti) - 1  # which may be in the caches of an instruction
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
    """In this context torch.export goes on after a check of values that are known only at run time, as
    if it held."""
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
        with holding_in_torch():
            yield
    finally:
        SymNode.guard_bool = guard


@contextlib.contextmanager
def holding_in_torch():
    """The same for checks inside of torch's operators."""
    rules, is_checking = fake_impls.op_implementations_dict, False

    def compare(mode, operator, left, right):
        if not is_checking:
            raise DataDependentOutputException(operator)
        return True

    call = proxy_tensor.proxy_call

    def call_checking(mode, operator, *arguments):
        nonlocal is_checking
        was_checking, is_checking = is_checking, is_checking or operator in _CHECKING
        try:
            return call(mode, operator, *arguments)
        finally:
            is_checking = was_checking

    rules[torch.ops.aten.equal.default] = compare
    try:
        with replaced(proxy_tensor, "proxy_call", call_checking):
            yield
    finally:
        del rules[torch.ops.aten.equal.default]
