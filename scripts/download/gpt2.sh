#!/usr/bin/env bash
# Downloads a GPT-2 model from Hugging Face's hub: scripts/download/gpt2.sh [MODEL] [DIR]
#   MODEL   gpt2 (the default), gpt2-medium, gpt2-large, gpt2-xl or distilgpt2
#   DIR     where it goes (default: models/MODEL in the checkout)
# An interrupted download goes on where it was.
interrupted_status=0
. "$(dirname "$0")/../lib/environment.sh"
show_help "$@"
[ $# -le 2 ] || wrong_argument "expected at most a model and a folder"

model=${1:-gpt2}
prepare serve test
exec_program kael download "$model" --to "${2:-$root/models/$model}"
