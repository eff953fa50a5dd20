"""Tables of programs that run nothing named by their arguments, and of options that change that.

A program that is in none of these tables is unknown, and its arguments are treated as if it ran
them. So a missing name costs a question, and never lets a command pass.

Write a set of names as one text.
"""

from __future__ import annotations

import re


def name_set(text: str) -> frozenset[str]:
    """Return the words of a text as a set.

    >>> sorted(name_set("b a"))
    ['a', 'b']
    """
    return frozenset(text.split())


INERT = name_set(
    """
    : [ alias base32 base64 basename bc break cal cat cd chgrp chmod chown cksum clear cmp
    column comm continue cp csplit curl cut date df diff dirname dirs dot du echo egrep exit
    expand expr factor false fgrep file fmt fold free g++ gcc getconf getent getopts git grep
    groups gunzip gzip hash head hexdump hostname iconv id install join jq kill killall less
    link ln local locale logname ls lsattr lsblk lscpu lsof man md5sum mkdir mkfifo mktemp
    more mv nl nm nproc numfmt objdump od openssl paste pathchk pgrep pidof ping pkill popd pr
    printenv printf ps pushd pwd read readelf readlink realpath return rev rm rmdir rsync scp
    seq set sha1sum sha224sum sha256sum sha384sum sha512sum shift shopt shuf size sleep sort
    split ss stat strings strip stty sum sync tac tail tar tee test tidy top touch tput tr
    tree true truncate tsort tty type ulimit umask unalias uname unexpand uniq unlink unset
    unxz unzip uptime users vmstat wait wc wget whereis which who whoami xmllint xxd xz yes yq
    zcat zgrep zip zstd ag arch ar as at-spi bat bzip2 bunzip2 cc c++ clang clang++
    clang-format cloc cppcheck cscope ctags dig dos2unix dpkg-query exa eza gh ggrep host
    identify ifconfig ip ldd ld lsb_release ltrim netstat nslookup pandoc patch pip pip3
    pkg-config protoc rg fd fdfind sd sqlformat tldr tokei unix2dos wdiff readarray mapfile dd
    jobs bg fg disown times declare export readonly typeset let find xsel xclip pbcopy pbpaste
    shellcheck shfmt systemctl journalctl service apt apt-get apt-cache dpkg brew ssh-keygen
    ssh-add gpg nano crc32 diff3 sdiff colordiff delta lz4 pigz 7z magick convert ffprobe helm
    aws gcloud az heroku
    """
)
"""Programs that do not run their arguments; for some, options in `PROGRAM_OPTIONS` do."""

TEXT_ONLY = name_set(
    """
    : [ basename break cat cd cksum cmp comm continue cut date df diff dirname du echo egrep
    exit expr false fgrep fold ggrep grep head hexdump jq ls md5sum mkdir nl od paste printf
    pwd read readlink realpath return rev rmdir seq set sha1sum sha256sum shift sleep stat
    strings tac tail tee test touch tr tree true type uniq unset wait wc which xxd yes git gh
    rg ag file kill rm chmod
    """
)
"""Programs for which a text is only a text: `echo git push` and `grep 'git push'` run nothing."""

PROJECT_TOOLS = name_set(
    """
    ansible ansible-playbook ant autoconf automake autoreconf bandit bazel bazelisk behave
    biome black bower buck2 buf bundle bundler cargo clippy-driver cmake codecov composer
    conan conda coverage createdb cypress dart deno detox django-admin docker docker-compose
    dotnet dropdb elixir electron erl esbuild eslint expo express fastapi firebase flake8
    flask flutter gatsby gem ginkgo go gofmt goimports golangci-lint goreleaser gradle gradlew
    grunt gulp gunicorn hatch hypercorn import-linter isort jest jekyll jupyter just kubectl
    lein lerna lint-imports lint-staged locust make meson mix mkdocs mocha msbuild mvn mvnw
    mypy n nest netlify newman next ng ninja nox npm npx nuxt nx nvm packer pdm phpunit pipenv
    pipx playwright pnpm podman podman-compose poetry pre-commit prettier prisma pulumi pyenv
    pylint pyright pytest py.test rails rake rbenv react-scripts rollup rspec rubocop ruff
    rustc rustfmt rustup sam sass sbt scons serverless sphinx-build stack stylelint supabase
    svelte-kit swc swift tach task tauri tcpdump terraform terragrunt tofu tox tsc ts-node tsx
    turbo twine unittest uv uvicorn uvx vagrant vercel vite vitest vue vulture webpack
    wrangler xcodebuild yamllint yarn alembic celery pip-audit pip-compile pip-sync dbt
    airflow mlflow streamlit harken createuser pg_dump pg_restore pg_isready initdb javac jar
    javadoc kotlinc scalac swiftc ghc cabal nimble zig hugo asciidoctor pdflatex latexmk
    valgrind-listener sphinx-apidoc cog direnv-allow
    """
)
"""Programs that run the code of a project, as a script of the project does."""

SHELLS = name_set("ash bash dash eval fish ksh mksh pwsh rbash sh trap yash zsh")

WRAPPERS = name_set(
    """
    builtin busybox bwrap caffeinate cgexec chpst chroot chrt chronic command compgen
    daemonize deno direnv docker doas dumb-init entr env exec fakechroot fakeroot faketime fd
    fdfind find firejail flock fzf gosu hyperfine i3-msg ionice kubectl linux32 linux64
    logsave ltrace make mapfile mise multitime nice nix nix-shell nohup npm npx nsenter
    numactl parallel perf pipenv pipx pkexec pnpm podman poetry prlimit proxychains
    proxychains4 readarray retry rlwrap run0 run-parts runuser script setarch setpriv setsid
    softlimit ssh sshpass start-stop-daemon stdbuf strace su sudo systemd-run taskset time
    timeout tini toolbox torsocks toybox tsocks unbuffer unshare uv uvx valgrind watch xargs
    xvfb-run yarn zsudo sg newgrp runcon s6-setuidgid setuidgid jobs coproc cargo go bundle
    asdf rustup conda hatch pdm rtx nodemon dotenv with-env cross-env concurrently
    docker-compose catchsegv ld.so sem rush
    """
)
"""Programs that run the commands in their arguments."""

EXACT_WRAPPERS = name_set(
    """
    builtin chrt command coproc doas env exec ionice nice nohup setsid stdbuf sudo time
    timeout xargs
    """
)
"""Wrappers with the command as first argument after the options."""

WRAPPER_VALUES: dict[str, str] = {
    "env": "uC",
    "exec": "a",
    "ionice": "cnpP",
    "nice": "n",
    "stdbuf": "ioe",
    "sudo": "ugpCTrtDRh",
    "doas": "uC",
    "time": "fo",
    "timeout": "ks",
    "xargs": "InPLdaEs",
}
"""The short options of these wrappers that take a value."""
TEXT_WRAPPERS = name_set(
    "entr env flock hyperfine nix-shell runuser script ssh su trap watch xargs"
)
"""Wrappers that take a command as one text."""

INTERPRETERS = name_set(
    """
    awk bun gawk lua luajit mawk nawk node nodejs perl php pypy python ruby sed
    """
)
"""Programs that run code of another language; see `shell_snippets`."""

OPAQUE = name_set(
    """
    at batch crontab csi emacs emacsclient ed eqn expect ex ftp fc gdb gimp ghci gnuplot guile
    irb jdb jrunscript jshell julia kakoune lftp lldb m4 mail mailx mutt nc ncat neovim netcat
    nvim ocaml octave osascript pico pry psftp r racket rlogin rsh rscript scala screen sftp
    socat sqlplus tclsh telnet tmux vi view vim vimdiff vimtutor visudo wall wish wine xdotool
    xterm zellij gnome-terminal konsole rview rvim byobu dtach abduco dbus-send gdbus busctl
    qemu-system-x86_64 lxc-attach machinectl nspawn bind complete enable run-parts bpftrace
    ctr nerdctl crictl atd anacron incrontab inotifywait watchman watchexec entr pwsh csh tcsh
    elvish nu xonsh iex erlang janet raku perl6 swipl sbcl clisp clojure ts-node-esm
    """
)
"""Programs that run commands in a language of their own, or later, or in another process."""

DATABASES = name_set("mysql mariadb psql sqlite sqlite3 duckdb")
"""Programs with SQL as input and arguments, and with an escape to the shell."""

PROGRAM_OPTIONS: dict[str, str] = {
    "ag": "--pager",
    "ansible": "-m -a",
    "apt": "-o -c --option",
    "apt-get": "-o -c --option",
    "ar": "--plugin",
    "as": "--plugin",
    "bat": "--pager",
    "brew": "sh",
    "c++": "-wrapper -B -fplugin",
    "cargo": "--config",
    "cc": "-wrapper -B -fplugin",
    "clang": "-B -fplugin -Xclang",
    "clang++": "-B -fplugin -Xclang",
    "cmake": "-E -P -C",
    "composer": "exec",
    "curl": "-K --config",
    "delta": "--pager",
    "deno": "eval repl",
    "dpkg": "--pre-invoke --post-invoke --status-logger",
    "fd": "-x -X --exec --exec-batch",
    "fdfind": "-x -X --exec --exec-batch",
    "find": "-ok -okdir",
    "g++": "-wrapper -B -fplugin",
    "gcc": "-wrapper -B -fplugin",
    "gh": "alias extension ext codespace",
    "go": "-exec -toolexec -vettool -ldflags=-extld",
    "gpg": "--photo-viewer --exec-path --agent-program --dirmngr-program --pinentry-program",
    "hash": "-p",
    "helm": "--post-renderer plugin",
    "install": "-s --strip-program",
    "ip": "exec -b -batch",
    "ld": "-plugin --plugin",
    "less": "+ -k --lesskey-file --lesskey-content --lesskey-src",
    "man": "-P --pager -H --html -R -X -T -l",
    "mvn": "exec:exec exec:java",
    "nano": "-s --speller -t",
    "npm": "-c --call --script-shell --shell --editor --node-options config --git --prefix",
    "npx": "-c --call --script-shell --shell --node-options",
    "objdump": "--plugin",
    "openssl": "-engine -provider engine",
    "pandoc": "--filter -F --lua-filter -L --pdf-engine",
    "pip": "config --python --proxy",
    "pnpm": "-c --shell-mode --script-shell config",
    "protoc": "--plugin",
    "rg": "--pre --hostname-bin",
    "rsync": "-e --rsh --rsync-path --remote-option -M --daemon --config --dparam",
    "rustc": "-Clinker -C --codegen",
    "scp": "-S -o -F -D -J",
    "sdiff": "-i",
    "sort": "--compress-program",
    "split": "--filter",
    "ssh": "-F -E -I -S -O -W -J",
    "ssh-add": "-s",
    "ssh-keygen": "-D -w",
    "strip": "--plugin",
    "systemctl": "edit link set-environment import-environment set-property",
    "tar": (
        "-I -F --to-command --checkpoint-action --use-compress-program --rsh-command --rmt-command "
        "--info-script --new-volume-script"
    ),
    "terraform": "-plugin-dir console",
    "wget": "--use-askpass -e --execute --config",
    "yarn": "config --script-shell",
    "zip": "-TT --unzip-command -T",
}
"""Options (and subcommands) that name a program or code, by program. A long one also holds when it
is abbreviated, a short one also within a cluster."""

SHORT_VALUES: dict[str, str] = {
    "tar": "fbCTXKNVLHg",
    "ssh": "bcDeilLmopQRwBP",
    "scp": "cilP",
    "rsync": "fBT",
    "curl": "HdoXuAebcFtTrmwxyzCEPQUYD",
    "man": "sSmMCeELp",
    "wget": "oaOtTwQPUDARIiBlX",
    "zip": "btxin",
    "install": "mogtS",
    "nano": "",
    "ansible": "",
}
"""Short options that take a value, so that the value is not read as more options."""

SAFE_MODULES = name_set(
    """
    ast base64 bisect build calendar collections compileall csv datetime decimal difflib dis
    ensurepip fractions functools gzip hashlib heapq html http.server importlib inspect
    itertools json json.tool locale math mypy operator os.path pathlib pip platform pprint
    py_compile pytest pyupgrade random re ruff site statistics string struct sys sysconfig
    tabnanny tarfile textwrap time tokenize unicodedata unittest uuid venv virtualenv zipfile
    zlib black isort flake8 pylint twine pip_audit coverage
    """
)
"""Modules that `python -m` may run with input from a pipe."""
CODE_MODULES = name_set("code pdb timeit idlelib runpy cProfile profile trace doctest bdb")
"""Modules that run code which their arguments or their input name."""

GIT_SUBCOMMANDS = name_set(
    """
    add am annotate apply archive bisect blame branch bundle cat-file check-attr check-ignore
    check-mailmap check-ref-format checkout checkout-index cherry cherry-pick clean clone
    commit commit-graph commit-tree config count-objects describe diff diff-files diff-index
    diff-tree difftool-help fetch for-each-ref format-patch fsck gc grep hash-object help
    index-pack init interpret-trailers log ls-files ls-remote ls-tree merge merge-base
    merge-file merge-tree mktag mktree mv name-rev notes pack-objects pack-refs patch-id prune
    prune-packed pull push range-diff read-tree rebase reflog remote repack replace reset
    restore rev-list rev-parse revert rm shortlog show show-branch show-index show-ref
    sparse-checkout stash status stripspace submodule switch symbolic-ref tag unpack-objects
    update-index update-ref update-server-info var verify-commit verify-pack verify-tag
    version whatchanged worktree write-tree
    """
)
"""Subcommands of git. Another one is an alias, an extension, or sends and runs by itself."""
GH_SUBCOMMANDS = name_set(
    """
    api attestation auth browse cache co completion config gist gpg-key help issue label org
    pr project release repo ruleset run search secret ssh-key status variable version workflow
    """
)
"""Subcommands of gh. Another one is an alias or an extension."""
GIT_OPTIONS = name_set(
    """
    --exec --upload-pack --receive-pack --extcmd --open-files-in-pager --textconv --ext-diff
    --template --exec-path --config-env --config --edit-description --interactive --strategy
    --gui
    """
)
GIT_SHORT_OPTIONS: dict[str, str] = {
    "clone": "uc",
    "grep": "O",
    "rebase": "xi",
    "merge": "s",
    "pull": "s",
    "fetch": "",
}
GIT_SAFE_SETTINGS = name_set(
    """
    advice. color. column. core.abbrev core.autocrlf core.eol core.filemode core.ignorecase
    core.longpaths core.quotepath core.symlinks core.safecrlf diff.algorithm diff.context
    diff.renames diff.color fetch.prune init.defaultbranch log. merge.conflictstyle merge.ff
    pull.rebase pull.ff push.default rebase.autostash user. safe. commit.gpgsign tag.gpgsign
    gc.auto http.postbuffer rerere. status. branch. versionsort. grep.linenumber blame.date
    format.pretty i18n. submodule.recurse protocol.version
    """
)
"""Settings of git that name no program."""

PROGRAM_VARIABLE = re.compile(
    r"LD_.*|DYLD_.*|BASH.*|PERL5.*|PS[0-4]|npm_config_.*|GIT_(?!AUTHOR_|COMMITTER_|TRACE)(?!"
    r"TERMINAL_PROMPT$|OPTIONAL_LOCKS$|LFS_SKIP_SMUDGE$|MERGE_AUTOEDIT$).*"
    r"|PATH|IFS|ENV|CDPATH|HOME|XDG_CONFIG_HOME|ZDOTDIR|FPATH|MAKEFLAGS|RUBYOPT|LESS\w*|RUSTC\w*"
    r"|\w*(?:EDITOR|PAGER|VISUAL|SHELL|RSH|SSH|COMMAND|CMD|ASKPASS|BROWSER|HOOKS?|OPTIONS|OPTS?"
    r"|STARTUP|PROGRAM|EXEC|WRAPPER|RUNNER|LAUNCHER|LINKER|INTERPRETER|PRELOAD|INPUTRC|TERMINAL"
    r"|VIEWER|COMPILER|PLUGINS?|CLASSPATH)|CC|CXX|LD|AR|AS|CPP|FC"
)
"""Variables that name programs, folders of programs, or options and code for programs."""
SAFE_VALUE = re.compile(
    r"|true|:|cat|less|gcc|clang|g\+\+|clang\+\+|vim?|nano"
    r"|(?:--(?:max-old-space-size=\d+|no-warnings|no-deprecation|trace-warnings) ?)+"
    r"|(?:-Xm[xs]\d+[mgMG] ?)+"
)
"""Values of such variables that run nothing else."""
