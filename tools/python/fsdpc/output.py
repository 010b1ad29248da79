"""Files that appear complete or not at all, as in lib/Files/OutputFile.cpp.

The bytes go to a temporary file in the folder of the path. The file has no name if the file system
supports that, else a name that cannot be guessed. They are made durable, and a rename puts the file in
place. A symbolic link stays, and the file that it names is replaced; that file's mode is kept.
"""

import contextlib
import errno
import os
import secrets
import shutil
import signal
import stat

_KINDS = {
    stat.S_IFDIR: "a directory", stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
}  # fmt: skip


class OutputError(OSError):
    """Names, in one line, the path that cannot be written and the reason."""


def find_target(path):
    """The regular file that writing `path` replaces or makes, and its lstat if it exists. Links are
    followed. An existing path that is not a regular file is refused."""
    file = os.fspath(path)
    if not os.path.basename(file):
        raise OutputError(f"'{path}' is {'a directory' if file else 'empty'}, expected the path of a file")
    # As many links as the kernel follows.
    for _ in range(41):
        try:
            found = os.lstat(file)
        except FileNotFoundError:
            return file, None
        if stat.S_ISREG(found.st_mode):
            return file, found
        folder = os.path.dirname(file) or "."
        kind = _KINDS.get(stat.S_IFMT(found.st_mode))
        # A link in /proc names an open file: its text is not a path.
        if kind is None and os.path.realpath(folder).startswith("/proc/"):
            kind = "an open file of a process"
        if kind:
            raise OutputError(f"'{path}' is {kind}, expected a regular file or none")
        file = os.path.join(folder, os.readlink(file))
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))


def _make_name():
    return f".fsdp-{secrets.token_hex(8)}.tmp"


@contextlib.contextmanager
def _without_signals():
    """In this block signals do not end the process, so that no temporary name is left between its
    creation and the rename."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _sync(folder):
    try:
        os.fsync(folder)
    except OSError as error:  # some file systems cannot sync folders
        if error.errno != errno.EINVAL:
            raise


def _sync_folder(path):
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _sync(descriptor)
    finally:
        os.close(descriptor)


class _File:
    """One file that is being written, through `stream`."""

    def __init__(self, path):
        target, old = find_target(path)
        if old and not os.access(target, os.W_OK):  # a rename would replace it although it is read-only
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))
        self.path, self.old, self.temporary = path, old, None
        self.name = os.path.basename(target)
        self.folder = os.open(os.path.dirname(target) or ".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            self.stream = os.fdopen(self._create(), "w+b")
            if old:
                os.fchmod(self.stream.fileno(), old.st_mode & 0o777)
        except BaseException:
            self._remove()
            raise

    def _create(self):
        with contextlib.suppress(OSError):
            descriptor = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o666, dir_fd=self.folder)
            if os.path.exists(self._link_of(descriptor)):
                return descriptor
            os.close(descriptor)  # without /proc the file could not be given a name
        name = _make_name()
        descriptor = os.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666, dir_fd=self.folder)
        self.temporary = name
        return descriptor

    @staticmethod
    def _link_of(descriptor):
        return f"/proc/self/fd/{descriptor}"

    def names(self, other):
        """True if the other file has the same name in the same folder."""
        return self.name == other.name and os.path.samestat(os.fstat(self.folder), os.fstat(other.folder))

    def make_durable(self):
        self.stream.flush()
        os.fsync(self.stream.fileno())

    def put_in_place(self):
        with _without_signals():
            try:
                if not self.temporary:
                    name = _make_name()
                    os.link(self._link_of(self.stream.fileno()), name, dst_dir_fd=self.folder)
                    self.temporary = name
                os.replace(self.temporary, self.name, src_dir_fd=self.folder, dst_dir_fd=self.folder)
                self.temporary = None
            finally:
                self._remove_name()
        _sync(self.folder)

    def close(self):
        # Errors of flushing a file that is discarded do not matter.
        with contextlib.suppress(OSError):
            self.stream.close()
        self._remove()

    def _remove(self):
        self._remove_name()
        os.close(self.folder)

    def _remove_name(self):
        if self.temporary:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.temporary, dir_fd=self.folder)
        self.temporary = None


class Files:
    """Files of one command. They are put in place when the `with` block ends, after all of them are
    durable; an exception removes them all. `inputs`: paths that the command reads, which no output may be."""

    def __init__(self, inputs=()):
        self._inputs, self._files = list(inputs), []

    def __enter__(self):
        return self

    def open(self, path):
        """A binary stream for writing, reading and seeking. It is closed at the end of the
        block."""
        file = _File(path)
        self._files.append(file)
        for other in self._files[:-1]:
            if file.names(other):
                raise OutputError(f"'{path}' is written twice")
        for source in self._inputs:
            if file.old and os.path.exists(source) and os.path.samestat(os.stat(source), file.old):
                raise OutputError(f"'{path}' is an input, which writing it would destroy")
        return file.stream

    def __exit__(self, kind, error, trace):
        try:
            if kind is None:
                for file in self._files:
                    file.make_durable()
                for file in self._files:
                    file.put_in_place()
        finally:
            for file in self._files:
                file.close()


def _missing_folders(path):
    """The folders that makedirs will make for a path, innermost first."""
    missing, folder = [], os.path.abspath(path)
    while not os.path.lexists(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    return missing


def _remove_folders(folders):
    """Removes the folders, except those that hold other files."""
    for folder in folders:
        with contextlib.suppress(OSError):
            os.rmdir(folder)


@contextlib.contextmanager
def fresh_folder(path):
    """A folder for the block's files: it is made, or must be empty. An exception removes the files, and the folders
    that this function made: `path` and its parents."""
    made = _missing_folders(path)
    try:
        os.makedirs(path, exist_ok=True)
    except BaseException:
        _remove_folders(made)
        raise
    if os.listdir(path):
        raise OutputError(f"'{path}' is not empty")
    try:
        yield
        _sync_folder(path)
        _sync_folder(os.path.join(path, os.pardir))
    except BaseException:
        for entry in os.scandir(path):
            shutil.rmtree(entry) if entry.is_dir(follow_symlinks=False) else os.unlink(entry)
        _remove_folders(made)
        raise


@contextlib.contextmanager
def replacing(path, inputs=()):
    """Yields the stream of a single file."""
    with Files(inputs) as files:
        yield files.open(path)
