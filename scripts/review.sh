#!/bin/sh
# What a reviewer wants to see between two commits, as Markdown: metrics, params, figures.
#   sh scripts/review.sh BASE HEAD [URL of raw files]
set -eu
base=$1
head=$2
files=${3:-}

echo "## Metrics"
echo
dvc metrics diff --md "$base" "$head"
echo
echo "## Params"
echo
dvc params diff --md "$base" "$head"
echo
echo "## Figures"
echo
# From the point where the branch left: what others merged since is not this change's doing.
changed=$(git diff --name-only --diff-filter=AM "$base...$head" -- 'plots/**.png' 'reports/**.png')
[ -n "$changed" ] || echo "No figure changed."
printf '%s\n' "$changed" | while IFS= read -r path; do
    [ -n "$path" ] || continue
    echo "<details><summary>$path</summary>"
    echo
    if [ -n "$files" ]; then
        git cat-file -e "$base:$path" 2>/dev/null && echo "before: ![$path before]($files/$base/$path)" && echo
        echo "after: ![$path]($files/$head/$path)"
    else
        echo "$path"
    fi
    echo
    echo "</details>"
done
