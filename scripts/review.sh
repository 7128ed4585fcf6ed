#!/bin/sh
# Print the changes between two commits as Markdown: metrics, params, figures.
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
# Since the merge base: what others have merged meanwhile is not part of this change.
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
