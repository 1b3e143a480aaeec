//! Puts the chains of a study together from where they were sampled: every chain once, in the order in which one process would have stored them.
//!
//! Chains are copied from file to file, one at a time. What is gathered are checkpoints and draws that are finished; scores and tables follow from
//! them as they do in a run that was stopped after its last chain.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::checkpoint::{StoredMembers, write_members};
use crate::error::{Context, ExperimentError, Result, path_word, refused, resume_command, shell_word};
use crate::folder::{
    CHECKPOINTS, ChainOrigin, Continued, HASHES, Hashes, PROVENANCE, Provenance, RunFolder, RunRecord, Shard,
    check_keeps_to_itself, file_hash, is_being_written, record_of,
};
use crate::study::piece::own_chains;

/// The most lines that an error lists.
const MOST_SHOWN: usize = 12;

/// The chains of a population that are wanted, with the end of its checkpoint's name.
pub(crate) struct Wanted {
    pub suffix: String,
    pub chains: Vec<WantedChain>,
}

/// A chain that is wanted.
pub(crate) struct WantedChain {
    pub id: u32,
    /// The repetition that it belongs to, from 1.
    pub repetition: u32,
    /// The name of its draws.
    pub name: String,
}

/// A finished folder that has chains of the study.
struct Source {
    path: PathBuf,
    record: RunRecord,
    circumstances: Vec<Continued>,
    hashes: BTreeMap<String, String>,
}

/// Where the chains of a study lie.
pub(crate) struct Sources {
    finished: Vec<Source>,
    /// Shards that are not finished, with what is known of them.
    unfinished: Vec<(Shard, &'static str)>,
    /// Whether the folders are runs of single repetitions, and not shards.
    are_repetitions: bool,
}

impl Source {
    /// A folder that is finished, all of whose files are as they were written; `None` where it is not finished.
    fn read(path: &Path, record: RunRecord, again: &str) -> Result<Option<Self>> {
        check_keeps_to_itself(path)?;
        let Some(hashes) = Hashes::read(path)? else { return Ok(None) };
        if let Some(name) = hashes.unlisted(path)? {
            return Err(refused(format!(
                "{} has no hash in {}, so nobody knows whether it is as it was written; nothing was merged\n  put back the {HASHES} of that \
                 folder, or make it again: {again}",
                path.join(name).display(),
                path.join(HASHES).display(),
            )));
        }
        let hashes: BTreeMap<String, String> = hashes
            .files
            .into_iter()
            .filter(|(name, _)| name.ends_with(".checkpoint") || name.ends_with(".safetensors"))
            .collect();
        for (name, hash) in &hashes {
            if file_hash(&path.join(name)).ok().as_ref() != Some(hash) {
                return Err(refused(format!(
                    "{} is not as it was written: it is damaged or was taken away; nothing was merged\n  put it back, or make it again: {again}",
                    path.join(name).display()
                )));
            }
        }
        let provenance = Provenance::read(&path.join(PROVENANCE)).with_context(|| {
            format!("{} is missing or damaged; make the folder again: {again}", path.join(PROVENANCE).display())
        })?;
        Ok(Some(Self { path: path.into(), record, circumstances: provenance.all_circumstances(), hashes }))
    }

    fn stored(&self, stage: &str, suffix: &str, identity: &str) -> Result<Option<StoredMembers>, ExperimentError> {
        let path = self.path.join(CHECKPOINTS).join(format!("{stage}{suffix}.checkpoint"));
        Ok(StoredMembers::find(&path, &format!("{identity}{suffix}"))?)
    }
}

impl Sources {
    /// The shards of a study.
    pub fn shards(run: &RunFolder) -> Result<Self> {
        let (mut finished, mut unfinished) = (Vec::new(), Vec::new());
        for shard in Shard::found_in(run.path()) {
            let (path, command) = (shard.folder(run.path()), shard.command(run.path()));
            let Some(record) = record_of(&path)? else {
                unfinished.push((shard, "it was not begun"));
                continue;
            };
            if record.shard != Some(shard) {
                return Err(refused(format!(
                    "{} is not shard {shard} of {}; remove it",
                    path.display(),
                    run.path().display()
                )));
            }
            if record.identity_of_chains() != run.record().identity_of_chains() {
                return Err(refused(format!(
                    "shard {shard} has other settings, other data or another step size than {}; nothing was merged\n  \
                     begin it anew: `{command} --fresh`, or remove {}",
                    run.path().display(),
                    path.display(),
                )));
            }
            match Source::read(&path, record, &format!("`{command}`"))? {
                Some(source) => finished.push(source),
                None if is_being_written(&path) => unfinished.push((shard, "it is running")),
                None => unfinished.push((shard, "it was begun and is not finished")),
            }
        }
        Ok(Self { finished, unfinished, are_repetitions: false })
    }

    /// Finished runs of single repetitions.
    pub fn repetitions(run: &RunFolder, folders: &[PathBuf]) -> Result<Self> {
        let mut finished = Vec::new();
        for folder in folders {
            let record =
                record_of(folder)?.with_context(|| format!("{} is no run folder of kelvin", folder.display()))?;
            record.of_all_repetitions(folder)?.check_same(run.record(), folder)?;
            let again = resume_command(folder);
            let source = Source::read(folder, record, &format!("`{again}`"))?;
            finished.push(source.with_context(|| {
                format!("{} is not finished; nothing was merged\n  go on with it: `{again}`", folder.display())
            })?);
        }
        Ok(Self { finished, unfinished: Vec::new(), are_repetitions: true })
    }

    /// Whether searches are to be gathered too.
    pub fn have_searches(&self) -> bool {
        self.are_repetitions
    }

    /// Refuses chains that were made by different kelvins.
    pub fn check_versions(&self) -> Result<()> {
        let made: Vec<(&Source, &Continued)> =
            self.finished.iter().flat_map(|source| source.circumstances.iter().map(move |at| (source, at))).collect();
        let Some((first, at)) = made.first() else { return Ok(()) };
        let version = |at: &Continued| format!("kelvin {} ({})", at.kelvin, at.commit);
        match made.iter().find(|(_, other)| version(other) != version(at)) {
            None => Ok(()),
            Some((other, by)) => Err(refused(format!(
                "the chains were made by different kelvins, whose numbers may differ; nothing was merged\n  {}: {}\n  {}: {}\n  \
                 make all of them with one kelvin: begin the others anew with --fresh",
                first.path.display(),
                version(at),
                other.path.display(),
                version(by),
            ))),
        }
    }

    /// Writes the searches of a population into the run's folder.
    pub fn gather_searches(&self, run: &RunFolder, wanted: &[Wanted]) -> Result<()> {
        let identity = |record: &RunRecord| record.identity_of_searches();
        self.gather(run, wanted, "search", identity, false).map(|_| ())
    }

    /// Writes the chains of each population, with their draws, into the run's folder; what was written, and from where each chain came.
    pub fn gather_chains(
        &self,
        run: &RunFolder,
        wanted: &[Wanted],
        are_whole: bool,
    ) -> Result<(Vec<StoredMembers>, Vec<ChainOrigin>)> {
        let identity = |record: &RunRecord| record.identity_of_chains();
        let (written, owners) = self.gather(run, wanted, "sampling", identity, are_whole)?;
        let mut origins: Vec<ChainOrigin> = Vec::new();
        for (chain, owner) in wanted.iter().flat_map(|wanted| &wanted.chains).zip(owners) {
            let source = &self.finished[owner];
            let file = draws_file(chain);
            // A chain that diverged at once has none.
            if source.hashes.contains_key(&file) {
                link(&source.path.join(&file), &run.draws(&chain.name))?;
            }
            match origins.iter_mut().find(|origin| origin.is_like(&source.circumstances)) {
                Some(origin) => origin.chains.push(chain.name.clone()),
                None => origins.push(ChainOrigin::new(&source.circumstances, chain.name.clone())),
            }
        }
        Ok((written, origins))
    }

    /// Writes the checkpoints of these populations, and the source of each chain, in order.
    fn gather(
        &self,
        run: &RunFolder,
        wanted: &[Wanted],
        stage: &str,
        identity: impl Fn(&RunRecord) -> String,
        are_whole: bool,
    ) -> Result<(Vec<StoredMembers>, Vec<usize>)> {
        let (mut missing, mut owners): (Vec<(usize, usize)>, Vec<usize>) = Default::default();
        let mut gathered = Vec::new();
        for (number, wanted) in wanted.iter().enumerate() {
            let mut holders: Vec<(usize, StoredMembers)> = Vec::new();
            for (index, source) in self.finished.iter().enumerate() {
                if let Some(stored) = source.stored(stage, &wanted.suffix, &identity(&source.record))? {
                    holders.push((index, stored));
                }
            }
            let mut members: Vec<(u32, usize)> = Vec::new();
            for (place, chain) in wanted.chains.iter().enumerate() {
                let mut with_it = (0..holders.len()).filter(|&at| holders[at].1.has(chain.id));
                let Some(first) = with_it.next() else {
                    missing.push((number, place));
                    continue;
                };
                for other in with_it {
                    self.check_same(chain, &holders[first], &holders[other])?;
                }
                owners.push(holders[first].0);
                members.push((chain.id, first));
            }
            members.sort_unstable();
            gathered.push((wanted, holders, members));
        }
        self.check_complete(run, wanted, &missing, are_whole)?;
        let mut written = Vec::new();
        for (wanted, holders, members) in gathered {
            let Some((_, first)) = members.first().map(|&(_, at)| &holders[at]) else { continue };
            let members: Vec<(u32, &StoredMembers)> = members.iter().map(|&(id, at)| (id, &holders[at].1)).collect();
            let path = run.checkpoints().join(format!("{stage}{}.checkpoint", wanted.suffix));
            let name = format!("{}{}", identity(run.record()), wanted.suffix);
            written.push(write_members(&path, &name, first.reach(), &members).map_err(ExperimentError::from)?);
        }
        Ok((written, owners))
    }

    /// A chain that was made twice has the same bits twice.
    fn check_same(
        &self,
        chain: &WantedChain,
        one: &(usize, StoredMembers),
        other: &(usize, StoredMembers),
    ) -> Result<()> {
        let same_state = one.1.agrees_on(chain.id, &other.1).map_err(ExperimentError::from)?;
        let (one, other) = (&self.finished[one.0], &self.finished[other.0]);
        let file = draws_file(chain);
        if same_state && one.hashes.get(&file) == other.hashes.get(&file) {
            return Ok(());
        }
        let kind = |source: &Source| source.circumstances.last().map_or_else(String::new, Continued::kind);
        Err(refused(format!(
            "{} was made twice and its numbers are not the same; nothing was merged\n  {}: {}\n  {}: {}\n  {}; remove the folder that is \
             not to count",
            chain.name,
            one.path.display(),
            kind(one),
            other.path.display(),
            kind(other),
            match kind(one) == kind(other) {
                true =>
                    "on one kind of device they should be, so one of them is wrong: make the chain again to see which",
                false => "different kinds of devices agree statistically, not bit by bit",
            },
        )))
    }

    /// Refuses to go on without all chains, and says how to make those that are missing.
    fn check_complete(
        &self,
        run: &RunFolder,
        wanted: &[Wanted],
        missing: &[(usize, usize)],
        are_whole: bool,
    ) -> Result<()> {
        if missing.is_empty() {
            return Ok(());
        }
        let path = run.path();
        let num_chains: usize = wanted.iter().map(|wanted| wanted.chains.len()).sum();
        let mut lines: Vec<String> = Vec::new();
        if self.are_repetitions {
            let mut repetitions: Vec<u32> =
                missing.iter().map(|&(at, place)| wanted[at].chains[place].repetition).collect();
            repetitions.sort_unstable();
            repetitions.dedup();
            let toml = self
                .finished
                .first()
                .map_or("EXPERIMENT".into(), |source| path_word(&source.path.join("experiment.toml")));
            let missing = |r: u32| {
                let out = shell_word(&format!("{}-{r}", path.display()));
                format!("repetition {r}: `kelvin sweep {toml} --only-repetition {r} --out {out}`")
            };
            lines.extend(repetitions.into_iter().map(missing));
        } else {
            let lengths: Vec<usize> = wanted.iter().map(|wanted| wanted.chains.len()).collect();
            match self.count() {
                None => lines
                    .push(format!("no shard was begun; the first of eight: `{} --shard 1/8`", resume_command(path))),
                Some(count) => {
                    let is_missing = |(at, own): &(usize, std::ops::Range<usize>)| {
                        missing.iter().any(|(number, place)| number == at && own.contains(place))
                    };
                    for shard in Shard::all(count) {
                        if own_chains(&lengths, are_whole, shard).iter().any(is_missing) {
                            let state = self.unfinished.iter().find(|(other, _)| *other == shard);
                            let state = state.map_or("it was not begun", |(_, state)| *state);
                            lines.push(format!("shard {shard} ({state}): `{}`", shard.command(path)));
                        }
                    }
                }
            }
        }
        let more = lines.len().saturating_sub(MOST_SHOWN);
        lines.truncate(MOST_SHOWN);
        if more > 0 {
            lines.push(format!("and {more} more: `kelvin status {}`", path_word(path)));
        }
        Err(refused(format!(
            "{} of {num_chains} chains of {} are missing; nothing was merged\n  {}",
            missing.len(),
            path.display(),
            lines.join("\n  "),
        )))
    }

    /// Into how many shards the study was dealt.
    fn count(&self) -> Option<u32> {
        let finished = self.finished.iter().filter_map(|source| source.record.shard);
        Shard::most_common_count(finished.chain(self.unfinished.iter().map(|(shard, _)| *shard)))
    }
}

/// The file of a chain's draws, in its folder.
fn draws_file(chain: &WantedChain) -> String {
    format!("draws/{}.safetensors", chain.name)
}

/// The same file under another name, without another copy where the file system can.
fn link(from: &Path, to: &Path) -> Result<()> {
    let cannot = || format!("cannot take {} to {}", from.display(), to.display());
    match std::fs::remove_file(to) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error).with_context(cannot),
        _ => {}
    }
    if std::fs::hard_link(from, to).is_err() {
        kelvin::write_file::replace_with(to, |file| std::io::copy(&mut std::fs::File::open(from)?, file).map(|_| ()))
            .with_context(cannot)?;
    }
    Ok(())
}
