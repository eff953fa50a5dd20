#!/bin/sh
# From an empty repository to a reviewed change, offline: the model is a script. Run it in an empty folder.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
model=scripted:$here/script.yaml
export HARKEN_HOME="$PWD/home" HARKEN_PRINCIPAL=ann
export GIT_AUTHOR_NAME=ann GIT_AUTHOR_EMAIL=ann@example.org GIT_COMMITTER_NAME=ann GIT_COMMITTER_EMAIL=ann@example.org

show() { printf '\n$ %s\n' "$*"; "$@"; }
write() { printf 'def parse(text):\n    return %s\n' "$1" > parse.py; git add parse.py; git commit -qm "$2"; }
id() { harken ticket list --all --text "$1" | grep -o 'tkt-[0-9a-f]*'; }

mkdir -p "$HARKEN_HOME/agents"
cp "$here/agents/rita.md" "$HARKEN_HOME/agents/"
git init -q work
cd work
write 'text.splitlines()' 'Parse lines'
write 'text.split("\n")[:-1]' 'Split at line feeds'

show harken review HEAD --reviewers rita --model "$model"
finding=$(id 'last line')
reviewed=$(id 'Review of')
show harken discuss "$finding" "what do you mean?" --model "$model"

write 'text.splitlines()' 'Keep the last line'
git show HEAD > ../fix.diff
show harken ticket update "$reviewed" --attach ../fix.diff
show harken ticket close "$finding" --reason "splitlines again"
show harken agents watch --once --model "$model"
show harken review "$reviewed"
show harken ticket close "$reviewed" --reason "approved"
