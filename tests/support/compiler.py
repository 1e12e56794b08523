"""The C++ compiler, made to compile each program once in a session of tests.

Most of what tests of real graphs compute is g++: both sides of a comparison, and many tests with the same small model, compile
the same programs in caches of their own. Here a script named ``g++`` stands before the compiler on PATH. It runs the compiler
on what it has not seen, and hands out what that made when the same program comes again with the same arguments. Inductor, the
pool and the daemon know nothing of it, and it answers ``--version`` as the compiler does. ccache would be the first choice, but
it leaves alone what is compiled and linked in one call, as Inductor does it.

What it has to compile it optimises less and links with gold where there is one: half the time for small kernels. Both sides of
a comparison get the same.
"""

import os
import shlex
import shutil
from pathlib import Path

_SCRIPT = """\
#!/bin/bash
# Stands before the compiler; see tests/support/compiler.py.
set -uo pipefail
compiler=@COMPILER@ store=@STORE@
PATH="$PATH:/usr/bin:/bin"

# One program to one output, or it is none of ours. Headers that are named by path count by what is in them.
source='' output='' others=() next='' command=()
for argument in "$@"; do
    [[ $argument == -O3 ]] && command+=(-O1) || command+=("$argument")
    case "$next$argument" in
        -o*) [[ $next ]] && { [[ $output ]] && exec "$compiler" "$@"; output=$argument; next=''; continue; }
            next=-o; [[ $argument == -o ]] || exec "$compiler" "$@"; continue ;;
        -include*) [[ $next ]] && { others+=("$(sha256sum < "$argument")"); next=''; continue; }
            next=-include; others+=("$argument"); [[ $argument == -include ]] || exec "$compiler" "$@"; continue ;;
        /*.cpp | /*.hpp | /*.h) [[ $source ]] && exec "$compiler" "$@"; source=$argument ;;
        *) others+=("$argument") ;;
    esac
done
[[ $source && $output && -r $source ]] || exec "$compiler" "$@"

key=$({ printf '%s\\0' "${others[@]}" "${source##*.}"; cat "$source"; } | sha256sum)
kept=$store/${key%% *}
exec 9>"$kept.lock"
flock 9
# A precompiled header has 150 MB, and nobody writes to it again; a library each has as its own, and may spoil it.
hand() {
    [[ $output == *.gch ]] && ln -f "$1" "$2" 2>/dev/null || cp "$1" "$2"
}
if ! hand "$kept" "$output" 2>/dev/null; then
    "$compiler" "${command[@]}" @LINKER@ 9>&- || exit
    hand "$output" "$kept.part" && mv "$kept.part" "$kept"
fi
"""


def remember_compiles(folder: Path) -> None:
    """Put the script first on this process's PATH, and with it on that of all it starts. What was compiled is kept in
    ``folder``, which processes may share. Without a compiler nothing is done."""
    compiler = shutil.which("g++")
    programs, store = folder / "bin", folder / "kept"
    if compiler is None or Path(compiler).parent == programs:
        return
    programs.mkdir(parents=True, exist_ok=True)
    store.mkdir(exist_ok=True)
    script = _SCRIPT.replace("@COMPILER@", shlex.quote(compiler)).replace("@STORE@", shlex.quote(str(store)))
    script = script.replace("@LINKER@", "-fuse-ld=gold" if shutil.which("ld.gold") else "")
    part = programs / f"g++.{os.getpid()}"
    part.write_text(script)
    part.chmod(0o755)
    part.rename(programs / "g++")
    os.environ["PATH"] = f"{programs}:{os.environ['PATH']}"
