"""Compile the hot path of the client for the Python that runs this: ``python client/compile.py``.

It needs Cython, a C compiler and the headers of this Python. Where one is missing it does nothing, and the client runs
interpreted; with ``--required`` it says what is missing, and fails.
"""

import argparse
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

SOURCE = Path(__file__).parent / "src"
CORE = SOURCE / "acker_client" / "_core"
FLAGS = ("-O2", "-g0", "-DNDEBUG", "-fwrapv", "-fno-strict-aliasing", "-fvisibility=hidden")
DIRECTIVES = {"language_level": 3, "annotation_typing": False, "embedsignature": False}
"""The types stand in hot_path.pxd alone: annotations would refuse arguments before the client says what is wrong."""


def compiled_folder() -> Path:
    """Return the folder of the compiled form of the present sources, without importing the client."""
    spec = spec_from_file_location("hot_path_form", CORE / "hot_path_form.py")
    assert spec is not None
    assert spec.loader is not None
    form = module_from_spec(spec)
    spec.loader.exec_module(form)
    return Path(form.compiled_folder(str(CORE)))


def missing() -> str | None:
    """Return what is missing here to compile, None if all is there."""
    include = Path(sysconfig.get_paths()["include"])
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "a Python with the GIL: without it, what is compiled would switch the GIL on"
    if find_spec("Cython") is None:
        return "Cython (make setup installs it)"
    if not _linker() or shutil.which(_linker()[0]) is None:
        return "a C compiler (on Debian: apt-get install gcc libc6-dev)"
    if not (include / "Python.h").exists():
        return f"{include}/Python.h (on Debian: apt-get install python3-dev)"
    return None


def write_c(to: Path) -> None:
    """Write the hot path in C."""
    from Cython.Compiler.Main import CompilationOptions, compile_single  # noqa: PLC0415 - it may be missing

    options = CompilationOptions(
        output_file=str(to), include_path=[str(SOURCE)], compiler_directives=DIRECTIVES, formal_grammar=False
    )
    source = CORE / "hot_path.py"
    ended = compile_single(str(source), options, full_module_name="acker_client._core.hot_path")
    if ended.num_errors:
        raise RuntimeError(f"Cython does not compile {source}")


def compile_c(source: Path, to: Path) -> None:
    """Make an extension module of it."""
    include = sysconfig.get_paths()["include"]
    command = [*_linker(), "-fPIC", *FLAGS, f"-I{include}", str(source), "-o", str(to)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise RuntimeError(f"{shlex.join(command)}\n{ended.stderr}")


def _linker() -> list[str]:
    return shlex.split(sysconfig.get_config_var("LDSHARED") or "")


def build() -> None:
    """Put the compiled form where the client finds it, in place of those of other sources."""
    folder = compiled_folder()
    name = "hot_path" + sysconfig.get_config_var("EXT_SUFFIX")
    if (folder / name).exists():
        return
    if folder.parent.exists() and not folder.exists():
        shutil.rmtree(folder.parent)
    with tempfile.TemporaryDirectory() as scratch:
        written, made = Path(scratch) / "hot_path.c", Path(scratch) / name
        write_c(written)
        compile_c(written, made)
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f"{name}.part"
        shutil.copy(made, part)
        part.replace(folder / name)


def main() -> int:
    """Compile what is not compiled yet, and return the exit code."""
    parser = argparse.ArgumentParser(description="Compile the hot path of the client.")
    parser.add_argument("--required", action="store_true", help="fail where something is missing")
    required = parser.parse_args().required
    lacking = missing()
    if lacking is not None:
        if required:
            sys.stderr.write(f"the hot path of the client is not compiled: this needs {lacking}\n")
        return int(required)
    try:
        build()
    except RuntimeError as error:
        sys.stderr.write(f"the hot path of the client is not compiled, and runs interpreted: {error}\n")
        return int(required)
    return 0


if __name__ == "__main__":
    sys.exit(main())
