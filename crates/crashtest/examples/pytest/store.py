"""An example store, its workload and its check: a file with one number in each line."""

import os
import sys


def read(path):
    return open(path).read().split() if os.path.exists(path) else []


def work(path, sync):
    """Appends numbers until it is killed, and prints each one when it is durable."""
    first = len(read(path)) + 1
    with open(path, "a") as file:
        for n in range(first, 10**9):
            file.write(f"{n}\n")
            file.flush()
            if sync:
                os.fsync(file.fileno())
            os.write(1, f"{n}\n".encode())


def check(path, acked):
    present = set(read(path))
    missing = [n for n in read(acked) if n not in present]
    if missing:
        sys.exit(f"{len(missing)} acknowledged numbers are missing, the first is {missing[0]}")


if __name__ == "__main__":
    role, directory, argument = sys.argv[1:]
    path = os.path.join(directory, "numbers")
    if role == "work":
        work(path, argument == "fsync")
    else:
        check(path, argument)
