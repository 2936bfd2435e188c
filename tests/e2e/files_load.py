"""A load on a file system in the manner of fsstress: many small files created, grown, overwritten,
truncated, renamed, linked and removed by several threads, with a record of what each file must hold."""
import hashlib
import os
import random
import threading
import time

from cases import Failed

FILES_MAX = 150
SIZE_MAX = 1 << 20


class FileLoad:
    def __init__(self, root, source, threads):
        self.root = root
        self.workers = [Churner(root, index, random.Random(source.random())) for index in range(threads)]

    def churn(self, seconds):
        end = time.monotonic() + seconds
        threads = [threading.Thread(target=worker.churn, args=(end,)) for worker in self.workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for worker in self.workers:
            if worker.error:
                raise Failed(f"the load met an error: {worker.error}")

    def manifest(self):
        """Every file with the digest of what it must hold."""
        return {path: hashlib.blake2b(data).digest() for worker in self.workers for path, data in worker.files.items()}

    def check(self, when, manifest=None):
        """The tree must hold exactly these files with exactly this content."""
        manifest = self.manifest() if manifest is None else manifest
        there = set()
        for folder, _, names in os.walk(self.root):
            there |= {os.path.join(folder, name) for name in names}
        if there != set(manifest):
            strange = list(there ^ set(manifest))[:5]
            raise Failed(f"{when}: {len(manifest)} files expected, {len(there)} found; differing: {strange}")
        for path, digest in manifest.items():
            with open(path, "rb") as f:
                if hashlib.blake2b(f.read()).digest() != digest:
                    raise Failed(f"{when}: {path} does not hold what was written")


class Churner:
    """One thread's files, below a folder of its own."""

    def __init__(self, root, index, source):
        self.folder, self.random = os.path.join(root, f"t{index}"), source
        self.files, self.error, self.number = {}, None, 0

    def churn(self, end):
        try:
            os.makedirs(self.folder, exist_ok=True)
            while time.monotonic() < end:
                self.step()
        except Exception as error:
            self.error = error

    def step(self):
        dice = self.random.random()
        if not self.files or (dice < 0.25 and len(self.files) < FILES_MAX):
            return self.create()
        path = self.random.choice(list(self.files))
        action = self.random.choice((self.append, self.overwrite, self.overwrite, self.truncate, self.rename,
                                     self.remove, self.sync))
        action(path)

    def content(self):
        size = int(SIZE_MAX * self.random.random() ** 4) + 1
        # A third does not compress, the rest does.
        return self.random.randbytes(size) if self.random.random() < 0.3 else self.random.randbytes(16) * (size // 16 + 1)

    def create(self):
        self.number += 1
        folder = os.path.join(self.folder, f"d{self.random.randrange(8)}")
        os.makedirs(folder, exist_ok=True)
        path, data = os.path.join(folder, f"f{self.number}"), self.content()
        with open(path, "wb") as f:
            f.write(data)
        self.files[path] = data

    def append(self, path):
        data = self.content()[:SIZE_MAX // 4]
        with open(path, "ab") as f:
            f.write(data)
        self.files[path] += data

    def overwrite(self, path):
        old = self.files[path]
        offset, data = self.random.randrange(len(old) + 1), self.content()[:64 << 10]
        with open(path, "r+b") as f:
            f.seek(offset)
            f.write(data)
        self.files[path] = old[:offset] + data + old[offset + len(data):]

    def truncate(self, path):
        size = self.random.randrange(int(len(self.files[path]) * 1.5) + 1)
        os.truncate(path, size)
        self.files[path] = self.files[path][:size].ljust(size, b"\0")

    def rename(self, path):
        self.number += 1
        folder = os.path.join(self.folder, f"d{self.random.randrange(8)}")
        os.makedirs(folder, exist_ok=True)
        target = os.path.join(folder, f"r{self.number}")
        os.rename(path, target)
        self.files[target] = self.files.pop(path)

    def remove(self, path):
        os.remove(path)
        del self.files[path]

    def sync(self, path):
        if self.random.random() < 0.2:
            with open(path, "rb") as f:
                os.fsync(f.fileno())
