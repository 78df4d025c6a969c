# shellcheck shell=bash
# Sourced by the scripts: `prepare` finds or makes what they need, which is the system's packages, .venv (Python) and
# build/<preset> (the library). What it says goes to stderr, one line a step; a step's whole output is in build/log/.
set -euo pipefail

# ---- Signals ----

# end_by_signal NUMBER: passes the signal on to the step that runs, waits for its end and ends the script, with
# $interrupted_status where the script has one. A second signal does not wait. Without traps, bash would drop a SIGINT
# that comes while it waits for a program which then ends by itself, and go on.
end_by_signal() {
  local job
  trap - INT TERM HUP
  for job in $(jobs -p); do
    kill "-$1" -- "-$job" || kill "$job" || : # a step has a process group of its own, what watches it has none
  done 2>/dev/null
  wait
  exit "${interrupted_status:-$((128 + $1))}"
}
trap 'end_by_signal 1' HUP
trap 'end_by_signal 2' INT
trap 'end_by_signal 15' TERM

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
venv_python=$root/.venv/bin/python
logs=$root/build/log
mkdir -p "$logs" 2>/dev/null || : # --help needs none; prepare says what is wrong

say() { printf '%s\n' "$*" >&2; }
fail() { say "scripts/${0##*/}: $*"; exit 1; }
wrong_argument() { say "scripts/${0##*/}: $*"; exit 2; }
have() { command -v "$1" >/dev/null 2>&1; }
in_root() (cd "$root" && "$@")

# Before the first step that installs, or builds from nothing.
say_it_takes_minutes() {
  [ -n "${said_minutes:-}" ] || say "Installing and building what is missing: this takes minutes, the first time only"
  said_minutes=yes
}

# show_help "$@": answers --help, wherever it stands before --, with the comment at the top of the script.
show_help() {
  local argument
  for argument in "$@"; do
    case $argument in
      -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;;
      --) return ;;
    esac
  done
}

# answer_early MODULE ARGUMENT...: MODULE, which the bare Python can run, answers --help and the like (status 0), or what is
# wrong (1 and 2), before anything is installed or built. A machine without a usable Python finds out later.
answer_early() {
  local answer status=0
  is_recent_python python3 || return 0
  answer=$(env "PYTHONPATH=$root" python3 -P -m "$@" 2>&1) || status=$?
  case $status in
    0) [ -z "$answer" ] || { printf '%s\n' "$answer"; exit 0; } ;;
    1 | 2) say "$answer"; exit $status ;;
  esac
}

# watch_step LOG: the seconds passed and the last line of LOG: on a terminal once a second, over one another in one line;
# elsewhere a line now and then, for logs of CI and containers.
progress_seconds=30
watch_step() {
  local last next=$progress_seconds
  while sleep 1 >/dev/null 2>&1; do # it outlives this loop for a moment and must not hold a reader of stderr
    last=$(tail -n 1 "$1" | tr -d '[:cntrl:]')
    # What is built or run stands at the end of a line, how far it is at the beginning.
    if [ ${#last} -gt 68 ]; then last="${last:0:20}...${last: -45}"; fi
    if [ -t 2 ]; then
      printf '\r\033[K  %d s  %s' "$SECONDS" "$last" >&2
    elif [ "$SECONDS" -ge "$next" ]; then
      printf '  %d s  %s\n' "$SECONDS" "$last" >&2
      next=$((SECONDS + progress_seconds))
    fi
  done
}

# try_step LOG TEXT COMMAND...: says TEXT, keeps the command's output in build/log/LOG.txt, returns its status, and shows
# how far a long command is. The command runs beside the script, in a process group of its own, so that a signal ends it.
watcher=''
try_step() {
  local log=$logs/$1.txt status=0
  say "$2"
  shift 2
  : >"$log"
  SECONDS=0
  watch_step "$log" 9>&- &
  watcher=$!
  set -m
  "$@" >"$log" 2>&1 </dev/null &
  set +m
  wait $! || status=$?
  end_watch
  return $status
}
end_watch() {
  [ -n "$watcher" ] || return 0
  { kill "$watcher" && wait "$watcher"; } 2>/dev/null || : # killed, or gone before: it has ended
  watcher=''
  [ ! -t 2 ] || printf '\r\033[K' >&2
}
trap end_watch EXIT

# step LOG TEXT COMMAND...: the same; a failure shows the whole output and ends the script.
step() {
  if ! try_step "$@"; then
    cat "$logs/$1.txt" >&2
    fail "failed: $2 (the output above is in build/log/$1.txt)"
  fi
}

# ---- The system's packages, by their Debian and Ubuntu names ----

# Asked of the compiler, which knows where it looks; before there is one, of the place where packages put headers.
includes() {
  if have "${CXX:-c++}"; then
    printf '#include <%s>\n' "$1" | "${CXX:-c++}" -E -x c++ - >/dev/null 2>&1
  else
    [ -e "/usr/include/$1" ]
  fi
}
has_clang_runtime() {
  local name
  for name in libclang_rt.fuzzer.a "libclang_rt.fuzzer-$(uname -m).a"; do
    [ ! -e "$(clang++-19 -print-file-name="$name" 2>/dev/null)" ] || return 0
  done
  return 1
}

has_package() {
  case $1 in
    g++) have "${CXX:-c++}" ;;
    ninja-build) have ninja ;;
    nlohmann-json3-dev) includes nlohmann/json.hpp ;;
    libgtest-dev) includes gtest/gtest.h ;;
    libgmock-dev) includes gmock/gmock.h ;;
    clang-19) have clang++-19 ;;
    g++-aarch64-linux-gnu) have aarch64-linux-gnu-g++ ;;
    googletest) [ -d /usr/src/googletest ] ;;
    graphviz) have dot ;;
    nodejs) have node ;;
    qemu-user) have qemu-aarch64 ;;
    libclang-rt-19-dev) has_clang_runtime ;;
    llvm-19) have llvm-cov-19 && have llvm-profdata-19 ;;
    python3-venv) python3 -c 'import ensurepip, venv' >/dev/null 2>&1 ;;
    *) have "$1" ;;
  esac
}

cmake_is_recent() {
  cmake --version | awk 'NR == 1 { split($3, v, "."); exit !(v[1] > 3 || (v[1] == 3 && v[2] >= 25)) }'
}

# missing_packages NAME...: those that are missing, on one line.
missing_packages() {
  local package missing=()
  for package in "$@"; do has_package "$package" || missing+=("$package"); done
  printf '%s\n' "${missing[*]-}"
}

# need_packages NAME...: installs what is missing as root (in CI also through sudo), else says how and ends.
need_packages() {
  local missing names sudo=''
  missing=$(missing_packages "$@")
  [ -n "$missing" ] || return 0
  have apt-get || fail "missing: $missing (Debian's names); install them with this system's package manager"
  [ "$(id -u)" = 0 ] || sudo=sudo
  if [ -n "${KAEL_NO_INSTALL:-}" ] || { [ -n "$sudo" ] && ! { [ -n "${CI:-}" ] && sudo -n true 2>/dev/null; }; }; then
    say "scripts/${0##*/}: system packages are missing. This installs them:"
    say "$sudo${sudo:+ }apt-get update && $sudo${sudo:+ }apt-get install -y --no-install-recommends $missing"
    exit 1
  fi
  say_it_takes_minutes
  step apt-update "Updating the list of system packages" $sudo apt-get update -q
  read -r -a names <<<"$missing"
  step apt-install "Installing system packages: $missing" \
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${names[@]}"
  missing=$(missing_packages "$@")
  [ -z "$missing" ] || fail "installed, but still not found: $missing"
}

# ---- Python: .venv with pinned requirements ----

is_recent_python() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

# Without the record of a finished installation it may be half made. A check that was killed says nothing about it.
has_python() {
  local status=0
  compgen -G "$root/.venv/installed-*.txt" >/dev/null || return 1
  is_recent_python "$venv_python" || status=$?
  [ $status -le 128 ] || fail "$venv_python was ended by a signal (status $status)"
  return $status
}

# need_python serve|test: what the server needs to run; or that and what the tests need.
need_python() {
  local requirements=server/requirements.txt
  if [ "$1" = test ]; then requirements=packaging/requirements/test.txt; fi
  if ! has_python; then
    is_recent_python python3 ||
      fail "Python 3.11 or newer is needed; $(command -v python3) is $(python3 --version)"
    say_it_takes_minutes
    rm -rf "$root/.venv"
    step venv "Creating the Python environment .venv" python3 -m venv "$root/.venv"
  fi
  # The copy made after the last installation says what is there; while one runs there is none.
  if ! cmp -s "$root/$requirements" "$root/.venv/installed-$1.txt"; then
    rm -f "$root"/.venv/installed-*.txt
    step pip "Installing Python packages from $requirements" \
      "$venv_python" -m pip install --disable-pip-version-check --no-input --require-hashes -r "$root/$requirements"
    cp "$root/$requirements" "$root/.venv/installed-$1.txt"
    if [ "$1" = test ]; then cp "$root/server/requirements.txt" "$root/.venv/installed-serve.txt"; fi
  fi
}

# need_tools NAME: an environment of their own in build/NAME for the tools of packaging/requirements/NAME.txt, which would hold
# back packages that the tests need.
need_tools() {
  local folder=$root/build/$1 requirements=packaging/requirements/$1.txt
  if ! cmp -s "$root/$requirements" "$folder/installed.txt"; then
    rm -rf "$folder"
    step "$1-venv" "Creating the Python environment build/$1" python3 -m venv "$folder"
    step "$1-pip" "Installing Python packages from $requirements" \
      "$folder/bin/pip" install --disable-pip-version-check --no-input --require-hashes -r "$root/$requirements"
    cp "$root/$requirements" "$folder/installed.txt"
  fi
}

# exec_python ARGUMENT...: becomes the environment's interpreter; kael and the server are found whatever the current folder is.
exec_python() {
  exec env ${block_signals:+"$block_signals"} "PYTHONPATH=$root/py:$root${PYTHONPATH:+:$PYTHONPATH}" "$venv_python" -P "$@"
}

# exec_program MODULE ARGUMENT...: the same for a program of ours, which lets SIGINT and SIGTERM come when it can handle
# them: until then they wait, where this system's env can make them.
exec_program() {
  local block_signals=--block-signal=INT,TERM
  env "$block_signals" true 2>/dev/null || block_signals=''
  exec_python -m "$@"
}

# ---- The library ----

cached() { grep -qxF "$2" "$root/build/$1/CMakeCache.txt" 2>/dev/null; }
has_conan_toolchain() { [ -e "$root/build/$1/conan/conan_toolchain.cmake" ]; }

# configure PRESET [-D...]: afresh where the checkout has moved, for CMake refuses the cache of another folder.
configure() {
  local preset=$1 fresh=''
  shift
  cached "$preset" "CMAKE_HOME_DIRECTORY:INTERNAL=$root" || fresh=--fresh
  step "configure-$preset" "Configuring build/$preset" in_root cmake $fresh --preset "$preset" "$@"
}

# compile PRESET [OPTION...]
compile() { step "build-$1" "Building build/$1" in_root cmake --build --preset "$@"; }

# need_cpu_build serve|test: build/cpu up to date, with the tests or without.
need_cpu_build() {
  local tests=OFF
  if [ "$1" = test ]; then tests=ON; fi
  if ! [ -e "$root/build/cpu/build.ninja" ] || ! cached cpu "CMAKE_HOME_DIRECTORY:INTERNAL=$root" ||
    { [ $tests = ON ] && ! cached cpu KAEL_BUILD_TESTS:BOOL=ON; }; then
    say_it_takes_minutes
    # Warnings of a compiler that nobody has tried yet must not keep a newcomer from a build.
    configure cpu "-DKAEL_BUILD_TESTS=$tests" "-DKAEL_WARNINGS_AS_ERRORS=${CI:+ON}"
  fi
  if [ $tests = ON ]; then compile cpu; else compile cpu --target kael; fi
  local library=libkael.so
  if [ "$(uname)" = Darwin ]; then library=libkael.dylib; fi
  export KAEL_LIBRARY=${KAEL_LIBRARY:-$root/build/cpu/$library}
}

# conan_install PRESET: the C++ libraries from Conan, whose cache stays in this checkout.
conan_install() {
  say_it_takes_minutes
  export CONAN_HOME=${CONAN_HOME:-$root/build/conan-home}
  conan profile detect --exist-ok >"$logs/conan-profile.txt" 2>&1 &&
    try_step conan "Installing C++ libraries with Conan" \
      conan install "$root" --build=missing -s compiler.cppstd=20 -of "$root/build/$1" &&
    rm -f "$root/build/$1/CMakeCache.txt"
}

# prepare LIBRARY PYTHON [PACKAGE...]
#   LIBRARY  serve: build/cpu without tests; test: with them; tools: what any preset needs, nothing built; none
#   PYTHON   serve: the server's environment; test: that of the tests
#   PACKAGE  further system packages
# C++ libraries that the system lacks come from Conan where there is one, else from apt.
prepare() {
  local library=$1 python=$2 packages=() libraries=()
  shift 2
  packages=("$@")
  if ! [ -d "$logs" ] || ! [ -w "$logs" ] || ! [ -w "$root/build" ]; then
    fail "cannot write to $root/build, expected a folder to build in and to keep logs in (a library that is built can be" \
      "used without the scripts: KAEL_LIBRARY=FILE python -m server)"
  fi
  # Two scripts at once in one checkout wait for each other here, and only here.
  if have flock; then
    exec 9>"$root/build/.lock"
    flock -n 9 || { say "Waiting for another script in this checkout to end what it installs or builds"; flock 9; }
  fi
  has_python || packages+=(python3 python3-venv)
  [ "$library" = none ] || packages+=(g++ cmake ninja-build)
  case $library in
    serve) libraries=(nlohmann-json3-dev) ;;
    test | tools) libraries=(nlohmann-json3-dev libgtest-dev libgmock-dev) ;;
  esac
  if [ "$library" != tools ] && has_conan_toolchain cpu; then
    libraries=()
  elif [ "$library" != tools ] && have conan && [ -n "$(missing_packages "${libraries[@]}")" ]; then
    need_packages "${packages[@]}"
    if conan_install cpu; then libraries=(); fi
  fi
  need_packages ${packages[@]+"${packages[@]}"} ${libraries[@]+"${libraries[@]}"}
  if [ "$library" != none ] && ! cmake_is_recent; then
    fail "CMake 3.25 or newer is needed; $(command -v cmake) is $(cmake --version | sed -n '1s/.* //p') (PyPI has one)"
  fi
  need_python "$python"
  case $library in
    serve | test) need_cpu_build "$library" ;;
  esac
  exec 9>&-
}
