"""What the package raises."""


class ExportError(RuntimeError):
    """A model, batch, optimizer or policy that cannot be exported; the text names the reason and, where there is one, a
    remedy."""


class DataError(RuntimeError):
    """Data that cannot be written for training; the text names the source and what is wrong with it."""


class ToolError(RuntimeError):
    """A tool failed; the text is what it printed."""
