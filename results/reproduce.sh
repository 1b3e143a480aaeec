#!/usr/bin/env bash
# Runs the three UCI sweeps with the paper's settings and puts their tables and figures here; any preset's, if named.
#   KELVIN_DATA=folder/with/energy.csv/and/naval.csv results/reproduce.sh [concrete] [energy] [naval]
#   KELVIN_DATA=folder/with/mnist results/reproduce.sh stripes mnist-small
#   KELVIN_DATA=folder/with/mnist/and/cifar10 results/reproduce.sh mnist cifar10 cifar10-da    want a GPU
#   results/reproduce.sh cifar10:2 cifar10-da:2    the second repetition alone, into a folder of its own (25 minutes of an H200 each)
#   HALVES=file_order …    halves test images in the order of their files, as in the folders of images that are here
#   results/reproduce.sh priors    the three sweeps with other priors, side by side
#   results/reproduce.sh schedules    searches with a constant rate beside the cosine one
#   results/reproduce.sh refine    β̂* refined by validation LPD beside the grid, on several splits
#   KELVIN_DATA=folder/with/cifar10 results/reproduce.sh strengths:cifar10-da    other strengths of augmentation, β = 1 to 100 (40 minutes of an H200; STRENGTHS="0.5" for one)
#   KELVIN_DATA=folder/with/cifar10 results/reproduce.sh paper_selectors:cifar10 paper_selectors:cifar10-da    Guo, MAP and MLE as the paper's table has them (an hour of an H200
#     each; SHARD=1/3, 2/3 and 3/3 take a third each, then MERGE=1)
#   KELVIN_DATA=folder/with/cifar10 results/reproduce.sh differences    where the paper and kelvin differ: chains of a quarter of the length with one thing changed
#     at a time (8 minutes of an H200 each; VARIANTS="norm_epsilon free_norms" for some of them)
#   SHIFTS=1 …    images under noise, blur and less contrast as well, and Fashion-MNIST beside MNIST; all other numbers stay (checkpoints grow tenfold)
#   results/reproduce.sh selectors    how far each selector's β is from the best of a fine grid of converged chains, on five splits of Concrete and Energy
#   results/reproduce.sh audits    chains of `kelvin run` beside exact HMC at four temperatures, on five splits of Concrete and Energy
#   SHORT=1 results/reproduce.sh …    tries the script out: short chains, one repetition or split, nothing written into results/
# Cost on two cores: under a minute each for concrete, energy and stripes, minutes for naval, mnist-small and schedules, about a quarter of
# an hour each for priors and refine, some five minutes for selectors, half an hour for audits.
set -euo pipefail
cd "$(dirname "$0")/.."
sweeps=("$@")
[ ${#sweeps[@]} -gt 0 ] || sweeps=(concrete energy naval)
cargo build --release
kelvin="${CARGO_TARGET_DIR:-target}/release/kelvin"
runs=()
# Where tables go, where runs go, and what makes them short.
results=results
work=runs
short=()
if [ -n "${SHORT:-}" ]; then
  results=runs/short/results
  work=runs/short
  short=(--quick)
fi

# Priors of θ, and of log β in the search: the latter changes β̂* only, so that its grid would be that of the first sweep again.
priors() {
  local name prior own repetitions sweeps_of
  mkdir -p "$results/priors"
  cat > "$results/priors/README.md" << 'END'
# Priors

`results/reproduce.sh priors`; what is shown is said in [../README.md](../README.md#priors).
END
  echo "data,run,number,mean,sd,repetitions" > "$results/priors/sweeps.csv"
  for name in concrete energy naval; do
    sweeps_of="$work/priors/$name"
    repetitions=5
    if [ "$name" = naval ]; then repetitions=3; fi
    if [ -n "${SHORT:-}" ]; then repetitions=1; fi
    for prior in gaussian layerwise layerwise_1 laplace student_t log_beta_1 log_beta_0.1; do
      case "$prior" in
        layerwise_1) own=(--set 'model.prior="layerwise"' --set model.prior_variance=1.0) ;;
        log_beta_*) own=(--set "selection.log_beta_prior=[0.0, ${prior#log_beta_}]" --set 'run.grid=[1.0]') ;;
        *) own=(--set "model.prior=\"$prior\"") ;;
      esac
      # Naval's σ_p² is 1 by itself.
      if [ "$name-$prior" = naval-layerwise_1 ]; then continue; fi
      "$kelvin" sweep "$name" --repetitions $repetitions "${short[@]}" "${own[@]}" --quiet --out "$sweeps_of/$prior" > /dev/null
    done
    "$kelvin" compare "$sweeps_of"/{gaussian,layerwise*,laplace,student_t,log_beta_1,log_beta_0.1} --out "$sweeps_of" > /dev/null
    cp "$sweeps_of/lpd_test.svg" "$results/priors/$name.svg"
    {
      printf '\n## %s, %s repetitions\n\n' "$name" $repetitions
      cat "$sweeps_of/sweeps.md"
      printf '\n![Test LPD against β](%s.svg)\n' "$name"
    } >> "$results/priors/README.md"
    tail -n +2 "$sweeps_of/sweeps.csv" >> "$results/priors/sweeps.csv"
  done
}

# Naval's chains are long: fewer splits, from one start.
refine() {
  local name seed seeds starts
  mkdir -p "$work/refine" "$results/refine"
  for name in concrete energy naval; do
    seeds=(0 1 2 3 4)
    starts=5
    if [ "$name" = naval ]; then
      seeds=(0 1 2)
      starts=1
    fi
    if [ -n "${SHORT:-}" ]; then
      seeds=(0)
      starts=1
    fi
    for seed in "${seeds[@]}"; do
      "$kelvin" select "$name" "${short[@]}" --seed "$seed" --starts $starts --json --quiet --method joint --method refine-sm \
        --method refine-tm --method grid-lpd-sm --method grid-lpd-tm > "$work/refine/$name-$seed.json"
    done
  done
  python3 results/refine_table.py "$results/refine" "$work"/refine/*.json
}

# The curve over β is sampled by chains that adapt, from random starts; methods that need no chains are then asked for their β alone, so that what `select`
# samples there is cut to nothing.
selectors() {
  local name seed seeds=(0 1 2 3 4) steps=(5000 12000 50)
  local adaptive=(--set 'sampler.integrator="baoab"' --set sampler.adapt=true --set 'sampler.batch_size="full"' --set sampler.ramp_start=0 --set sampler.ramp_end=0)
  if [ -n "${SHORT:-}" ]; then
    seeds=(0)
    steps=(300 600 20)
  fi
  local long=(--set "sampler.burn_in=${steps[0]}" --set "sampler.epochs=${steps[1]}" --set "sampler.cycle=${steps[2]}" --set run.chains=4)
  mkdir -p "$work/selectors"
  for name in concrete energy; do
    for seed in "${seeds[@]}"; do
      "$kelvin" run "$name" --seed "$seed" --grid --quiet "${adaptive[@]}" "${long[@]}" --set 'sampler.draws="scored"' --out "$work/selectors/$name-$seed" \
        --set 'run.grid=[0.03, 0.055, 0.1, 0.18, 0.3, 0.55, 1.0, 1.8, 3.0, 5.5, 10.0, 18.0, 30.0]' > /dev/null
      "$kelvin" select "$name" --seed "$seed" --starts 4 --json --quiet --all "${adaptive[@]}" --set 'run.grid=[0.3, 3.0]' \
        --set sampler.burn_in=50 --set sampler.epochs=100 --set sampler.cycle=10 > "$work/selectors/$name-$seed.json"
    done
  done
  python3 results/selectors_table.py "$results/selectors" "$work/selectors"
}

# A process for each split; each temperature is written as it is done.
audits() {
  local name seed seeds=(0 1 2 3 4) short=()
  if [ -n "${SHORT:-}" ]; then
    seeds=(0)
    short=(exact=4000 sampler.epochs=8096)
  fi
  mkdir -p "$work/audits"
  for name in concrete energy; do
    for seed in "${seeds[@]}"; do
      cargo bench -p kelvin-study --bench audits -- "$name" "seed=$seed" exact=200000 "${short[@]}" > "$work/audits/$name-$seed.jsonl"
    done
  done
  python3 results/audits_table.py "$results/audits" "$work"/audits/*.jsonl
}

# The rate changes searches, and chains at β̂* by what they find; the grid would be the same again.
schedules() {
  local name schedule repetitions=()
  if [ -n "${SHORT:-}" ]; then repetitions=(--repetitions 1); fi
  for name in concrete energy naval; do
    for schedule in cosine constant; do
      "$kelvin" sweep "$name" "${repetitions[@]}" "${short[@]}" --set "selection.schedule=$schedule" --set 'run.grid=[1.0]' --quiet \
        --out "$work/schedules/$name-$schedule" > /dev/null
    done
  done
  mkdir -p "$results/schedules"
  python3 results/schedule_table.py "$results/schedules" "$work/schedules"
}

# One thing at a time that the paper may have done otherwise; f32 is no setting.
differences() {
  local name own preset=cifar10 quarter
  # A quarter of the epochs, with ramp, burn-in and cycles in proportion: 15 draws a chain.
  quarter=(--set sampler.epochs=500 --set sampler.burn_in=125 --set sampler.ramp_start=25 --set sampler.ramp_end=37 --set sampler.cycle=25)
  if [ -n "${SHORT:-}" ]; then preset=cifar10-small quarter=(); fi
  for name in ${VARIANTS:-as_specified norm_epsilon free_norms training_masses unit_masses f32}; do
    case "$name" in
      as_specified) own=() ;;
      norm_epsilon) own=(--set model.batch_norm_epsilon=1e-3) ;;
      free_norms) own=(--set model.prior=gaussian_free_norms) ;;
      training_masses) own=(--set sampler.preconditioner_statistics=batch) ;;
      unit_masses) own=(--set sampler.preconditioner=none) ;;
      f32) own=(--precision f32) ;;
      *) echo "there is no variant $name" >&2 && exit 1 ;;
    esac
    "$kelvin" sweep $preset "${short[@]}" "${quarter[@]}" --repetitions 4 --set 'run.grid=[1.0, 1000.0]' --set sampler.draws=scored \
      --set "data.halves=${HALVES:-permuted}" "${own[@]}" --quiet --out "$work/differences/$name" > /dev/null
  done
  mkdir -p "$results/differences"
  python3 results/differences_table.py "$results/differences" "$work/differences"
}

# One repetition at each strength; 0 and 1 are cifar10 and cifar10-da themselves.
strengths() {
  local strength into
  for strength in ${STRENGTHS:-0.25 0.5 0.75}; do
    into="$results/$1/strength-$strength"
    mkdir -p "$into"
    "$kelvin" sweep "$1" "${short[@]}" --set "data.augmentation=$strength" --set run.sampled_repetitions=1 --set 'run.grid=[1.0, 3.0, 10.0, 30.0, 100.0]' \
      --set sampler.draws=scored --set "data.halves=${HALVES:-permuted}" --out "$work/strengths/$1-$strength" | sed '/^run folder:/d' > "$into/tables.md"
    keep "$work/strengths/$1-$strength" "$into"
  done
}

# A chain of its own for the β of every start, as the paper's table has it; a shard asks its share of the methods.
paper_selectors() {
  local folder="$work/selectors/$1" share=()
  mkdir -p "$work/selectors" "$results/$1/selectors"
  if [ -n "${MERGE:-}" ]; then
    "$kelvin" merge "$folder"
  else
    if [ -n "${SHARD:-}" ]; then share=(--shard "$SHARD"); fi
    "$kelvin" select "$1" "${short[@]}" --starts 5 --each-start --method joint --method map --method guo --set "data.halves=${HALVES:-permuted}" --quiet \
      "${share[@]}" --out "$folder"
  fi
  if [ -e "$folder/selection.json" ]; then
    cp "$folder/selection.json" "$results/$1/selectors/"
    "$kelvin" report "$folder" --compare paper --format markdown --out "$work/selectors/report-$1" > "$results/$1/selectors/README.md"
  fi
}

# What results/ has of a run folder: settings, the scores of every chain and all that follows from them.
keep() {
  local run=$1 into=$2 file
  cp "$run"/{experiment.toml,scores.csv,results.csv,summary.csv,kinetic_temperature.csv,agreement.csv,wall_clock.csv,warnings.json} "$into/"
  for file in out_of_distribution.csv corruptions.csv learning_theory.csv; do
    if [ -e "$run/$file" ]; then cp "$run/$file" "$into/"; fi
  done
  cp "$run"/figures/*.svg "$run"/figures/lpd_test.png "$into/"
}

for name in "${sweeps[@]}"; do
  case "$name" in
    priors | refine | schedules | selectors | audits | differences)
      "$name"
      continue
      ;;
    strengths:* | paper_selectors:*)
      "${name%%:*}" "${name#*:}"
      continue
      ;;
  esac
  run="$work/results-${name/:/-}"
  into="$results/${name/:/\/repetition-}"
  mkdir -p "$into"
  start=$(date +%s)
  own=()
  # Their draws would fill the disk, and ten chains of ResNet-20 are half an hour of a GPU: one repetition has them.
  case "$name" in
    mnist) own=(--set sampler.draws=scored) ;;
    cifar10 | cifar10-da) own=(--set sampler.draws=scored --set run.sampled_repetitions=1) ;;
    *:*) own=(--set sampler.draws=scored --only-repetition "${name#*:}") ;;
  esac
  case "$name" in
    mnist* | cifar10*) own+=(--set "data.halves=${HALVES:-permuted}") ;;
  esac
  case "${SHIFTS:+$name}" in
    mnist*) own+=(--set "data.corruptions=['noise', 'blur', 'contrast']" --set data.out_of_distribution=fashion-mnist) ;;
    cifar10* | stripes*) own+=(--set "data.corruptions=['noise', 'blur', 'contrast']") ;;
  esac
  "$kelvin" sweep "${name%:*}" "${short[@]}" "${own[@]}" --out "$run" | sed '/^run folder:/d' > "$into/tables.md"
  seconds=$(($(date +%s) - start))
  keep "$run" "$into"
  # A piece is to be put together with others: the potential energies of its draws are what R̂ is made of.
  if [ "$name" != "${name%:*}" ]; then cp "$run/metrics.csv" "$into/"; fi
  if [ "$name" = "${name%:*}" ]; then runs+=("$run"); fi
  echo "$name: $seconds s of wall-clock on $(nproc) cores"
done
# The paper's tables with the paper's numbers beside ours, where both exist.
if [ $# -eq 0 ]; then
  for name in mnist cifar10 cifar10-da; do
    if [ -e "$work/results-$name/results.json" ]; then runs+=("$work/results-$name"); fi
  done
  "$kelvin" report "${runs[@]}" --compare paper --format markdown --out "$work/results-report" > "$results/beside_the_paper.md"
  cp "$work"/results-report/figures/*.svg "$results/" 2>/dev/null || true
  if [ -e "$results/schedules/README.md" ]; then
    {
      printf '\n**Searches with a constant rate; the paper says cosine, as the tables above have it**\n\n'
      sed -n '/^| /,$p' "$results/schedules/README.md"
    } >> "$results/beside_the_paper.md"
  fi
fi
# Tables of the pages, from the scores that are kept now.
if [ -z "${SHORT:-}" ]; then python3 results/tables.py; fi
