"""Carries ONNX Runtime's CUDA provider to a machine that has only CUDA 13. See the script "peer" beside this file.

make JAR DIR:  takes the libraries out of the jar, keeps GPU code for compute capability 9.0 only, adds libraries under
               the names of CUDA 12 that call CUDA 13, and writes all of it compressed into DIR/peer.I-of-N.
join DIR OUT:  unpacks such pieces into OUT, or says which are missing.
"""

import io
import lzma
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile

ARCHITECTURE = 90
PIECE_BYTES = 45_000_000
NATIVES = "ai/onnxruntime/native/linux-x64/"
PROVIDER = "libonnxruntime_providers_cuda.so"
LIBRARIES = ["libonnxruntime.so", "libonnxruntime4j_jni.so", "libonnxruntime_providers_shared.so", PROVIDER]

# A container of GPU code: magic, version, header size, bytes that follow. Each entry: kind, flags, header size, bytes
# that follow, four words, architecture.
CONTAINER = struct.Struct("<IHHQ")
CONTAINER_MAGIC = 0xBA55ED50
ENTRY = struct.Struct("<HHIQ12xI")
MACHINE_CODE = 2


def containers(image):
    """Yields the first and last offset of the entries of every container in a library."""
    magic = CONTAINER_MAGIC.to_bytes(4, "little")
    at = image.find(magic)
    while at >= 0:
        _, version, header, size = CONTAINER.unpack_from(image, at)
        first, last = at + header, at + header + size
        whole = version == 1 and header == CONTAINER.size and last <= len(image)
        if whole:
            yield first, last
        at = image.find(magic, last if whole else at + 4)


def keep_architecture(image):
    """Clears the GPU code of other architectures; what stays in place is still well formed. Returns bytes kept."""
    kept = 0
    for at, last in containers(image):
        while at < last:
            kind, _, header, size, architecture = ENTRY.unpack_from(image, at)
            if header < ENTRY.size or at + header + size > last:
                raise ValueError(f"an entry at {at} of {header} and {size} bytes does not fit its container")
            if kind == MACHINE_CODE and architecture == ARCHITECTURE:
                kept += size
            else:
                image[at + header : at + header + size] = bytes(size)
            at += header + size
    if not kept:
        raise ValueError(f"no code for architecture {ARCHITECTURE} was found")
    return kept


FORWARDER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum { FUNCTIONS = %(count)d };
static const char* const names[FUNCTIONS] = {%(names)s};
__attribute__((visibility("hidden"))) void* forward_targets[FUNCTIONS];
__attribute__((visibility("hidden"))) void* forward_library;

static void absent(void) {
  fprintf(stderr, "%(newer)s has none of these, and one was called:");
  for (int i = 0; i < FUNCTIONS; i++) {
    if (forward_targets[i] == (void*)absent) fprintf(stderr, " %%s", names[i]);
  }
  fprintf(stderr, "\n");
  abort();
}

__attribute__((constructor)) static void find_targets(void) {
  forward_library = dlopen("%(newer)s", RTLD_NOW | RTLD_GLOBAL);
  if (!forward_library) {
    fprintf(stderr, "%(older)s: %%s\n", dlerror());
    abort();
  }
  for (int i = 0; i < FUNCTIONS; i++) {
    void* target = dlsym(forward_library, names[i]);
    forward_targets[i] = target ? target : (void*)absent;
  }
}
"""

# Jumps with every register as it was, so that no signature has to be known; r11 belongs to nobody at a call.
JUMP = """
  .globl {name}
  .type {name}, @function
{name}:
  movq forward_targets+{offset}(%rip), %r11
  jmp *%r11
"""


def forwarder(library, functions, special, folder):
    """Builds library.so.12, whose functions call those of library.so.13; special ones are in the given C file."""
    older, newer = f"lib{library}.so.12", f"lib{library}.so.13"
    defined = set(re.findall(r"^cudaError_t (\w+)\(", special.read_text(), re.MULTILINE)) if special else set()
    forwarded = [name for name in functions if name not in defined]
    values = {
        "count": len(forwarded),
        "names": ", ".join(f'"{name}"' for name in forwarded),
        "older": older,
        "newer": newer,
    }
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        (work / "forward.c").write_text(FORWARDER % values)
        jumps = "".join(JUMP.format(name=name, offset=8 * i) for i, name in enumerate(forwarded))
        (work / "jumps.s").write_text("  .text\n" + jumps + '  .section .note.GNU-stack,"",@progbits\n')
        # The name of the version is that of the library, in all of NVIDIA's.
        exported = " ".join(f"{name};" for name in functions)
        (work / "versions").write_text(f"{older} {{ global: {exported} local: *; }};\n")
        sources = [work / "forward.c", work / "jumps.s"] + ([special] if special else [])
        subprocess.run(
            ["gcc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", f"-I{cuda_headers()}", "-o", folder / older, *sources]
            + [f"-Wl,-soname,{older}", f"-Wl,--version-script={work / 'versions'}", "-ldl"],
            check=True,
        )
    print(f"{older}: {len(functions)} functions call {newer}", flush=True)


def cuda_headers():
    headers = pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "include"
    if not (headers / "driver_types.h").is_file():
        sys.exit(f"peer: no headers of CUDA in {headers}: set CUDA_HOME to where CUDA 13 is")
    return headers


def needed_functions(provider):
    """The functions that the provider takes from CUDA's libraries, by library."""
    symbols = subprocess.run(["nm", "-D", "--undefined-only", provider], capture_output=True, text=True, check=True)
    functions = {}
    for name, library in re.findall(r" U (\w+)@+lib(\w+)\.so\.12\b", symbols.stdout):
        functions.setdefault(library, set()).add(name)
    return {library: sorted(names) for library, names in functions.items()}


def make(jar, out):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        with zipfile.ZipFile(jar) as archive:
            for name in LIBRARIES:
                (folder / name).write_bytes(archive.read(NATIVES + name))
        for library, functions in needed_functions(folder / PROVIDER).items():
            special = pathlib.Path(__file__).with_name("peer_cudart.c") if library == "cudart" else None
            forwarder(library, functions, special, folder)
        image = bytearray((folder / PROVIDER).read_bytes())
        print(f"{PROVIDER}: {keep_architecture(image) >> 20} MiB of GPU code kept", flush=True)
        (folder / PROVIDER).write_bytes(image)
        del image
        plain = io.BytesIO()
        with tarfile.open(fileobj=plain, mode="w") as tar:
            for file in sorted(folder.iterdir()):
                tar.add(file, file.name)
    filters = [{"id": lzma.FILTER_X86}, {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME}]
    packed = lzma.compress(plain.getbuffer(), filters=filters)
    pieces = -(-len(packed) // PIECE_BYTES)
    for old in pathlib.Path(out).glob("peer.*-of-*"):
        old.unlink()
    for i in range(pieces):
        piece = packed[i * PIECE_BYTES : (i + 1) * PIECE_BYTES]
        name = pathlib.Path(out) / f"peer.{i + 1}-of-{pieces}"
        name.write_bytes(piece)
        print(f"{name}: {len(piece)} bytes")


def join(folder, out):
    found = {name: name.rpartition("-")[2] for name in os.listdir(folder) if re.fullmatch(r"peer\.\d+-of-\d+", name)}
    if len(set(found.values())) > 1:
        sys.exit(f"run: {folder} has pieces of more than one set: {sorted(found)}; empty it")
    if not found:
        sys.exit(f"run: there is no piece in {folder}; tests/gpu/peer makes them")
    count = int(next(iter(found.values())))
    wanted = [f"peer.{i + 1}-of-{count}" for i in range(count)]
    missing = [name for name in wanted if name not in found]
    if missing:
        print(f"{len(found)} of {count} pieces are there; still missing: {' '.join(missing)}")
        return
    packed = b"".join((pathlib.Path(folder) / name).read_bytes() for name in wanted)
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(packed))) as tar:
        tar.extractall(out, filter="data")
        print(f"{out} has {' '.join(tar.getnames())}")


if __name__ == "__main__":
    commands = {"make": make, "join": join}
    if len(sys.argv) != 4 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](sys.argv[2], sys.argv[3])
