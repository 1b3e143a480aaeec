#!/usr/bin/env bash
# A sweep on a real Slurm, on two nodes of this machine: told to store and queue again in its search and in its chains, robbed of a node in the middle, merged,
# and compared with the sweep of one process. Debian's packages, no systemd, no cgroups, no database.
#
#   slurm.sh PROGRAM     0: passed. 77: Slurm cannot be had here (not root, or no packages), with the reason.
set -euo pipefail
kelvin=$(realpath "${1:?usage: slurm.sh PROGRAM}")
skip() { echo "SKIPPED: $1"; exit 77; }
fail() { echo "FAILED: $1"; tail -n 20 "$work"/*.log "$work"/*run/cluster/*.log 2>/dev/null || true; exit 1; }

[ "$(id -u)" -eq 0 ] || skip "Slurm's daemons are started by root"
if ! command -v slurmctld slurmd munged > /dev/null; then
  command -v apt-get > /dev/null || skip "no slurmctld, slurmd and munged, and no apt-get to install them"
  { timeout 300 apt-get -qq update && DEBIAN_FRONTEND=noninteractive timeout 600 apt-get -qq install -y --no-install-recommends slurmctld slurmd slurm-client munge; } \
    > /dev/null 2>&1 || skip "apt-get cannot install slurmctld, slurmd and munge"
fi
export PATH="$PATH:/usr/sbin"

work=$(mktemp -d)
daemons=()
end() {
  for daemon in "${daemons[@]}"; do
    kill -9 "$daemon" 2> /dev/null || true
    wait "$daemon" 2> /dev/null || true
  done
  rm -rf "$work"
}
trap end EXIT
begun=$SECONDS
say() { printf '%4d s  %s\n' $((SECONDS - begun)) "$1"; }

# A key and a socket of its own, so that a munge that is already here is left alone.
chmod 755 "$work"
install -d -o munge -g munge -m 711 "$work/munge"
head -c 1024 /dev/urandom > "$work/munge/key" && chown munge: "$work/munge/key" && chmod 400 "$work/munge/key"
setpriv --reuid=munge --regid=munge --init-groups munged --foreground --force --num-threads=2 --key-file="$work/munge/key" --socket="$work/munge/socket" \
  --pid-file="$work/munge/pid" --log-file="$work/munge/log" --seed-file="$work/munge/seed" > "$work/munged.log" 2>&1 &
daemons+=($!)

export SLURM_CONF="$work/slurm.conf"
host=$(hostname -s)
cat > "$SLURM_CONF" <<CONF
ClusterName=kelvin
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=27817
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge/socket,cred_expire=5
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
JobRequeue=1
SlurmdTimeout=5
KillWait=3
MessageTimeout=5
SchedulerParameters=batch_sched_delay=0,sched_interval=2,sched_min_interval=100000,bf_interval=2
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool-%n
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd-%n.pid
NodeName=one NodeHostname=$host NodeAddr=127.0.0.1 Port=27818 CPUs=1
NodeName=two NodeHostname=$host NodeAddr=127.0.0.1 Port=27819 CPUs=1
PartitionName=all Nodes=one,two Default=YES MaxTime=INFINITE State=UP
CONF
mkdir "$work/state" "$work/spool-one" "$work/spool-two"
for _ in $(seq 50); do [ -S "$work/munge/socket" ] && break; sleep 0.1; done
slurmctld -D -i > "$work/slurmctld.log" 2>&1 &
daemons+=($!)
slurmd -D -N one > "$work/slurmd-one.log" 2>&1 &
daemons+=($!)
slurmd -D -N two > "$work/slurmd-two.log" 2>&1 &
node_two=$!
daemons+=($node_two)
idle() { sinfo --noheader --format=%D --states=idle 2> /dev/null | tr -d ' '; }
for _ in $(seq 100); do [ "$(idle)" = 2 ] && break; sleep 0.2; done
[ "$(idle)" = 2 ] || fail "the two nodes did not come up"
say "two nodes are up"

# Two searches, and six chains in three shards; seconds each, stored all the time.
sweep=(concrete --quick --seed 3 --repetitions 2 --quiet --set 'run.grid=[0.3, 1.0]' --set run.checkpoint_seconds=0.2 --set selection.epochs=100000
  --set sampler.ramp_start=50 --set sampler.ramp_end=100 --set sampler.burn_in=1000 --set sampler.cycle=9000 --set sampler.epochs=100000 --device cpu)
cd "$work"
# The folder's name has what shells and sbatch would read.
run="it's \$(100 %j) #1; run"
"$kelvin" submit "${sweep[@]}" --shards 3 --cpus 1 --time 10 --partition all --out "$run" --json > submitted.json || fail "submit"
job() { sed -n "s/.*\"$1\":\"\([0-9]*\)\".*/\1/p" submitted.json; }
search=$(job search) shards=$(job shards) merge=$(job merge)
[ -n "$search" ] && [ -n "$shards" ] && [ -n "$merge" ] || fail "no job numbers in $(cat submitted.json)"
say "submitted: search $search, shards $shards, merge $merge"

# The same in one process, while Slurm waits for its timers.
"$kelvin" sweep "${sweep[@]}" --out one > one.txt 2> one.log &
alone=$!

until_there() { # FILE, what for
  for _ in $(seq 300); do [ -e "$1" ] && return; sleep 0.1; done
  fail "$2: no $1"
}
# What a job gets before its time is over.
until_there "$run/checkpoints/search.checkpoint" "the search"
scancel --signal=USR1 --batch "$search"
for _ in $(seq 100); do grep -q 'ended with 138' "$run"/cluster/search-*.log 2> /dev/null && break; sleep 0.1; done
grep -q 'ended with 138' "$run"/cluster/search-*.log || fail "the search did not store and end with 138"
say "the search was told to store, and queues again"

# A chain of each node on its way: one is told to store, the other loses its node, daemons and all.
where() { squeue --noheader --array --states=running --job="$shards" --nodelist="$1" --format=%K 2> /dev/null | head -n 1; }
for _ in $(seq 600); do
  lost=$(where two) kept=$(where one)
  [ -n "$lost" ] && [ -n "$kept" ] && [ -e "$run/shards/$lost-of-3/checkpoints/sampling.checkpoint" ] &&
    [ -e "$run/shards/$kept-of-3/checkpoints/sampling.checkpoint" ] && break
  sleep 0.1
done
[ -n "$lost" ] && [ -n "$kept" ] || fail "no shards on both nodes"
scancel --signal=USR1 --batch "${shards}_$kept"
# Its job runs under a daemon of its own, which is the parent of the script's shell.
writer=$(sed -n 's/^process \([0-9]*\) on.*/\1/p' "$run/shards/$lost-of-3/checkpoints/lock")
batch=$(ps -o ppid= -p "$writer" | tr -d ' ')
step=$(ps -o ppid= -p "$batch" | tr -d ' ')
kill -9 "$node_two" "$step" "$batch" "$writer" 2> /dev/null || true
wait "$node_two" 2> /dev/null || true
say "shard $kept was told to store; shard $lost has lost its node"
"$kelvin" status "$run" | sed 's/^/        /'

# Slurm finds the node down and gives its shard to the other one.
for _ in $(seq 900); do
  [ -z "$(squeue --noheader --format=%i)" ] && break
  sleep 0.1
done
[ -z "$(squeue --noheader --format=%i)" ] || fail "jobs are left: $(squeue)"
grep -q 'ended with 138' "$run"/cluster/shard-"$kept"-*.log || fail "shard $kept did not store and end with 138"
"$kelvin" status "$run" | sed 's/^/        /'
[ -e "$run/results.json" ] || fail "nothing was merged"
say "merged"

wait $alone || fail "the sweep of one process"
for file in metrics.csv split.json warnings.json experiment.toml draws predictions figures; do
  diff -r -q --exclude='wall_clock*' "$run/$file" "one/$file" || fail "$file differs"
done
timeless() { sed -E 's/"seconds": [0-9.e-]+/"seconds": 0/' "$1/results.json"; }
diff <(timeless "$run" | grep -v '"device"') <(timeless one | grep -v '"device"') > /dev/null || fail "results.json differs"
say "the same files as those of one process"
