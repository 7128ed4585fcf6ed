#!/usr/bin/env bash
# Can the converter of Label Studio's ratings and the ranker of pairwise votes share an environment?
#
# label-studio-sdk 2.1.2 and arena-rank 0.1.1, Python 3.11: no. Each resolves alone; pip refuses both
# together with ResolutionImpossible: arena-rank pins numpy==2.3.3, and the SDK brings
# opencv-python-headless, whose 4.12.0.88 asks for numpy<2.3. Whoever exchanges ratings with the one
# and votes with the other needs an environment for each.
#
# The script asks pip's resolver only (nothing is installed) and fails where it answers otherwise.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
resolve() { "$folder/venv/bin/pip" install --quiet --dry-run "$@" >"$folder/log" 2>&1; }
sdk=label-studio-sdk==2.1.2
ranker=arena-rank==0.1.1
resolve "$sdk" && echo "$sdk alone: resolves"
resolve "$ranker" && echo "$ranker alone: resolves"
if resolve "$sdk" "$ranker"; then
    echo "both together: resolves; this finding is out of date"
    exit 1
fi
grep -o "ResolutionImpossible" "$folder/log" | sed 's/^/both together: /'
