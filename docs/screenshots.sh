#!/usr/bin/env bash
# Makes the pictures of the page in this folder: a drill is run for real, served, and photographed at 31 s, on a screen and
# on a phone, light and dark. Needs chromium (or CHROMIUM=…), and pngquant to make the pictures small. TERMDRILL=… takes a
# program that is built already.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ -z ${TERMDRILL:-} ]]; then
  cargo build --release
fi
termdrill=${TERMDRILL:-${CARGO_TARGET_DIR:-target}/release/termdrill}
scratch=$(mktemp -d)
server=
clean_up() {
  [[ -z $server ]] || kill "$server" 2>/dev/null || true
  rm -rf "$scratch"
}
trap clean_up EXIT
export XDG_STATE_HOME=$scratch/state

"$termdrill" run ignored-signal --clock stepped --quiet
run=$(basename "$(readlink -f "$XDG_STATE_HOME/termdrill/runs/latest")")

# The first line that the server writes says where it listens.
exec {lines}< <(exec "$termdrill" serve --listen 127.0.0.1:0)
server=$!
read -r -u "$lines" line
address=$(grep -o 'http://[^ ]*' <<<"$line")

# photograph FILE WIDTH,HEIGHT SCALE COLOURS, where 0 is dark and 1 is light
photograph() {
  "${CHROMIUM:-chromium}" --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --hide-scrollbars \
    --disable-background-networking --disable-component-update --disable-sync --user-data-dir="$scratch/profile-$1" \
    --window-size="$2" --force-device-scale-factor="$3" --blink-settings=preferredColorScheme="$4" \
    --virtual-time-budget=5000 --screenshot="$scratch/$1.png" "${address}#run=$run&at=31" 2>"$scratch/chromium.log" ||
    { cat "$scratch/chromium.log" >&2 && return 1; }
  if command -v pngquant >/dev/null; then
    pngquant --force --strip --speed 1 --output "docs/$1.png" "$scratch/$1.png"
  else
    cp "$scratch/$1.png" "docs/$1.png"
  fi
}

photograph page-light 1280,1160 1 1
photograph page-dark 1280,1160 1 0
photograph phone-light 360,1240 2 1
photograph phone-dark 360,1240 2 0
ls -l docs/*.png
