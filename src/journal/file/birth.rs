//! How a log begins: its first record, which names the journal; and what is made with it.

use super::frame::{self, Body};
use crate::{
    clock::Clock,
    disk::{Disk, DiskFile, How},
    ids::OwnerId,
    journal::store::{StoreError, StoreErrorKind},
};
use std::{path::Path, sync::Arc};

/// The first record is far shorter than this.
const FIRST_RECORD_CAP: u64 = 4096;

/// What the first record of a log says.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Birth {
    /// The journal's name; two paths to one folder have one.
    pub(super) id: OwnerId,
    pub(super) format: u32,
    /// How often it was compacted before this log.
    #[serde(default, skip_serializing_if = "never")]
    pub(super) compactions: u64,
    /// The number of the last record that stands in the archive, and belongs to it; 0 where nothing was moved out yet.
    #[serde(default, skip_serializing_if = "never")]
    pub(super) after: u64,
}

fn never(count: &u64) -> bool {
    *count == 0
}

impl Birth {
    /// The first record of a log.
    pub(super) fn body(&self, clock: &Arc<dyn Clock>) -> Result<Body, StoreError> {
        Ok(Body::Book {
            name: "journal",
            at: clock.now(),
            data: serde_json::to_string(self).map_err(refused)?,
        })
    }
}

fn refused(why: impl std::fmt::Display) -> StoreError {
    StoreError::new(StoreErrorKind::Refused, why.to_string())
}

pub(super) fn unusable(folder: &Path, error: std::io::Error) -> StoreError {
    let text = format!(
        "{} can't hold a journal ({error}): give a folder that can be made and written to, on a local disk",
        folder.display()
    );
    StoreError::new(StoreErrorKind::BadPath, text)
}

/// R6: a log is made only in a folder that bears no sign of an earlier one. It is written and synced under another name, then the mark is made,
/// then it takes its place: a kill in between leaves a folder that the next opening can finish.
pub(super) fn existing_or_new_log(
    folder: &Path,
    path: &Path,
    disk: &Arc<dyn Disk>,
    clock: &Arc<dyn Clock>,
) -> Result<Box<dyn DiskFile>, StoreError> {
    let failed = |e| StoreError::io("making", path, e);
    // What can't be looked at is not missing: a log that is there would be replaced.
    let there = |path: &Path| match disk.identity(path) {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(StoreError::io("looking at", path, e)),
    };
    if there(path)? {
        // Whoever made it may have died before its folder was durable in the one above.
        made_durable(folder, disk).map_err(failed)?;
        return disk.open(path, How::Append).map_err(|e| StoreError::io("opening", path, e));
    }
    let (unborn, mark) = (folder.join("log.new"), folder.join("made"));
    let marked = there(&mark)?;
    let mut traces = false;
    for sign in ["archive", "owners", "origins"] {
        traces |= there(&folder.join(sign))?;
    }
    let half_made = there(&unborn)?;
    if traces || marked && !half_made {
        let text = format!(
            "{} had a journal once, and its log.jsonl is gone: nothing was made and nothing is sent, since every key would be minted anew. \
             Restore the file, or give another folder",
            folder.display()
        );
        return Err(StoreError::new(StoreErrorKind::Missing, text));
    }
    if !marked {
        if half_made {
            disk.remove(&unborn).map_err(failed)?;
        }
        let birth = Birth {
            id: OwnerId::mint().map_err(refused)?,
            format: 1,
            compactions: 0,
            after: 0,
        };
        let mut line = Vec::new();
        frame::encode(&mut line, 1, &birth.body(clock)?, 0, 0);
        write_new(&unborn, &line, disk).map_err(failed)?;
        // The mark must not outlive a power cut that the log does not.
        disk.sync_dir(folder).map_err(failed)?;
        write_new(&mark, format!("{}\n", birth.id).as_bytes(), disk).map_err(failed)?;
        disk.sync_dir(folder).map_err(failed)?;
    }
    disk.rename(&unborn, path).map_err(failed)?;
    disk.sync_dir(folder).map_err(failed)?;
    made_durable(folder, disk).map_err(failed)?;
    disk.open(path, How::Append).map_err(failed)
}

/// A folder is durable by the one it stands in, and that one too may have been made a moment ago. One far above may be closed to us; it was
/// there before us, then.
fn made_durable(folder: &Path, disk: &Arc<dyn Disk>) -> std::io::Result<()> {
    for (far, above) in folder.ancestors().skip(1).enumerate() {
        let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
        match disk.sync_dir(above) {
            Err(e) if far > 0 && e.kind() == std::io::ErrorKind::PermissionDenied => break,
            done => done?,
        }
    }
    Ok(())
}

fn write_new(path: &Path, bytes: &[u8], disk: &Arc<dyn Disk>) -> std::io::Result<()> {
    let mut file = disk.open(path, How::CreateNew)?;
    file.append_all(bytes)?;
    file.sync()
}

/// What the log's first record says.
pub(super) fn read(path: &Path, log: &mut dyn DiskFile) -> Result<Birth, StoreError> {
    let failed = |e| StoreError::io("reading", path, e);
    let len = log.size().map_err(failed)?.min(FIRST_RECORD_CAP);
    let bytes = log.read_at(0, usize::try_from(len).unwrap_or(0)).map_err(failed)?;
    let first = bytes.split(|b| *b == b'\n').next().unwrap_or_default();
    let named = match frame::decode(first).map(|frame| frame.what) {
        Ok(frame::What::Book { name: "journal", data }) => serde_json::from_str::<Birth>(&data).ok(),
        Err(frame::Bad::Version(version)) => {
            let text = format!(
                "journal at {} is of version {version}: nothing was changed; use the uketsuke that wrote it",
                path.display()
            );
            return Err(StoreError::new(StoreErrorKind::UnsupportedVersion, text));
        }
        _ => None,
    };
    named.ok_or_else(|| {
        let text = format!(
            "{} does not begin as a journal does: nothing was changed and nothing will be sent; restore the file",
            path.display()
        );
        StoreError::new(StoreErrorKind::Corrupt, text)
    })
}

/// This process's own file, locked while it lives. Under the folder's lock, so nobody sees it unlocked; the dead ones' are cleared away.
pub(super) fn own_file(owners: &Path, owner: OwnerId, disk: &Arc<dyn Disk>) -> Result<Box<dyn DiskFile>, StoreError> {
    let failed = |e| StoreError::io("keeping an owner's file in", owners, e);
    disk.make_dir(owners).map_err(failed)?;
    for path in disk.list(owners).map_err(failed)? {
        // Only what is named as ours are: strangers' files are left alone.
        let named = path
            .file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.parse::<OwnerId>().is_ok());
        if named
            && let Ok(mut file) = disk.open(&path, How::Append)
            && file.try_lock().unwrap_or(false)
        {
            drop(disk.remove(&path));
        }
    }
    let mut own = disk.open(&owners.join(owner.to_string()), How::CreateNew).map_err(failed)?;
    match own.try_lock() {
        Ok(true) => Ok(own),
        Ok(false) => Err(failed(std::io::ErrorKind::WouldBlock.into())),
        Err(e) => Err(failed(e)),
    }
}
