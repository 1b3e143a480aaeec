//! One run, one writer: a file that is locked for as long as its process lives, says whose it is, and shows that its writer is alive.
//!
//! On one machine the operating system's lock decides: it is given back when the process ends in any way. File systems that several machines share
//! may keep such locks on each machine for itself, keep them after a machine has died, or have none. So the file is a lease as well: its writer
//! counts up in it every few seconds (its *heartbeat*). Who finds the name of another machine in it watches for a while, by its own clock: if the
//! count moves, the writer lives; if it stands still, the writer is gone and the lease is taken over. A writer that was taken for dead, since its
//! machine stood still or lost the file system, finds another name in the file, and stops before it stores anything more.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use kelvin::write_file::open_in_place;

use crate::error::{Context, Result, refused};

/// How often a writer counts up.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// A writer on another machine whose count stands still for so long is gone.
const SILENCE: Duration = Duration::from_secs(25);
/// How long to wait for a file system to give back the lock of a machine that is gone.
const PATIENCE: Duration = Duration::from_secs(150);
/// How often a file of another machine is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// Two that take a lease over at the same moment see after this who of them wrote last.
const SETTLE: Duration = Duration::from_secs(2);
/// The length of a lock's words, so that writing them never leaves a part of others behind.
const LENGTH: usize = 200;

/// The lock of a run folder, released when it is dropped.
pub(crate) struct Lock {
    lease: Arc<Lease>,
    file: File,
    heart: Option<(Sender<()>, JoinHandle<()>)>,
}

/// The words of this writer's lock, wherever they are needed.
pub(crate) struct Lease {
    path: PathBuf,
    owner: Owner,
    is_lost: AtomicBool,
}

/// How long to watch and to wait; tests are less patient.
#[derive(Clone, Copy)]
struct Times {
    heartbeat: Duration,
    silence: Duration,
    patience: Duration,
    look: Duration,
    settle: Duration,
}

const TIMES: Times = Times { heartbeat: HEARTBEAT, silence: SILENCE, patience: PATIENCE, look: LOOK, settle: SETTLE };

/// Who writes a run.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owner {
    process: String,
    host: String,
    /// Differs between machines of one name, and before and after a machine was started again; empty in locks of older kelvins.
    boot: String,
}

impl Owner {
    fn own() -> Self {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let boot: String = boot.chars().filter(char::is_ascii_hexdigit).take(12).collect();
        let boot = if boot.is_empty() { "unknown".into() } else { boot };
        Self { process: std::process::id().to_string(), host: host(), boot }
    }

    /// The owner that words name, and its heartbeats: "process 12 on node-3 boot 5f0c heartbeat 7".
    fn read(words: &str) -> Option<(Self, Option<u64>)> {
        let words: Vec<&str> = words.split_whitespace().collect();
        let (owner, beats) = match words[..] {
            ["process", process, "on", host] => ((process, host, ""), None),
            ["process", process, "on", host, "boot", boot, "heartbeat", beats] => {
                ((process, host, boot), Some(beats.parse().ok()?))
            }
            _ => return None,
        };
        let (process, host, boot) = owner;
        Some((Self { process: process.into(), host: host.into(), boot: boot.into() }, beats))
    }

    fn words(&self, beats: u64) -> String {
        let Self { process, host, boot } = self;
        format!("process {process} on {host} boot {boot} heartbeat {beats}")
    }

    fn is_on_this_machine(&self) -> bool {
        let own = Self::own();
        if self.boot.is_empty() { self.host == own.host } else { self.boot == own.boot }
    }

    /// Whether the process may be there, as far as this machine knows.
    fn may_live(&self) -> bool {
        !self.is_on_this_machine() || Path::new("/proc").join(&self.process).exists()
    }
}

impl Lock {
    /// Takes the lock of a folder, or says who has it; `tell` hears why it takes a while, where it does.
    pub fn take(path: &Path, run: &Path, tell: &dyn Fn(&str)) -> Result<Self> {
        Self::take_in(path, run, tell, TIMES)
    }

    fn take_in(path: &Path, run: &Path, tell: &dyn Fn(&str), times: Times) -> Result<Self> {
        let cannot = || format!("cannot write {}", path.display());
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = open_in_place(&mut options, path).with_context(cannot)?;
        let found = Owner::read(&words_of(path));
        let is_taken = |owner: Option<&Owner>| {
            let owner =
                owner.map_or("another process".into(), |owner| format!("process {} on {}", owner.process, owner.host));
            refused(format!(
                "{} is being written by {owner}; nothing was changed\n  \
                 wait for it, stop it, or name another folder with --out",
                run.display()
            ))
        };
        let elsewhere = found.clone().filter(|(owner, beats)| beats.is_some() && !owner.is_on_this_machine());
        match (file.try_lock(), elsewhere) {
            (locked, Some((owner, _))) => {
                tell(&format!(
                    "{} was being written by process {} on {}: looking for {} s whether it still is",
                    run.display(),
                    owner.process,
                    owner.host,
                    times.silence.as_secs()
                ));
                let is_locked = locked.is_ok();
                if !is_silent(path, &mut file, is_locked, times) {
                    return Err(is_taken(Some(&owner)));
                }
                let lease = Self::write_first(&mut file, path).with_context(cannot)?;
                std::thread::sleep(times.settle);
                if lease.is_lost() {
                    return Err(is_taken(Owner::read(&words_of(path)).map(|(owner, _)| owner).as_ref()));
                }
                Ok(Self::beating(lease, file, times))
            }
            (Err(TryLockError::WouldBlock), None) => Err(is_taken(found.map(|(owner, _)| owner).as_ref())),
            (Err(TryLockError::Error(_)), None) if found.as_ref().is_some_and(|(owner, _)| owner.may_live()) => {
                Err(is_taken(found.map(|(owner, _)| owner).as_ref()))
            }
            (Ok(()) | Err(TryLockError::Error(_)), None) => {
                let lease = Self::write_first(&mut file, path).with_context(cannot)?;
                Ok(Self::beating(lease, file, times))
            }
        }
    }

    fn write_first(file: &mut File, path: &Path) -> std::io::Result<Arc<Lease>> {
        let owner = Owner::own();
        file.set_len(0)?;
        write_words(file, &owner.words(0))?;
        Ok(Arc::new(Lease { path: path.into(), owner, is_lost: AtomicBool::new(false) }))
    }

    fn beating(lease: Arc<Lease>, file: File, times: Times) -> Self {
        let (stop, stopped) = channel::<()>();
        let beating = Arc::clone(&lease);
        let heart = file.try_clone().and_then(|mut file| {
            std::thread::Builder::new().name("lease".into()).spawn(move || {
                let mut beats = 0;
                while stopped.recv_timeout(times.heartbeat) == Err(RecvTimeoutError::Timeout) && !beating.is_lost() {
                    beats += 1;
                    // What cannot be written now may be written the next time.
                    let _ = write_words(&mut file, &beating.owner.words(beats));
                }
            })
        });
        // Without a thread for it the lock is as good as the operating system's.
        let heart = heart.ok().map(|thread| (stop, thread));
        Self { lease, file, heart }
    }

    /// Its words, to ask whether they still are this process's.
    pub fn lease(&self) -> Arc<Lease> {
        Arc::clone(&self.lease)
    }
}

impl Lease {
    /// Whether another process has taken the run over.
    pub fn is_lost(&self) -> bool {
        if self.is_lost.load(Ordering::Relaxed) {
            return true;
        }
        // A file that cannot be read, or that is being written, says nothing.
        let is_lost = Owner::read(&words_of(&self.path)).is_some_and(|(owner, _)| owner != self.owner);
        self.is_lost.fetch_or(is_lost, Ordering::Relaxed) || is_lost
    }
}

/// Whether the heartbeats of another machine's process stand still, and its lock, where the file system knows of it, is given back.
fn is_silent(path: &Path, file: &mut File, mut is_locked: bool, times: Times) -> bool {
    let (began, first) = (Instant::now(), words_of(path));
    loop {
        if words_of(path) != first {
            return false;
        }
        let is_still = began.elapsed() >= times.silence;
        if is_still {
            is_locked = is_locked || !matches!(file.try_lock(), Err(TryLockError::WouldBlock));
            if is_locked || began.elapsed() >= times.patience {
                return is_locked;
            }
        }
        std::thread::sleep(times.look);
    }
}

/// The words of a lock, read anew: file systems of several machines show what others wrote to those who open a file.
fn words_of(path: &Path) -> String {
    let mut words = String::new();
    let _ = File::open(path).and_then(|file| file.take(1 << 10).read_to_string(&mut words));
    words
}

fn write_words(file: &mut File, words: &str) -> std::io::Result<()> {
    file.seek(SeekFrom::Start(0))?;
    file.write_all(format!("{words:<LENGTH$}\n").as_bytes())?;
    file.sync_data()
}

/// Who is writing a run, as its lock says: "process 12 on node-3"; none where nobody is.
pub(super) fn holder(path: &Path) -> Option<String> {
    let (owner, beats) = Owner::read(&words_of(path))?;
    let named = format!("process {} on {}", owner.process, owner.host);
    let lives = match beats {
        Some(_) if !owner.is_on_this_machine() => age(path).is_none_or(|age| age < 2 * SILENCE),
        // The lock itself is asked last: to ask is to hold it for a moment, and a run that begins just then would be refused.
        _ => owner.may_live() && File::open(path).is_ok_and(|file| !matches!(file.try_lock_shared(), Ok(()))),
    };
    lives.then_some(named)
}

/// Who has been writing a run and has not said that it ended.
pub(super) fn last_holder(path: &Path) -> Option<String> {
    let (owner, _) = Owner::read(&words_of(path))?;
    Some(format!("process {} on {}", owner.process, owner.host))
}

/// How long ago a file was written, as far as clocks of machines agree.
fn age(path: &Path) -> Option<Duration> {
    SystemTime::now().duration_since(path.metadata().ok()?.modified().ok()?).ok()
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.heart.take() {
            let _ = stop.send(());
            let _ = thread.join();
        }
        // The file stays: removing it could remove the lock of the next.
        if !self.lease.is_lost() {
            let _ = self.file.set_len(0);
        }
    }
}

fn host() -> String {
    let found = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let found = found.or_else(|| std::env::var("HOSTNAME").or_else(|_| std::env::var("COMPUTERNAME")).ok());
    found.map(|name| name.trim().replace(' ', "-")).filter(|name| !name.is_empty()).unwrap_or("this-machine".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: &dyn Fn(&str) = &|_| {};
    /// A second is long here.
    const QUICK: Times = Times {
        heartbeat: Duration::from_millis(20),
        silence: Duration::from_millis(400),
        patience: Duration::from_millis(800),
        look: Duration::from_millis(10),
        settle: Duration::from_millis(50),
    };
    const FAR_AWAY: &str = "process 7 on node-9 boot 0123abcd heartbeat";

    #[test]
    fn the_second_writer_is_told_who_the_first_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let first = Lock::take(&path, folder.path(), QUIET).unwrap();
        let refused = Lock::take(&path, folder.path(), QUIET).err().unwrap().to_string();
        assert!(refused.contains(&format!("process {} on {}", std::process::id(), host())), "{refused}");
        drop(first);
        drop(Lock::take(&path, folder.path(), QUIET).unwrap());
        // Left behind by an older kelvin that was killed.
        std::fs::write(&path, "process 1 on a-machine-that-is-gone\n").unwrap();
        Lock::take(&path, folder.path(), QUIET).unwrap();
    }

    #[test]
    fn a_lock_is_held_as_long_as_its_process_writes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let is_held = |path: &Path| holder(path).is_some();
        assert!(!is_held(&path));
        let lock = Lock::take(&path, folder.path(), QUIET).unwrap();
        assert_eq!(holder(&path), Some(format!("process {} on {}", std::process::id(), host())));
        drop(lock);
        assert!(!is_held(&path) && last_holder(&path).is_none());
        std::fs::write(&path, Owner { process: "4194399".into(), ..Owner::own() }.words(3)).unwrap();
        assert!(!is_held(&path) && last_holder(&path).is_some(), "a process that was killed");
        std::fs::write(&path, Owner::own().words(3)).unwrap();
        assert!(!is_held(&path), "a number that another process has now");
        std::fs::write(&path, format!("{FAR_AWAY} 3")).unwrap();
        assert_eq!(holder(&path).unwrap(), "process 7 on node-9", "written just now");
        let long_ago = SystemTime::now() - Duration::from_secs(3600);
        File::options().write(true).open(&path).unwrap().set_modified(long_ago).unwrap();
        assert!(!is_held(&path));
    }

    #[test]
    fn a_writer_on_another_machine_is_alive_while_its_heart_beats() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        std::fs::write(&path, format!("{FAR_AWAY} 1")).unwrap();
        let told = std::cell::RefCell::new(String::new());
        let tell = |text: &str| told.borrow_mut().push_str(text);
        std::thread::scope(|scope| {
            let beating = scope.spawn(|| {
                for beat in 2..60 {
                    std::thread::sleep(QUICK.heartbeat);
                    std::fs::write(&path, format!("{FAR_AWAY} {beat}")).unwrap();
                }
            });
            let refused = Lock::take_in(&path, folder.path(), &tell, QUICK).err().unwrap().to_string();
            assert!(refused.contains("is being written by process 7 on node-9"), "{refused}");
            beating.join().unwrap();
        });
        assert!(told.borrow().contains("process 7 on node-9"));
        // It has died in the middle.
        let lock = Lock::take_in(&path, folder.path(), QUIET, QUICK).unwrap();
        assert!(holder(&path).is_some_and(|holder| holder.contains(&std::process::id().to_string())));
        drop(lock);
        // The file system of a machine that is gone may keep its lock for good.
        std::fs::write(&path, format!("{FAR_AWAY} 1")).unwrap();
        let kept = File::open(&path).unwrap();
        kept.lock().unwrap();
        assert!(Lock::take_in(&path, folder.path(), QUIET, QUICK).is_err());
    }

    #[test]
    fn who_was_taken_for_dead_knows_it_and_leaves_the_lock_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let lock = Lock::take_in(&path, folder.path(), QUIET, QUICK).unwrap();
        let lease = lock.lease();
        std::thread::sleep(4 * QUICK.heartbeat);
        let (_, beats) = Owner::read(&words_of(&path)).unwrap();
        assert!(beats.unwrap() > 0 && !lease.is_lost());
        std::fs::write(&path, format!("{FAR_AWAY} 1")).unwrap();
        assert!(lease.is_lost());
        std::thread::sleep(4 * QUICK.heartbeat);
        drop(lock);
        assert_eq!(words_of(&path), format!("{FAR_AWAY} 1"));
    }

    #[test]
    fn words_name_an_owner_or_nobody() {
        let owner = Owner::own();
        assert_eq!(Owner::read(&format!("{}   \n", owner.words(12))), Some((owner.clone(), Some(12))));
        assert!(owner.is_on_this_machine() && owner.may_live());
        assert!(!Owner { boot: "0123".into(), ..owner.clone() }.is_on_this_machine(), "a machine of the same name");
        assert!(!Owner { process: "4194399".into(), ..owner }.may_live());
        let older = Owner::read("process 1 on a-machine-far-away\n").unwrap();
        assert!(older.0.may_live() && older.1.is_none());
        assert!(Owner::read("").is_none() && Owner::read("nonsense").is_none());
    }
}
