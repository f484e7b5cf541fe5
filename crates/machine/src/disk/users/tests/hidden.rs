//! Files whose users are only known as text: sources of erofs mounts, layers of overlays.

use super::*;

#[test]
fn a_file_may_be_in_a_layer_that_cannot_be_found() {
    let with = |layers: &str, more: &str| {
        let overlay = format!("proc/self/mountinfo = 5 1 0:50 / /om rw - overlay overlay rw,{layers}\n");
        let layer = "srv/layer/x = 1\n";
        Fixture::unpack(&format!("{}{MOUNTS}{overlay}{ON_FILE}{layer}{more}", disks())).unwrap()
    };
    let blind = |layers: &str| {
        let fixture = with(layers, "");
        let found = examine(&fixture.root, LOOP);
        found.watched.iter().map(|watched| watched.shown_on.overlays.len()).max().unwrap_or_default()
    };
    assert_eq!(blind("lowerdir=/srv/layer,upperdir=/srv/layer"), 0);
    let unknown = "lowerdir=layer lowerdir=/srv/layer:layer lowerdir=/gone upperdir=up,lowerdir=/srv/layer";
    for layers in unknown.split(' ') {
        assert_eq!(blind(layers), 1, "{layers}");
    }
    // All files of a saved tree are on one file system, so only names and inodes are compared.
    let fixture = with("lowerdir=layer", "");
    let watched = examine(&fixture.root, LOOP).watched.into_iter().next_back().unwrap();
    let FileOrDevice::File(own) = watched.thing else { panic!("no file") };
    let on = |major, minor, inode| {
        FileOrDevice::File(crate::disk::thing::FileId { system: DeviceNumber { major, minor }, inode })
    };
    let file = |minor, inode| on(0, minor, inode);
    let name = |name: &'static str| Some(std::ffi::OsStr::new(name));
    // With layers on several file systems the numbers are in no mount table: 51.
    for minor in [50, 51] {
        assert!(watched.may_show(file(minor, own.inode), None));
        assert!(watched.may_show(file(minor, own.inode + 1), name("disk.img")));
        assert!(!watched.may_show(file(minor, own.inode + 1), name("other.img")));
    }
    assert!(!watched.may_show(on(8, 51, own.inode), name("disk.img")));
    let mounted = "proc/self/mountinfo = 6 1 0:51 / /tmp rw - tmpfs tmpfs rw\n";
    for (fixture, minor) in [(with("lowerdir=layer", mounted), 51), (with("lowerdir=/srv/layer", ""), 50)] {
        let watched = examine(&fixture.root, LOOP).watched.into_iter().next_back().unwrap();
        let FileOrDevice::File(own) = watched.thing else { panic!("no file") };
        assert!(!watched.may_show(file(minor, own.inode), name("disk.img")));
    }
}

/// Returns the start of an erofs image with this number of extra devices.
fn erofs(others: u16) -> String {
    let mut bytes = vec![0; 1024 + 128];
    bytes[1024..1028].copy_from_slice(b"\xe2\xe1\xf5\xe0");
    bytes[1024 + 86..1024 + 88].copy_from_slice(&others.to_le_bytes());
    bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect()
}

#[test]
fn a_file_that_may_be_mounted_without_a_loop_device_is_in_use() {
    let mount = |source: &str, more: &str| {
        format!(
            "proc/self/mountinfo = 1 0 0:2 / / rw - tmpfs none rw\n\
             proc/self/mountinfo = 5 1 0:50 / /image rw - erofs {source} ro,acl{more}\n{ON_FILE}"
        )
    };
    let may = "reads from /srv/disk.img, which may be a file from which an erofs is mounted on /image";
    let image = erofs(0);
    let is = |file: &str, content: &str| format!("srv/{file} = {content}\n");
    let no_image = is("disk.img", "bytes");
    let whole = format!("{}{}", mount("/srv/image", ""), is("image", &image));
    assert_eq!(reported(&whole, LOOP), "", "another file is mounted, and it is whole");
    let blobs = format!("{}{}", mount("/srv/image", ""), is("image", &erofs(1)));
    assert!(reported(&blobs, LOOP).starts_with(may), "the image is in several files");
    for source in ["/srv/gone", "disk.img", "./gone", "none", "/srv/other.img"] {
        assert!(reported(&mount(source, ""), LOOP).starts_with(may), "{source}");
    }
    // Renamed, with another image at the path.
    let at = |offset: usize| format!("{}{image}", "\\x00".repeat(offset));
    let swapped = |more: &str, offset: usize, own: &str| {
        let disks = disks().replace(&no_image, &is("disk.img", own));
        let tree = format!("{disks}{}{}", mount("/srv/image", more), is("image", &at(offset)));
        let fixture = Fixture::unpack(&tree).unwrap();
        examine(&fixture.root, LOOP).users.join("; ")
    };
    assert!(swapped("", 0, &image).starts_with(may));
    assert!(swapped(",fsoffset=4096", 4096, &at(4096)).starts_with(may));
    assert_eq!(swapped(",fsoffset=4096", 4096, "bytes"), "");
    let hidden = format!("{MOUNTS}{ON_FILE}sys/fs/erofs/erofs-37/x = 1\n");
    assert!(reported(&hidden, LOOP).contains("in a mount namespace that cannot be seen"));
    let listed = format!(
        "{whole}sys/fs/erofs/erofs-37/x = 1\nsys/fs/erofs/loop4/x = 1\nsys/fs/erofs/features/x = 1\n"
    );
    assert_eq!(reported(&listed, LOOP), "");
    let said = reported(&mount("/srv/gone", ""), DISK);
    assert_eq!(said, "", "a device is claimed by what is mounted from it");
}
