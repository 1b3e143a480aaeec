#!/usr/bin/env bash
# Runs the three UCI sweeps with the paper's settings and puts their tables and figures here; any preset's, if named.
#   KELVIN_DATA=folder/with/energy.csv/and/naval.csv results/reproduce.sh [concrete] [energy] [naval]
#   KELVIN_DATA=folder/with/mnist results/reproduce.sh stripes mnist-small
# Cost on two cores: under a minute each for concrete, energy and stripes, minutes for naval and mnist-small.
set -euo pipefail
cd "$(dirname "$0")/.."
sweeps=("$@")
[ ${#sweeps[@]} -gt 0 ] || sweeps=(concrete energy naval)
cargo build --release
kelvin="${CARGO_TARGET_DIR:-target}/release/kelvin"
runs=()
for name in "${sweeps[@]}"; do
  run="runs/results-$name"
  mkdir -p "results/$name"
  start=$(date +%s)
  "$kelvin" sweep "$name" --out "$run" | sed '/^run folder:/d' > "results/$name/tables.md"
  seconds=$(($(date +%s) - start))
  cp "$run"/{experiment.toml,scores.csv,results.csv,summary.csv,kinetic_temperature.csv,agreement.csv,wall_clock.csv,warnings.json} "results/$name/"
  if [ -e "$run/out_of_distribution.csv" ]; then cp "$run/out_of_distribution.csv" "results/$name/"; fi
  cp "$run"/figures/*.svg "$run"/figures/lpd_test.png "results/$name/"
  runs+=("$run")
  echo "$name: $seconds s of wall-clock on $(nproc) cores"
done
# The paper's tables with the paper's numbers beside ours, where both exist.
if [ $# -eq 0 ]; then
  "$kelvin" report "${runs[@]}" --compare paper --format markdown --out runs/results-report > results/beside_the_paper.md
  cp runs/results-report/figures/*.svg results/ 2>/dev/null || true
fi
