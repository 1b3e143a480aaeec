//! `kelvin submit`: a study as jobs of a cluster: its searches, an array of its shards, and what puts them together.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use kelvin::write_file::remove_leftovers_in;
use kelvin_study::error::path_word;
use kelvin_study::findings::RunCommand;
use kelvin_study::folder::{PartState, Parts, Shard, write};
use kelvin_study::study::Workload;
use serde::Serialize;

use super::conduct::{prepare, threads};
use crate::arguments::{CommonArguments, DeviceArgument, PrecisionArgument, SubmitArguments};
use crate::output::{WrongFlags, print_result, say};
use crate::source::{self, Sampling};

/// The folder of batch scripts and their logs in a run folder.
const FOLDER: &str = "cluster";
/// Seconds before the end of a job's time at which it is told to store what it has.
const NOTICE: u32 = 90;
/// The shortest time of a job in seconds, so that it does something before it is told to store.
const SHORTEST: u64 = 300;

/// The numbers of the jobs that were submitted; none of what is done already.
#[derive(Serialize)]
struct Submitted {
    folder: String,
    scripts: Vec<String>,
    search: Option<String>,
    shards: Option<String>,
    merge: Option<String>,
}

pub fn submit(arguments: &SubmitArguments) -> anyhow::Result<()> {
    let SubmitArguments { source, common, .. } = arguments;
    check(arguments)?;
    threads(common.conduct.threads)?;
    let repetitions = arguments.repetitions.map(|repetitions| format!("run.repetitions={repetitions}"));
    let common =
        CommonArguments { overrides: common.overrides.iter().cloned().chain(repetitions).collect(), ..common.clone() };
    let command = if arguments.run { RunCommand::Run } else { RunCommand::Sweep };
    let work = Workload::Study(command);
    let source = match command {
        RunCommand::Sweep => source::read(source, &common, &work)?,
        _ => source::read_for(source, &common, &Sampling { folds: arguments.folds, ..Sampling::default() }, &work)?,
    };
    let name = source.settings.name.clone();
    let run = prepare(command, source, common.out.as_deref(), common.fresh, &common.conduct)?;
    let run = std::path::absolute(&run)?;
    if run.to_str().is_none_or(|run| run.chars().any(char::is_control)) {
        anyhow::bail!("{} has letters that a script cannot name; name another folder with --out", run.display());
    }
    let shards: Vec<Shard> = Shard::all(arguments.shards).collect();
    for shard in &shards {
        // `kelvin status` knows by them how many there are.
        std::fs::create_dir_all(shard.folder(&run))?;
    }
    std::fs::create_dir_all(run.join(FOLDER))?;
    remove_leftovers_in(&run.join(FOLDER));
    let jobs = Jobs { arguments, common: &common, run: &run, name: &name, program: std::env::current_exe()? };
    let parts = Parts::of(&run)?;
    let missing: Vec<u32> = missing(&parts, &shards);
    let scripts = jobs.write(&missing)?;
    let submitted = match arguments.dry_run {
        true => (None, None, None),
        false => jobs.submit(&scripts, parts.search.state == PartState::Done, !missing.is_empty())?,
    };
    let result = Submitted {
        folder: run.display().to_string(),
        scripts: scripts.iter().map(|script| script.display().to_string()).collect(),
        search: submitted.0,
        shards: submitted.1,
        merge: submitted.2,
    };
    if common.conduct.json {
        return print_result(&format!("{}\n", serde_json::to_string(&result)?));
    }
    let mut text = format!("run folder: {}\n", result.folder);
    for script in &result.scripts {
        text.push_str(&format!("script: {script}\n"));
    }
    for (what, job) in [("search", &result.search), ("shards", &result.shards), ("merge", &result.merge)] {
        text.extend(job.as_ref().map(|job| format!("{what}: job {job}\n")));
    }
    text.push_str(&format!("follow it: `kelvin status {0}` or `kelvin watch {0}`\n", path_word(&run)));
    print_result(&text)
}

/// The numbers of the shards that are not done.
fn missing(parts: &Parts, shards: &[Shard]) -> Vec<u32> {
    let is_done = |shard: &&Shard| {
        let name = format!("shard {shard}");
        parts.shards.iter().any(|part| part.name == name && part.state == PartState::Done)
    };
    shards.iter().filter(|shard| !is_done(shard)).map(|shard| shard.number()).collect()
}

/// Numbers as an array of jobs is given them: "1-3,7".
fn array(numbers: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let text = |(first, last)| if first == last { format!("{first}") } else { format!("{first}-{last}") };
    ranges.into_iter().map(text).collect::<Vec<_>>().join(",")
}

/// A text as one word of a line that begins with #SBATCH: sbatch knows quotes, in which a backslash stands before what would end them.
fn directive_word(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:=,+@%[]*".contains(c);
    match text.chars().all(is_plain) {
        true => text.into(),
        false => format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\"")),
    }
}

/// Seconds of a time as sbatch reads it: minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes or
/// days-hours:minutes:seconds; none where there is no limit.
fn seconds(time: &str) -> anyhow::Result<Option<u64>> {
    if ["unlimited", "infinite"].contains(&time.to_ascii_lowercase().as_str()) {
        return Ok(None);
    }
    let (days, rest) = time.split_once('-').map_or((None, time), |(days, rest)| (Some(days), rest));
    let number = |text: &str| text.parse::<u64>().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    let numbers = days.into_iter().chain(rest.split(':')).map(number).collect::<Option<Vec<u64>>>();
    let units: &[u64] = match (days.is_some(), numbers.as_ref().map_or(0, Vec::len)) {
        (false, 1) => &[60],
        (false, 2) => &[60, 1],
        (false, 3) => &[3600, 60, 1],
        (true, 2) => &[86_400, 3600],
        (true, 3) => &[86_400, 3600, 60],
        (true, 4) => &[86_400, 3600, 60, 1],
        _ => &[],
    };
    let whole =
        numbers.unwrap_or_default().iter().zip(units).try_fold(0_u64, |sum, (number, unit)| {
            number.checked_mul(*unit).and_then(|seconds| sum.checked_add(seconds))
        });
    match whole.filter(|_| !units.is_empty()) {
        Some(0) => Ok(None),
        Some(seconds) => Ok(Some(seconds)),
        None => Err(WrongFlags(format!(
            "--time `{time}` is no time of Slurm: minutes, hours:minutes:seconds, or days-hours:minutes:seconds"
        ))
        .into()),
    }
}

/// Refuses what would be no line of a script, or a job that is told to end before it has begun.
fn check(arguments: &SubmitArguments) -> anyhow::Result<()> {
    let SubmitArguments { time, gres, partition, memory, sbatch, .. } = arguments;
    let flags = [("--time", Some(time)), ("--gres", gres.as_ref()), ("--partition", partition.as_ref())];
    let more = std::iter::once(("--memory", memory.as_ref())).chain(sbatch.iter().map(|own| ("--sbatch", Some(own))));
    for (flag, text) in flags.into_iter().chain(more) {
        if text.is_some_and(|text| text.is_empty() || text.chars().any(char::is_control)) {
            return Err(WrongFlags(format!(
                "{flag} must be a line of text, got {:?}",
                text.map_or("", String::as_str)
            ))
            .into());
        }
    }
    match seconds(time)? {
        Some(seconds) if seconds < SHORTEST => Err(WrongFlags(format!(
            "--time must be {} minutes or more, got {time}: a job is told {NOTICE} s before its end to store what it has",
            SHORTEST / 60
        ))
        .into()),
        _ => Ok(()),
    }
}

struct Jobs<'a> {
    arguments: &'a SubmitArguments,
    common: &'a CommonArguments,
    run: &'a Path,
    name: &'a str,
    program: PathBuf,
}

impl Jobs<'_> {
    /// Writes the three scripts.
    fn write(&self, missing: &[u32]) -> anyhow::Result<[PathBuf; 3]> {
        let run = path_word(self.run);
        let count = self.arguments.shards;
        let tasks = if missing.is_empty() { format!("1-{count}") } else { array(missing) };
        let shard = format!("resume {run} --shard \"$SLURM_ARRAY_TASK_ID/{count}\"");
        self.write_one("search", &format!("resume {run} --stage search"), "search-%j.log", None)?;
        self.write_one("shards", &shard, "shard-%a-%A.log", Some(&tasks))?;
        self.write_one("merge", &format!("merge {run}"), "merge-%j.log", None)?;
        Ok(["search", "shards", "merge"].map(|job| self.run.join(FOLDER).join(format!("{job}.sh"))))
    }

    fn write_one(&self, job: &str, command: &str, log: &str, tasks: Option<&str>) -> anyhow::Result<()> {
        let SubmitArguments { time, gres, partition, cpus, memory, sbatch, .. } = self.arguments;
        let name: String = self.name.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
        // A name of a log has patterns of sbatch in it; the folder's own are none.
        let folder = self.run.join(FOLDER).display().to_string().replace('%', "%%");
        let mut options = vec![
            format!("--job-name=kelvin-{name}-{job}"),
            format!("--output={}", directive_word(&format!("{folder}/{log}"))),
            "--open-mode=append".into(),
            format!("--time={}", directive_word(time)),
            "--requeue".into(),
            format!("--signal=B:USR1@{NOTICE}"),
        ];
        options.extend(tasks.map(|tasks| format!("--array={tasks}")));
        options.extend(gres.as_ref().map(|gres| format!("--gres={}", directive_word(gres))));
        options.extend(partition.as_ref().map(|partition| format!("--partition={}", directive_word(partition))));
        options.extend(cpus.map(|cpus| format!("--cpus-per-task={cpus}")));
        options.extend(memory.as_ref().map(|memory| format!("--mem={}", directive_word(memory))));
        options.extend(sbatch.iter().cloned());
        let options: String = options.iter().map(|option| format!("#SBATCH {option}\n")).collect();
        let program = path_word(&self.program);
        let text = format!(
            "#!/bin/bash\n\
             # The {job} of {name}, written by `kelvin submit`. It may be submitted by hand as often as needed: what is done is not done again.\n\
             {options}\n\
             # USR1 comes before the job's time is over, TERM where the machine is taken away: kelvin stores what it has, and ends with 138 or 143.\n\
             {program} {command} --quiet{} &\n\
             kelvin=$!\n\
             trap 'kill -USR1 $kelvin 2>/dev/null' USR1 TERM\n\
             wait $kelvin; code=$?\n\
             while kill -0 $kelvin 2>/dev/null; do wait $kelvin; code=$?; done\n\
             echo \"kelvin ended with $code on $(hostname)\"\n\
             # Queue again, unless the job was cancelled: then it is not running any more.\n\
             if [ $code = 138 ] || [ $code = 143 ]; then\n  \
               if [ \"$(squeue --noheader --job=\"$SLURM_JOB_ID\" --format=%T)\" = RUNNING ]; then scontrol requeue \"$SLURM_JOB_ID\"; fi\n\
             fi\n\
             exit $code\n",
            self.device(),
        );
        Ok(write(self.run, &format!("{FOLDER}/{job}.sh"), text.as_bytes())?)
    }

    /// What was asked of the device and the cores, for each job.
    fn device(&self) -> String {
        let conduct = &self.common.conduct;
        let mut text = match conduct.device.device {
            DeviceArgument::Auto => String::new(),
            DeviceArgument::Cpu => " --device cpu".into(),
            DeviceArgument::Cuda => " --device cuda".into(),
        };
        if conduct.device.precision == PrecisionArgument::F32 {
            text.push_str(" --precision f32");
        }
        let threads = conduct.threads.or(self.arguments.cpus);
        text.extend(threads.map(|threads| format!(" --threads {threads}")));
        text
    }

    /// Submits what is not done; the number of each job.
    fn submit(
        &self,
        [search, shards, merge]: &[PathBuf; 3],
        is_searched: bool,
        has_missing: bool,
    ) -> anyhow::Result<(Option<String>, Option<String>, Option<String>)> {
        let searching = if is_searched { None } else { Some(sbatch(search, &[])?) };
        let sampling = match (&searching, has_missing) {
            (_, false) => None,
            (None, true) => Some(sbatch(shards, &[])?),
            (Some(job), true) => {
                let after = [format!("--dependency=afterok:{job}"), "--kill-on-invalid-dep=yes".into()];
                Some(sbatch(shards, &after).inspect_err(|_| cancel(job))?)
            }
        };
        // Whatever has become of the shards, it says what is missing.
        let after = sampling.iter().map(|job| format!("--dependency=afterany:{job}")).collect::<Vec<_>>();
        let merging =
            sbatch(merge, &after).inspect_err(|_| searching.iter().chain(&sampling).for_each(|job| cancel(job)))?;
        Ok((searching, sampling, Some(merging)))
    }
}

/// Takes a job back, so that nothing is left of what could not be submitted as a whole.
fn cancel(job: &str) {
    if !Command::new("scancel").arg(job).status().is_ok_and(|ended| ended.success()) {
        say(&format!(
            "note: job {job} is submitted, and what was to follow it is not; `scancel {job}` takes it back\n"
        ));
    }
}

/// Submits a script; the number of its job.
fn sbatch(script: &Path, options: &[String]) -> anyhow::Result<String> {
    let output = Command::new("sbatch").arg("--parsable").args(options).arg(script).output();
    let output = output.map_err(|error| match error.kind() {
        ErrorKind::NotFound => anyhow::anyhow!(
            "there is no sbatch here: run this where Slurm's commands are, or with --dry-run and submit {} by hand",
            script.display()
        ),
        _ => anyhow::anyhow!("cannot run sbatch: {error}"),
    })?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if !output.status.success() {
        let told = said(&output.stderr);
        let most = match told.contains("array") {
            true => {
                "\n  a cluster allows arrays up to its MaxArraySize (`scontrol show config` tells it): ask for fewer --shards"
            }
            false => "",
        };
        anyhow::bail!("sbatch refused {}; nothing is submitted\n  {told}{most}", script.display());
    }
    // "123" or "123;cluster".
    Ok(said(&output.stdout).split(';').next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_name_what_is_missing_and_words_are_quoted() {
        assert_eq!(array(&[1, 2, 3, 7, 9, 10]), "1-3,7,9-10");
        assert_eq!(directive_word("/home/me/run-%j.log"), "/home/me/run-%j.log");
        assert_eq!(directive_word("it's #1; $(x)"), r#""it's #1; $(x)""#);
        assert_eq!(directive_word(r#"a "b" \ c"#), r#""a \"b\" \\ c""#);
    }

    #[test]
    fn times_are_those_of_sbatch() {
        for (time, found) in [
            ("90", Some(5400)),
            ("7:30", Some(450)),
            ("1:00:00", Some(3600)),
            ("2-12", Some(216_000)),
            ("1-0:30", Some(88_200)),
            ("1-1:1:1", Some(90_061)),
            ("0", None),
            ("UNLIMITED", None),
        ] {
            assert_eq!(seconds(time).unwrap(), found, "{time}");
        }
        for wrong in ["", "an hour", "1h", "1:2:3:4", "1-", "-5", "1-2-3", "+5", "99999999999999999999", "1:"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
