"""Functions and attributes of torch and of models, in the place of others for a while."""

import contextlib


@contextlib.contextmanager
def replaced(owner, name, value):
    """Sets an attribute of `owner` in this context. An attribute that was inherited is inherited again afterwards."""
    missing = object()
    before = vars(owner).get(name, missing)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if before is missing:
            delattr(owner, name)
        else:
            setattr(owner, name, before)
