//! The journal's folder: torn, damaged, taken away, too full, read by others. What is promised there holds on real files.

use crate::{
    kit::{Folder, brisk, order},
    props::{
        Call, EIO, ENOSPC, Fault, Line, Moody, NOBODY, Role, actor, folder_with, has, idle_log, journal_kind, log_bytes, mail,
        order_events, read_log, receipt, single, unsynced, write_log,
    },
};
use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use uketsuke::{
    Clock as _, Effect, ErrorKind, IdempotencyKey, Journal, JournalError, OrderClient, Outcome, SystemClock, Why,
    journal::{
        disk::{Disk as _, How, RealDisk},
        store::StoreErrorKind,
    },
    testkit::{Desk, Script},
};

/// The records of a journal with two orders in doubt, as its process left them; and a client's limits of one attempt a flight.
async fn two_in_doubt() -> (Desk, Vec<Line>, [IdempotencyKey; 2]) {
    let (desk, folder) = (Desk::start().await, Folder::new());
    desk.script(Script::new().lose_request().times(2));
    let client = single_client(&folder, &desk.url()).await;
    let mut keys = Vec::new();
    for n in [1, 2] {
        let error = client.submit(mail(n), &order()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InDoubt);
        keys.push(error.key().unwrap());
    }
    let lines = idle_log(&folder).await;
    (desk, lines, keys.try_into().unwrap())
}

async fn single_client(folder: &Folder, url: &str) -> OrderClient {
    OrderClient::new(folder.journal().await, single(url).build().unwrap(), actor())
}

fn count(lines: &[Line], event: &str) -> usize {
    lines.iter().filter(|line| line.says(event)).count()
}

fn witness(covers: usize) -> Line {
    let at = SystemClock.now();
    let nil = "00000000-0000-0000-0000-000000000000";
    Line {
        front: format!(r#"{{"v":1,"seq":"000000009999","at":"{at}","key":"{nil}","now":"none","ev":"witness","data":{{}}"#).into_bytes(),
        synced: covers as u64,
    }
}

/// Whether somebody stands in line for that file's lock.
#[cfg(target_os = "linux")]
fn waited_for(lock: &Path) -> bool {
    let inode = std::os::unix::fs::MetadataExt::ino(&fs::metadata(lock).unwrap());
    let inode = format!(":{inode} ");
    let locks = fs::read_to_string("/proc/locks").unwrap();
    locks.lines().any(|line| line.contains("->") && line.contains(&inode))
}

/// Whoever waits for a folder that a stopped process holds keeps nobody from another.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_folder_that_is_waited_for_keeps_nobody_from_another() {
    let (held, free) = (Folder::new(), Folder::new());
    drop(held.journal().await);
    let mut lock = RealDisk.open(&held.path().join("lock"), How::Lock).unwrap();
    lock.lock().unwrap();
    let path = held.path().to_owned();
    let waiting = tokio::spawn(async move { Journal::open(path).await.map(drop) });
    let opened = tokio::time::timeout(Duration::from_secs(60), async {
        while !waited_for(&held.path().join("lock")) {
            tokio::task::yield_now().await;
        }
        free.journal().await
    });
    assert!(opened.await.is_ok(), "it waits behind the other folder");
    assert!(!waiting.is_finished());
    lock.unlock().unwrap();
    waiting.await.unwrap().unwrap();
}

async fn opens_not(folder: &Folder) -> JournalError {
    let before = log_bytes(&folder.log());
    let owners = || fs::read_dir(folder.path().join("owners")).map_or(0, Iterator::count);
    let left = owners();
    let opened = Journal::builder().disk(unsynced()).open(folder.path()).await;
    let error = opened.expect_err("it opened");
    assert!(owners() <= left, "an owner's file stays behind");
    assert!(fs::read(folder.log()).unwrap() == before, "the bytes were changed: {error}");
    assert!(error.key().is_none());
    error
}

// ---- torn and damaged ----------------------------------------------------------------------------------------------

/// BUG-52, R12: what nobody was promised is set aside and reported; what had been durable and can't be read is an error that names its line,
/// and changes nothing.
#[tokio::test]
async fn a_torn_tail_is_cut_damage_is_an_error() {
    let (desk, lines, keys) = two_in_doubt().await;
    let sent = desk.requests().len();
    let open = async |folder: &Folder| Journal::builder().disk(unsynced()).open(folder.path()).await.unwrap();

    // Cut at every byte of the last record: once it is the end of a flight, once a claim.
    let last_claim = lines.iter().rposition(|line| line.says("claimed")).unwrap();
    for lines in [&lines[..], &lines[..=last_claim]] {
        let (bytes, starts) = write_log(lines);
        let (start, end) = (*starts.last().unwrap(), bytes.len());
        for cut in start..end {
            let folder = folder_with(&bytes[..cut]);
            let journal = open(&folder).await;
            let whole = cut == end - 1;
            let torn = journal.torn().to_vec();
            if cut == start || whole {
                assert!(torn.is_empty(), "cut at {cut} of {start}..{end}: {torn:?}");
            } else {
                assert_eq!((torn.len(), torn[0].offset, torn[0].bytes), (1, start as u64, (cut - start) as u64));
                assert_eq!(torn[0].copy, folder.path().join(format!("archive/torn-{start}")));
                assert!(fs::read(&torn[0].copy).unwrap() == bytes[start..cut], "the copy of {start}..{cut}");
            }
            drop(journal);
            let kept = if whole { lines } else { &lines[..lines.len() - 1] };
            for _ in 0..2 {
                let journal = open(&folder).await;
                assert!(journal.torn().is_empty(), "cut at {cut}, opened again: {:?}", journal.torn());
                let found = read_log(&folder.log());
                for event in ["claimed", "sent", "observed", "rested"] {
                    assert_eq!(count(&found, event), count(kept, event), "cut at {cut}: {event}");
                }
            }
        }
    }

    // One bit of each byte that a later record witnesses.
    let (bytes, starts) = write_log(&[&lines[..], &[witness(write_log(&lines).0.len())]].concat());
    let end = *starts.last().unwrap();
    let folder = folder_with(&bytes);
    for at in 0..end {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        fs::write(folder.log(), &damaged).unwrap();
        let error = opens_not(&folder).await;
        let line = starts.iter().filter(|start| **start <= at).count();
        let place = at - starts[line - 1];
        let version = has(&damaged[..at + 1], b"{\"v\":") && place == 5;
        match error.kind() {
            StoreErrorKind::UnsupportedVersion if version => {}
            kind => assert_eq!(kind, StoreErrorKind::Corrupt, "byte {place} of line {line}: {error}"),
        }
        let named = error.to_string().contains(&format!("line {line}"));
        assert!(named || line == 1, "byte {place} of line {line}: {error}");
    }
    // A line that is no record at all, with good ones behind it.
    let garbage = [&bytes[..starts[2]], b"garbage\n", &bytes[starts[3]..]].concat();
    fs::write(folder.log(), garbage).unwrap();
    let error = opens_not(&folder).await;
    assert_eq!(error.kind(), StoreErrorKind::Corrupt);
    assert!(error.to_string().contains("line 3"), "{error}");

    fs::write(folder.log(), &bytes).unwrap();
    let client = single_client(&folder, &desk.url()).await;
    assert_eq!(client.known(keys[1]).await.unwrap_err().kind(), ErrorKind::InDoubt);
    assert_eq!(desk.requests().len(), sent, "opening sends nothing");
}

/// BUG-50, BUG-51: half a line at the end stops nobody, and the next record is not glued to it.
#[tokio::test]
async fn the_next_record_is_not_glued_to_a_torn_one() {
    let (desk, lines, keys) = two_in_doubt().await;
    let (mut bytes, _) = write_log(&lines);
    let offset = bytes.len() as u64;
    bytes.extend_from_slice(br#"{"v":1,"key":"9c"#);
    let folder = folder_with(&bytes);
    let client = {
        let journal = folder.journal().await;
        assert_eq!((journal.torn().len(), journal.torn()[0].offset), (1, offset));
        OrderClient::new(journal, brisk(&desk.url()).build().unwrap(), actor())
    };
    assert_eq!(desk.requests().len(), 2, "opening sends nothing");
    let third = receipt(client.submit(mail(3), &order()).await).key;
    drop(client);
    for _ in 0..2 {
        let client = folder.client(&desk).await;
        assert_eq!(count(&read_log(&folder.log()), "claimed"), 3);
        for key in keys {
            assert_eq!(client.known(key).await.unwrap_err().kind(), ErrorKind::InDoubt);
        }
        assert!(matches!(client.known(third).await, Ok(Some(Outcome::Succeeded(_)))));
    }
    assert_eq!(desk.requests().len(), 3);
}

/// R12, R15: a power cut can lose a written, unsynced record and keep the ones behind it. That stops no journal, throws nothing away, and takes
/// no doubt away.
#[tokio::test]
async fn an_unwitnessed_hole_is_set_aside_and_takes_no_doubt_away() {
    let (desk, lines, keys) = two_in_doubt().await;
    let claim = lines.iter().rposition(|line| line.says("claimed")).unwrap();
    let (_, starts) = write_log(&lines);
    let (durable, sent, observed, rested) = (starts[claim + 1], claim + 1, claim + 2, claim + 3);
    assert!(lines[sent].says("sent") && lines[observed].says("observed") && lines[rested].says("rested"));
    let unwitnessed: Vec<Line> = lines
        .iter()
        .map(|line| Line {
            synced: line.synced.min(durable as u64),
            ..line.clone()
        })
        .collect();
    let (bytes, starts) = write_log(&unwitnessed);
    let zero: fn(&mut [u8]) = |torn| torn.fill(0);
    let zero_the_second_half: fn(&mut [u8]) = |torn| {
        let half = torn.len() / 2;
        torn[half..].fill(0);
    };
    let flip: fn(&mut [u8]) = |torn| torn[30] ^= 4;
    for (first, last) in [(sent, sent), (observed, observed), (sent, observed)] {
        for damage in [zero, zero_the_second_half, flip] {
            let hole = starts[first]..starts[last + 1];
            let mut torn = bytes.clone();
            damage(&mut torn[hole.clone()]);
            if first != last {
                damage(&mut torn[starts[last]..starts[last + 1]]);
            }
            let folder = folder_with(&torn);
            let journal = folder.journal().await;
            let report = journal.torn().to_vec();
            let set_aside: u64 = report.iter().map(|one| one.bytes).sum();
            assert_eq!((report[0].offset, set_aside), (hole.start as u64, hole.len() as u64), "{report:?}");
            let copied: Vec<u8> = report.iter().flat_map(|one| fs::read(&one.copy).unwrap()).collect();
            assert!(copied == torn[hole.clone()], "the copy");
            drop(journal);

            let client = single_client(&folder, &desk.url()).await;
            let log = read_log(&folder.log());
            assert_eq!(count(&log, "rested"), 2, "the record behind the hole is kept");
            let without_words = log.iter().filter(|line| !line.says("witness")).count();
            assert_eq!(without_words, lines.len() + report.len() - (last - first + 1));
            let error = client.withdraw(keys[1], "changed my mind").await.unwrap_err();
            assert_eq!(
                (error.kind(), error.effect()),
                (ErrorKind::InDoubt, Effect::Possible),
                "hole {first}..={last}"
            );
        }
    }
    // The same hole, witnessed: damage.
    let folder = folder_with(&{
        let (mut bytes, starts) = write_log(&[&unwitnessed[..], &[witness(bytes.len())]].concat());
        bytes[starts[sent] + 30] ^= 4;
        bytes
    });
    assert_eq!(opens_not(&folder).await.kind(), StoreErrorKind::Corrupt);
    assert_eq!(desk.requests().len(), 2);
}

/// R12: an origin whose claim was damaged before anybody heard that it was durable stays closed: it may have been acted on.
#[tokio::test]
async fn the_origin_of_a_damaged_claim_stays_closed() {
    let (desk, lines, keys) = two_in_doubt().await;
    let claim = lines.iter().rposition(|line| line.says("claimed")).unwrap();
    let (mut bytes, starts) = write_log(&lines[..=claim]);
    let at = starts[claim];
    let last = bytes.len() - 40;
    bytes[last] ^= 1;
    let folder = folder_with(&bytes);
    for _ in 0..2 {
        let client = single_client(&folder, &desk.url()).await;
        let error = client.submit(mail(2), &order()).await.unwrap_err();
        assert_eq!(
            (error.kind(), journal_kind(&error)),
            (ErrorKind::Journal, Some(StoreErrorKind::Corrupt))
        );
        assert!(error.to_string().contains(&at.to_string()), "{error}");
        assert_eq!(client.known(keys[0]).await.unwrap_err().kind(), ErrorKind::InDoubt);
    }
    assert_eq!(desk.requests().len(), 2);
    receipt(single_client(&folder, &desk.url()).await.submit(mail(3), &order()).await);
}

/// BUG-58: a record of a newer version is no damage, and nothing of it is touched.
#[tokio::test]
async fn a_newer_version_is_refused_and_nothing_is_touched() {
    let (_, lines, _) = two_in_doubt().await;
    let (bytes, starts) = write_log(&lines);
    for cut in [starts[2], bytes.len()] {
        for behind in [&b""[..], &bytes[starts[2]..starts[3]]] {
            let newer = b"{\"v\":99,\"seq\":\"000000000003\",\"new\":true,\"crc\":\"00000000\"}\n";
            let folder = folder_with(&[&bytes[..cut], newer, behind].concat());
            let error = opens_not(&folder).await;
            assert_eq!(error.kind(), StoreErrorKind::UnsupportedVersion, "{error}");
            assert!(error.to_string().contains("99"), "{error}");
        }
    }
}

/// A record that this version can't read spoils its own order and no other.
#[tokio::test]
async fn one_bad_pending_order_never_blocks_the_rest() {
    let (desk, mut lines, keys) = two_in_doubt().await;
    let strange = lines.iter_mut().rfind(|line| line.says("rested")).unwrap();
    let text = String::from_utf8(strange.front.clone()).unwrap();
    strange.front = text.replace("\"ev\":\"rested\"", "\"ev\":\"foretold\"").into_bytes();
    let folder = folder_with(&write_log(&lines).0);
    let client = folder.client(&desk).await;
    receipt(client.submit(mail(3), &order()).await);
    let resumption = client.resume_pending().await.unwrap();
    assert_eq!(resumption.resumed.len(), 1);
    assert_eq!(receipt(resumption.resumed[0].result.clone()).key, keys[0]);
    let [left] = &resumption.left_alone[..] else {
        panic!("{resumption:?}")
    };
    assert_eq!(left.key, keys[1]);
    assert!(matches!(&left.why, Why::Unreadable(why) if why.contains("foretold")), "{left:?}");
    let error = client.submit(mail(2), &order()).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Journal, Effect::Possible));
    assert_eq!(desk.attempts(&keys[1].to_string()).len(), 1, "it was sent again, unread");
}

// ---- taken away, put elsewhere, read by others ---------------------------------------------------------------------

/// R6: a folder that had a log is no fresh start: every key would be minted anew.
#[tokio::test]
async fn a_log_that_is_gone_is_missing_not_new() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    receipt(folder.client(&desk).await.submit(mail(1), &order()).await);
    idle_log(&folder).await;
    for signs in [&["made", "owners"][..], &["made"], &["owners"]] {
        fs::remove_file(folder.log()).unwrap();
        for other in ["made", "owners"].iter().filter(|other| !signs.contains(other)) {
            let path = folder.path().join(other);
            if path.is_dir() {
                fs::remove_dir_all(path)
            } else {
                fs::remove_file(path)
            }
            .unwrap();
        }
        let error = Journal::open(folder.path()).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Missing, "{error}");
        assert!(error.to_string().contains(&folder.path().display().to_string()), "{error}");
        let mut left: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        left.retain(|name| !signs.iter().any(|sign| name == sign));
        assert_eq!(left, ["lock"], "something was made");
        // As it was, for the next round.
        fs::remove_dir_all(folder.path()).unwrap();
        receipt(folder.client(&desk).await.submit(mail(1), &order()).await);
        idle_log(&folder).await;
    }
}

/// R6: a process that dies, or a disk that fails, at any call of the first opening leaves a folder that the next one can finish.
#[tokio::test]
async fn an_opening_that_fails_anywhere_can_be_done_again() {
    for nth in 1.. {
        let (desk, folder) = (Desk::start().await, Folder::new());
        let disk = Moody::new(move |call| (call.nth >= nth).then_some(EIO));
        let opened = Journal::builder().disk(disk).open(folder.path()).await;
        let done = match opened {
            Ok(journal) => {
                drop(journal);
                true
            }
            Err(error) => {
                assert!(error.to_string().contains(&folder.path().display().to_string()), "{error}");
                false
            }
        };
        let client = folder.client(&desk).await;
        receipt(client.submit(mail(1), &order()).await);
        assert_eq!(count(&read_log(&folder.log()), "claimed"), 1);
        if done {
            assert!(nth > 20, "the opening made only {nth} calls");
            break;
        }
    }
}

/// A log in another place would be another journal for the same mailbox.
#[tokio::test]
async fn a_symbolic_link_in_place_of_the_log_is_refused() {
    let (_, lines, _) = two_in_doubt().await;
    let (real, folder) = (folder_with(&write_log(&lines).0), Folder::new());
    fs::create_dir(folder.path()).unwrap();
    symlink(real.log(), folder.log()).unwrap();
    let error = opens_not(&folder).await;
    assert!(error.to_string().contains("symbolic link"), "{error}");
    assert!(error.to_string().contains("log.jsonl"), "{error}");
    assert!(folder.log().is_symlink());
}

/// BUG-61: the path is in the error: "can't open the journal" alone helps nobody.
#[tokio::test]
async fn a_path_that_can_hold_no_journal_is_named() {
    let folder = Folder::new();
    let file = folder.path();
    fs::write(&file, "a file").unwrap();
    for path in [file.clone(), file.join("below")] {
        let error = Journal::open(&path).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::BadPath, "{error}");
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "a file");

    // EROFS, the read-only file system.
    let folder = Folder::new();
    let read_only = Moody::new(|call| matches!(call.what, "make_dir" | "open").then_some(Fault::Os(30)));
    let error = Journal::builder().disk(read_only).open(folder.path()).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::BadPath);
    assert!(error.to_string().contains(&folder.path().display().to_string()), "{error}");
}

/// Deleted, replaced or cut under us: never a request without a record at the path.
#[tokio::test]
async fn a_log_that_changes_under_us_sends_nothing_more() {
    let deleted: fn(&Path) = |log| fs::remove_file(log).unwrap();
    let replaced: fn(&Path) = |log| {
        let copy = log.with_extension("copy");
        fs::copy(log, &copy).unwrap();
        fs::rename(&copy, log).unwrap();
    };
    let cut: fn(&Path) = |log| {
        let file = fs::OpenOptions::new().write(true).open(log).unwrap();
        file.set_len(100).unwrap();
    };
    let rotated: fn(&Path) = |log| fs::rename(log, log.with_extension("1")).unwrap();
    for change in [deleted, replaced, cut, rotated] {
        let (desk, folder) = (Desk::start().await, Folder::new());
        let client = folder.client(&desk).await;
        receipt(client.submit(mail(1), &order()).await);
        idle_log(&folder).await;
        change(&folder.log());
        let left = fs::read(folder.log()).ok();
        for n in [2, 1] {
            let error = client.submit(mail(n), &order()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Journal);
            assert!(error.to_string().contains("while it was open"), "{error}");
        }
        assert_eq!(desk.requests().len(), 1, "{}", desk.story());
        assert!(fs::read(folder.log()).ok() == left, "the file at the path was written to");
    }
}

/// BUG-59: orders are private, whatever the mask; and a credential is nowhere in the folder.
#[tokio::test]
async fn nobody_else_can_read_the_journal() {
    for mask in ["000", "022"] {
        let (desk, folder) = (Desk::start().await, Folder::new());
        let limits = format!("umask {mask}");
        let (told, _) = Role::behind(&limits, "submit", &desk.url(), &folder.path()).play().await;
        assert!(told[0].starts_with("succeeded"), "{told:?}");
        assert!(
            desk.requests()[0]
                .header("authorization")
                .is_some_and(|line| line.contains("SEKRET"))
        );
        // A child that leaves something torn behind, so that the archive is made under the mask too.
        let torn = [&log_bytes(&folder.log())[..], b"{\"v\":1,"].concat();
        fs::write(folder.log(), torn).unwrap();
        Role::behind(&limits, "submit", &desk.url(), &folder.path()).play().await;

        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let (mut folders, mut files) = (vec![folder.path()], 0);
        while let Some(next) = folders.pop() {
            assert_eq!(mode(&next), 0o700, "{}", next.display());
            for entry in fs::read_dir(&next).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                files += 1;
                assert_eq!(mode(&path), 0o600, "{}", path.display());
                assert!(!has(&fs::read(&path).unwrap(), b"SEKRET"), "{}", path.display());
            }
        }
        assert!(files >= 4, "log, lock, made and a torn copy are expected, not {files}");
    }
}

// ---- a disk that is full or broken ---------------------------------------------------------------------------------

/// BUG-53: the disk is full at the claim: that order fails, nothing is sent, what was written before stays readable, and with room again it
/// goes on.
#[tokio::test]
async fn a_full_disk_sends_nothing_and_loses_nothing() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let first = receipt(folder.client(&desk).await.submit(mail(9), &order()).await).key;
    let before = idle_log(&folder).await;
    // 512-byte blocks; enough for small records, not for one of 64 KiB.
    let blocks = log_bytes(&folder.log()).len() / 512 + 3;
    let limits = format!("trap '' XFSZ; ulimit -f {blocks}");
    let (told, _) = Role::behind(&limits, "big", &desk.url(), &folder.path()).play().await;
    assert_eq!(told, ["error Journal none Possible", "error Journal none Possible"]);
    assert_eq!(desk.requests().len(), 1, "{}", desk.story());

    let client = folder.client(&desk).await;
    let after = read_log(&folder.log());
    assert_eq!((count(&after, "claimed"), count(&after, "settled")), (1, 1));
    assert!(after.len() >= before.len());
    assert_eq!(receipt(client.submit(mail(9), &order()).await).key, first);
    receipt(client.submit(mail(1), &order()).await);
    assert_eq!(desk.requests().len(), 2);
}

/// A write that ends half way leaves no stump for the next record, whether the stump can be cut back or not.
#[tokio::test]
async fn a_short_write_leaves_no_stump() {
    for can_truncate in [true, false] {
        let (desk, folder) = (Desk::start().await, Folder::new());
        let disk = Moody::new(move |call: Call<'_>| match call.what {
            // One short write of the second order's claim, and then no space is left for the rest of it.
            "file.append" if has(call.bytes, b"2@example.com") && has(call.bytes, b"{\"v\":1") => Some(Fault::Short(400)),
            "file.append" if has(call.bytes, b"\"crc\":\"") && !call.bytes.starts_with(b"{\"v\":1") => Some(ENOSPC),
            "file.truncate" if !can_truncate => Some(EIO),
            _ => None,
        });
        let journal = Journal::builder().disk(disk).open(folder.path()).await.unwrap();
        let client = OrderClient::new(journal, brisk(&desk.url()).build().unwrap(), actor());
        receipt(client.submit(mail(1), &order()).await);
        let error = client.submit(mail(2), &order()).await.unwrap_err();
        assert_eq!((error.kind(), error.key()), (ErrorKind::Journal, None));
        assert_eq!(desk.requests().len(), 1);

        let journal = folder.journal().await;
        assert_eq!(journal.torn().len(), usize::from(!can_truncate));
        let client = OrderClient::new(journal, brisk(&desk.url()).build().unwrap(), actor());
        assert_eq!(count(&read_log(&folder.log()), "claimed"), 1);
        receipt(client.submit(mail(2), &order()).await);
        assert_eq!((desk.orders().len(), count(&read_log(&folder.log()), "claimed")), (2, 2));
    }
}

/// Section 8 of the journal's plan: whichever call of the disk fails, once or for good, no order is doubled, no key is seen that is not in the
/// book, and a fresh opening brings the order to its one end.
#[tokio::test]
async fn whichever_disk_call_fails_one_origin_is_one_order() {
    for for_good in [false, true] {
        let mut untouched = 0;
        for nth in 1.. {
            let (desk, folder) = (Desk::start().await, Folder::new());
            let hits = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&hits);
            let disk = Moody::new(move |call| {
                let hit = call.nth == nth || for_good && call.nth > nth;
                hit.then(|| counted.fetch_add(1, Ordering::SeqCst))?;
                Some(EIO)
            });
            if let Ok(journal) = Journal::builder().disk(disk).open(folder.path()).await {
                let client = OrderClient::new(journal, brisk(&desk.url()).build().unwrap(), actor());
                let told = client.submit(mail(1), &order()).await;
                let story = format!("call {nth}, for good {for_good}: {told:?}\n{}", desk.story());
                if let Err(error) = &told {
                    assert_eq!(error.kind(), ErrorKind::Journal, "{story}");
                    assert!(desk.orders().is_empty() || error.effect() != Effect::None, "{story}");
                    let keys = folder.events("claimed").len();
                    assert!(keys == 0 || error.key().is_some() || error.effect() == Effect::Possible, "{story}");
                }
                client.drain(Duration::from_secs(5)).await;
            }
            untouched = if hits.load(Ordering::SeqCst) == 0 { untouched + 1 } else { 0 };
            let client = folder.client(&desk).await;
            let resumption = client.resume_pending().await.unwrap();
            let key = receipt(client.submit(mail(1), &order()).await).key;
            let story = format!("call {nth}, for good {for_good}: {resumption:?}\n{}", desk.story());
            assert_eq!(desk.keys(), [key.to_string()], "{story}");
            assert_eq!((desk.orders().len(), folder.events("claimed").len()), (1, 1), "{story}");
            read_log(&folder.log());
            // The thread that syncs in the background makes the number of calls vary a little.
            if untouched == 3 {
                assert!(nth > 40, "only {nth} calls were made");
                break;
            }
        }
    }
}

/// A journal that was closed sends nothing more, whoever still holds it, and its orders are anybody's at once.
#[tokio::test]
async fn a_closed_journal_gives_its_orders_up() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let journal = folder.journal().await;
    let client = OrderClient::new(journal.clone(), brisk(&desk.url()).build().unwrap(), actor());
    receipt(client.submit(mail(1), &order()).await);
    journal.close().await.unwrap();
    let error = client.submit(mail(2), &order()).await.unwrap_err();
    assert_eq!(
        (error.kind(), journal_kind(&error)),
        (ErrorKind::Journal, Some(StoreErrorKind::Closed))
    );
    assert_eq!(fs::read_dir(folder.path().join("owners")).unwrap().count(), 0, "it still owns");
    let fresh = folder.client(&desk).await;
    receipt(fresh.submit(mail(2), &order()).await);
    assert_eq!((desk.requests().len(), folder.events("claimed").len()), (2, 2));
}

/// A record over the cap is refused before it is written, and the journal is as good as before.
#[tokio::test]
async fn an_order_over_the_cap_is_refused_whole() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let client = folder.client(&desk).await;
    let error = client.submit(mail(1), &order().note("x".repeat(17 << 20))).await.unwrap_err();
    assert_eq!(
        (error.kind(), journal_kind(&error)),
        (ErrorKind::Journal, Some(StoreErrorKind::TooLarge))
    );
    assert!(order_events(&folder).is_empty());
    receipt(client.submit(mail(1), &order()).await);
    assert_eq!(desk.requests().len(), 1);
}

/// R13: an order that rests belongs to nobody: another client of the same api, at whatever address, takes it up under its key.
#[tokio::test]
async fn an_order_of_nobody_is_found_by_everybody() {
    let (desk, folder) = (Desk::start().await, Folder::new());
    let away = OrderClient::new(folder.journal().await, brisk(NOBODY).name("shop").build().unwrap(), actor());
    let error = away.submit(mail(1), &order()).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.effect(), error.attempts()),
        (ErrorKind::NotSent, Effect::None, 4)
    );
    let here = OrderClient::new(folder.journal().await, brisk(&desk.url()).name("shop").build().unwrap(), actor());
    let sent = receipt(here.submit(mail(1), &order()).await);
    assert_eq!(Some(sent.key), error.key());
    assert_eq!(sent.attempts, 5, "attempts count over all runs");
}
